"""Write a backtest into a folder: a page to look at, pictures, and tables for other programs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from holdcourse.archive import writing
from holdcourse.errors import InvalidInput
from holdcourse.wind.pictures import check_pictures, write_pictures
from holdcourse.wind.report_page import page
from holdcourse.wind.run import SiteResult
from holdcourse.wind.tables import write_decisions, write_summary


def write_report(results: Sequence[SiteResult], folder: str | Path, *, pictures: bool = True) -> list[Path]:
    """Write `report.html`, `summary.csv`, `decisions.csv` and, with the extra [plot], the pictures.

    Parameters
    ----------
    results
        One per site; they share one page and one pair of tables.
    folder
        Made if it does not exist; files of an earlier report in it are replaced.
    pictures
        Draw PNG files too. Raises `MissingExtra` before anything is written if they cannot be drawn.

    Returns
    -------
    The files written, the page first.
    """
    if not results:
        raise InvalidInput("there is no result to report")
    if pictures:
        check_pictures()
    folder = Path(folder)
    paths = [folder / name for name in ("report.html", "summary.csv", "decisions.csv")]
    with writing(folder):
        paths[0].write_text(page(results), encoding="utf-8")
        write_summary(results, paths[1])
        write_decisions(results, paths[2])
        for number, result in enumerate(results, 1):
            if pictures:
                paths += write_pictures(result, folder, "" if len(results) == 1 else f"{number}-{_slug(result.site)}-")
    return paths


def _slug(name: str) -> str:
    """A site's name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "site"
