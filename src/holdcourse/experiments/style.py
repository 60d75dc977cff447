"""How figures look: the colours of the table of policies, and readable from the back row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdcourse.archive import writing
from holdcourse.deciding import registry
from holdcourse.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTINGS: dict[Any, Any] = {
    "font.size": 14,
    "axes.titlesize": 15,
    "axes.labelsize": 14,
    "lines.linewidth": 2.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "holdcourse",  # equal figures give equal files
    "svg.fonttype": "none",
}
PANEL = (4.8, 3.6)  # inches


def line_of(policy: str) -> dict[str, Any]:
    """Return the colour, dashes and width of a policy, as the table of policies says."""
    entry = registry.TABLE.get(policy)
    style: Any = (0, entry.dash) if entry and entry.dash else "-"
    return {"color": registry.colour_of(policy), "linestyle": style, **(entry.stroke if entry else {})}


def in_order(policies: Sequence[str]) -> list[str]:
    """Order names: ours first, in the order of the table, then others by name."""
    known = [name for name in registry.names() if name in policies]
    return known + sorted(name for name in policies if name not in known)


@contextmanager
def drawing() -> Iterator[None]:
    """Let matplotlib draw in our style within; outside nothing changes."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra(
            f'figures need matplotlib ({error}); install it with: pip install "holdcourse[plot]"'
        ) from None
    with mpl.rc_context(SETTINGS):
        yield


def blank(rows: int = 1, columns: int = 1, size: tuple[float, float] = PANEL) -> tuple[Figure, list[Axes]]:
    """Make a figure of panels, in reading order. No window is opened and no global state touched."""
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(size[0] * columns, size[1] * rows + (0.6 if rows * columns > 1 else 0)), layout="constrained"
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.ravel())


def shared_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Put one legend under all panels."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    order = [label for label in map(registry.label_of, registry.names()) if label in entries]
    order += [label for label in entries if label not in order]
    figure.legend([entries[label] for label in order], order, loc="outside lower center", ncols=6, frameon=False)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with drawing(), writing(folder):
        figure.savefig(paths[0], dpi=80)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
