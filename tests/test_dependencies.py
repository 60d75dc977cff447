"""The web libraries that are installed here are not older than the floors, and the floors are above known holes."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The first versions in which the holes named beside the floors were mended.
MENDED = {"h11": "0.16.0", "starlette": "1.3.1", "uvicorn": "0.11.7", "pydantic": "2.4.0"}


def number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:3])


def floors() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    return dict(requirement.split(">=") for requirement in needed)


@pytest.mark.parametrize("name", ["fastapi", "h11", "pydantic", "starlette", "uvicorn"])
def test_floors_are_above_known_holes_and_below_what_is_installed(name: str) -> None:
    floor = floors()[name]
    assert number(floor) >= number(MENDED.get(name, "0"))[: len(number(floor))]
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.skip("needs the extra: pip install 'holdcourse[serve]'")
    assert number(installed) >= number(floor)


def test_where_to_report_a_hole_is_written_down() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "private vulnerability report" in page
    assert "@" not in page.replace("`@`", "")  # no address that nobody reads
    assert "SECURITY.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
