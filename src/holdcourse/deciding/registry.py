"""The table of policies. Each entry has a name, a maker, what the policy must be shown, and its look in figures.

Names are spelled the same everywhere: on the command line, in the service, in sweep files, tables and records. An entry
has a maker for each kind of world in which the policy can run, as an import path that is loaded on first use:

=========  =======================================================================================================
kind       what the maker is called with
=========  =======================================================================================================
problem    the problem, and by name the options of the policy
cells      the same, for policies that only ``holdcourse compare`` knows
wind       the `Setting` of a wind backtest
plants     the arguments that the functions in ``worlds.plants.rivals`` take
recipe     the problem, and by name everything that was learned or chosen: for policies that were first made for another
           kind of world, and are made again from a file or a record
=========  =======================================================================================================

To register a policy, add an entry. Entry points in the group ``holdcourse.policies`` and import paths such as
``my_package.my_module:my_policy`` or ``folder/file.py:my_policy`` are looked up as if they were entries.

Examples
--------
>>> import holdcourse as hc
>>> entry = hc.registry.entry_of("gp-md")
>>> entry.label, entry.shown
('GP-MD', 'measurements')
>>> entry.maker()(hc.Problem([0.0, 0.5, 1.0])).name
'GP-MD'
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from holdcourse.errors import InvalidInput, shown

Kind: TypeAlias = Literal["problem", "cells", "wind", "plants", "recipe"]
Shown: TypeAlias = Literal["nothing", "measurements", "history", "costs", "hindsight"]
Maker: TypeAlias = Callable[..., Any]

ENTRY_POINTS = "holdcourse.policies"
# After Okabe and Ito, for people who see colours differently. All lie between 3:1 contrast on white and on a dark page,
# so that one colour serves both; dashes tell apart those that know what nobody could measure.
OTHER_COLOURS = ("#5f8f00", "#3f78d8", "#b06000", "#9a5bd0", "#2f9a88")
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
UNMOVED, AFTERWARDS = (1.0, 1.0), (6.0, 2.0, 1.0, 2.0)


class Options(NamedTuple):
    """The options of a policy by name: all, those that must be given, and whether those of `Learning` are included."""

    names: frozenset[str]
    required: tuple[str, ...]
    learns: bool


@dataclass(frozen=True)
class Entry:
    """A policy, or what a policy is compared with.

    Attributes
    ----------
    name
        Name of the policy, in lower case and with hyphens.
    label
        Name in figures and tables.
    sentence
        What the policy does, in a sentence.
    shown
        What the policy must be shown: "nothing"; "measurements", from which it learns; a "history", measured before it
        begins; the true "costs" of every action in each round; or "hindsight", all costs in advance, for bills that
        policies are compared with.
    makers
        Makers by kind of world: an import path ``module:name``, or the function itself.
    colour, dash
        Colour and dashes of its line in pictures; dashes are lengths on and off, none for a solid line. An entry
        without a colour gets one of `OTHER_COLOURS`.
    required
        Options that the maker requires.
    own_width
        Whether the policy has a width of its own; then it does not get the width of the other learners in a sweep.
    stroke
        Other properties of its line, with matplotlib's names: width, opacity, order.
    context
        Context in a wind backtest: the "hour" of the day, as in the paper, or the "time" in hours since 1970.
    on_request
        Whether a wind backtest flies the policy only if it is named.
    source
        Entry point or import path, for code that is not ours.
    """

    name: str
    label: str
    sentence: str
    shown: Shown = "nothing"
    makers: Mapping[Kind, str | Maker] = field(default_factory=dict)
    colour: str = ""
    dash: tuple[float, ...] = ()
    required: tuple[str, ...] = ()
    own_width: bool = False
    stroke: Mapping[str, float] = field(default_factory=dict)
    context: Literal["hour", "time"] = "hour"
    on_request: bool = False
    source: str | None = None

    @property
    def knowing(self) -> bool:
        """Whether the policy knows more than a machine could measure."""
        return self.shown in ("costs", "hindsight")

    def maker(self, kind: Kind = "problem") -> Maker:
        """Return the maker for a kind of world."""
        if kind not in self.makers:
            raise InvalidInput(f"policy {self.name!r} cannot be made here; choose one of {', '.join(names(kind))}")
        made_by = self.makers[kind]
        return load(made_by) if isinstance(made_by, str) else made_by

    def options(self, kind: Kind = "problem") -> Options:
        """Return the options that its maker takes in addition to the problem."""
        from holdcourse.deciding.policy import Learning  # numbers, which the table alone does without

        parameters = list(inspect.signature(self.maker(kind)).parameters.values())[1:]  # the first is the problem
        own = [each for each in parameters if each.kind in NAMED]
        learns = any(each.kind is each.VAR_KEYWORD for each in parameters)
        names = frozenset(each.name for each in own).union(Learning.__annotations__ if learns else ())
        needed = tuple(each.name for each in own if each.default is each.empty or each.name in self.required)
        return Options(names, needed, learns)


def _ours() -> Iterable[Entry]:
    """Return the policies of the package, in the order of legends and tables."""
    named, planning, wind = (
        "holdcourse.deciding.policy",
        "holdcourse.deciding.planning",
        "holdcourse.wind.policy.policies",
    )
    cells = "holdcourse.experiments.comparison"
    rivals = "holdcourse.worlds.plants.rivals"
    yield Entry(
        "fixed",
        "Fixed",
        "Holds the setting that was best in the past, as you would without a controller.",
        "history",
        {"problem": f"{named}:fixed", "wind": f"{wind}:fixed", "plants": f"{rivals}:fixed_on_history"},
        "#737a82",
        UNMOVED,
        required=("history",),
    )
    yield Entry(
        "wind-planner",
        "Wind planner",
        "Predicts the wind and plans 12 hours ahead. Moves if it expects the next hours to pay for the move.",
        "measurements",
        {"wind": f"{wind}:wind_planner", "recipe": "holdcourse.wind.policy.planner:planned"},
        "#c4455d",
        context="time",
    )
    yield Entry(
        "recommended",
        "Recommended",
        "The policy that we would run. It chooses a method that suits your data, and says what it chose.",
        "measurements",
        {"problem": "holdcourse.deciding.recommended:recommended"},
        "#b23da2",
        own_width=True,
    )
    yield Entry(
        "planner",
        "Planner",
        "Learns what each setting costs and which contexts follow which, and plans moves that pay.",
        "measurements",
        {"problem": f"{planning}:planner", "wind": f"{wind}:planner"},
        "#2b9318",
        own_width=True,
        on_request=True,  # slow, and the hour of the day says little about the wind
    )
    yield Entry(
        "gp-md",
        "GP-MD",
        "The paper's algorithm: learns what each setting costs and moves with care, by mirror descent on a tree.",
        "measurements",
        {"problem": f"{named}:gp_md", "wind": f"{wind}:gp_md"},
        "#0077bb",
        stroke={"linewidth": 1.8, "zorder": 2.1},
    )
    yield Entry(
        "gp-md-1",
        "GP-MD, width 1",
        "GP-MD with bounds of width 1 instead of the paper's 2.",
        "measurements",
        {"cells": f"{cells}:narrow_gp_md"},
        "#8348ff",
    )
    yield Entry(
        "cgp-lcb",
        "CGP-LCB",
        "Learns what each setting costs and ignores what moving costs.",
        "measurements",
        {"problem": f"{named}:cgp_lcb", "wind": f"{wind}:cgp_lcb"},
        "#d55e00",
        stroke={"linewidth": 5.5, "alpha": 0.55, "zorder": 1.9},  # it often does as GP-MD: a thin line on a wide one
    )
    yield Entry(
        "proximal-lcb",
        "Proximal-LCB",
        "Learns what each setting costs, and chooses the lowest sum of lower bound and move.",
        "measurements",
        {"problem": f"{named}:proximal_lcb"},
        "#cc704c",
    )
    yield Entry(
        "hedged",
        "Hedged",
        "Follows whichever of several policies does well, without running back and forth between them.",
        "measurements",
        {"problem": "holdcourse.deciding.recipe:hedged_of", "cells": f"{cells}:planner_and_gp_md"},
        "#00a77a",
        required=("policies",),
    )
    yield Entry(
        "trial",
        "Trial",
        "A policy and a baseline take turns in blocks, in an order drawn at random, so that the gain is measured.",
        "measurements",
        {"recipe": "holdcourse.deciding.trial:trial_of"},
        "#6d6d3f",
        (2.0, 2.0, 6.0, 2.0),
        required=("policy", "baseline", "block"),
    )
    yield Entry(
        "planner-forecast",
        "Planner, forecast",
        "The planner with perfect forecasts of the next contexts.",
        "measurements",
        {"cells": f"{planning}:planner"},
        "#2b9318",
        (8.0, 1.5),
    )
    yield Entry(
        "planner-shuffled",
        "Planner, shuffled",
        "The planner with forecasts that were shuffled, and so are wrong.",
        "measurements",
        {"cells": f"{planning}:planner"},
        "#2b9318",
        (2.0, 1.5),
    )
    yield Entry(
        "planner-known",
        "Planner-Known",
        "The planner, which knows the true costs of every round.",
        "costs",
        {"problem": f"{planning}:planner_known"},
        "#44a08f",
        (8.0, 2.0),
    )
    yield Entry(
        "md-known",
        "MD-Known",
        "Mirror descent that knows this round's cost of every setting.",
        "costs",
        {"problem": f"{named}:md_known", "wind": f"{wind}:md_known"},
        "#cc6f9e",
        (5.0, 1.5),
    )
    yield Entry(
        "minc-known",
        "MinC-Known",
        "Runs the cheapest setting of every round, whatever the move costs.",
        "costs",
        {"problem": f"{named}:minc_known", "wind": f"{wind}:minc_known"},
        "#8a6cc0",
        (3.0, 1.0, 1.0, 1.0),
    )
    yield Entry(
        "stationary",
        "Stationary",
        "Stays at the setting where the run begins, for comparison.",
        "nothing",
        {"problem": f"{named}:stationary", "wind": f"{wind}:stationary", "plants": f"{rivals}:stay"},
        "#4a96a3",
        UNMOVED,
    )
    yield Entry(
        "table",
        "Table",
        "A table of past measurements for each bin of the contexts. Moves only if that pays within hours.",
        "measurements",
        {"plants": f"{rivals}:table", "recipe": f"{rivals}:table"},
        "#7a8b00",
        dash=(3.0, 3.0),
    )
    yield Entry(
        "operators",
        "Operators",
        "What operators did before: they hold one setting, and try another nearby now and then.",
        "nothing",
        {"plants": f"{rivals}:operators", "recipe": f"{rivals}:operators"},
        "#a8684f",
        (1.0, 1.0, 4.0, 1.0),
    )
    yield Entry(
        "wake-planner",
        "Wake planner",
        "Plans yaw offsets by the energy expected in future wind and the cost of turning.",
        "nothing",
        {"recipe": "holdcourse.wakes.planning:planned"},
        "#c8475f",
        (8.0, 1.0),
    )
    yield Entry(
        "wake-learner",
        "Wake learner",
        "The wake planner with a wake model that the farm's own power corrects, and a promise against not steering.",
        "measurements",
        {"recipe": "holdcourse.wakes.learning:learning"},
        "#b3640a",
        (6.0, 1.5),
    )
    yield Entry(
        "knob-planner",
        "Knob planner",
        "Plans many knobs group by group, with a cost that it learns as a sum over the groups.",
        "measurements",
        {"recipe": "holdcourse.deciding.planning.knob_plan:knob_planner"},
        "#4a7f8c",
        (6.0, 1.5),
    )
    yield Entry(
        "fixed-at",
        "Fixed at",
        "Always runs one given setting.",
        "nothing",
        {"problem": f"{named}:fixed_at"},
        "#8b7f78",
        (1.0, 2.5),
        required=("setting",),
    )
    yield Entry(
        "as-run",
        "as run",
        "What was done in reality.",
        "hindsight",
        colour="#7d7d7d",
        dash=(3.0, 3.0),
    )
    yield Entry(
        "best-fixed",
        "best fixed",
        "The best fixed setting in hindsight; known only afterwards.",
        "hindsight",
        colour="#a07020",
        dash=AFTERWARDS,
    )
    yield Entry(
        "clairvoyant",
        "Clairvoyant",
        "Perfect hindsight: the best path through all rounds, known in advance.",
        "hindsight",
        colour="#009e73",
        dash=AFTERWARDS,
    )


TABLE: dict[str, Entry] = {entry.name: entry for entry in _ours()}


def add(entry: Entry) -> Entry:
    """Add a policy, or replace the policy with that name."""
    TABLE[entry.name] = entry
    return entry


def names(kind: Kind | None = None, *, shown: Collection[Shown] | None = None, ready: bool = False) -> list[str]:
    """Return the names of the policies, in the order of the table.

    Parameters
    ----------
    kind
        Kind of world for which the policies must have a maker; None for all.
    shown
        What the policies may be shown; None for all.
    ready
        Whether to leave out policies that require an option.
    """
    return [
        name
        for name, entry in TABLE.items()
        if (kind is None or kind in entry.makers)
        and (shown is None or entry.shown in shown)
        and not (ready and entry.required)
    ]


def entry_of(name: str, kind: Kind | None = None) -> Entry:
    """Return the entry of a name, an entry point or an import path; if there is none, the error suggests similar names.

    Parameters
    ----------
    kind
        Kind of world for which the policy must have a maker.
    """
    if not isinstance(name, str):
        raise InvalidInput(f"a policy is named by text, such as 'recommended', got {shown(name)}")
    found = TABLE.get(name)
    if found is None and ":" in name:
        found = Entry(name, name, "", makers={"problem": load(name)}, source=name)
    if found is None and is_installed(name):
        (point, *_) = entry_points(group=ENTRY_POINTS, name=name)
        found = Entry(name, name, "", makers={"problem": _callable(point.load(), name)}, source=ENTRY_POINTS)
    if found is None or (kind is not None and kind not in found.makers):
        raise unknown(name, names(kind))
    return found


def is_installed(name: str) -> bool:
    """Return whether a policy of this name is an entry point of an installed package, and none of the table."""
    return name not in TABLE and bool(entry_points(group=ENTRY_POINTS, name=name))


def unknown(name: str, known: Collection[str]) -> InvalidInput:
    """Return the error about a name that is not among those known."""
    near = difflib.get_close_matches(name.lower().replace("_", "-"), known, 3, 0.75)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return InvalidInput(f"policy {name!r} is not known{hint}; choose one of {', '.join(known)}")


def make(name: str, problem: Any, **options: Any) -> Any:
    """Make the policy of a name, an entry point or an import path, and keep in it how it was made.

    So the policy can be saved, and a record of its decisions can be verified without further code.

    Parameters
    ----------
    name
        Name of the policy, such as ``"gp-md"``, or the import path of your own: ``"my_package.my_module:mine"`` or
        ``"folder/mine.py:mine"``.
    problem
        The `Problem`.
    options
        Options of the policy, by name. A policy can be saved if they are numbers, texts, lists, or values that our
        policies take.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.registry.make("gp-md", hc.Problem([0.0, 0.5, 1.0]), tau=6.0).made_by[1]["tau"]
    6.0
    """
    from holdcourse.deciding.policy import Policy  # numbers, which the table alone does without

    entry = entry_of(name, "problem")
    made = entry.maker()(problem, **options)
    if not isinstance(made, Policy):
        raise InvalidInput(f"policy {name!r} returned {made!r}; it must return a holdcourse Policy")
    return made if made.made_by is not None else replace(made, made_by=(name, options))


def label_of(name: str) -> str:
    """Return the name of a policy in figures and tables; for a policy outside the table, its name."""
    return TABLE[name].label if name in TABLE else name


def is_knowing(name: str) -> bool:
    """Return whether a policy knows more than a machine could measure; one that is not in the table does not."""
    return name in TABLE and TABLE[name].knowing


def colour_of(name: str) -> str:
    """Return the colour of a policy; a policy without one gets a colour by its place in the table or its name."""
    if name in TABLE and TABLE[name].colour:
        return TABLE[name].colour
    plain = [other for other, entry in TABLE.items() if not entry.colour]
    place = plain.index(name) if name in plain else int(hashlib.sha256(name.encode()).hexdigest(), 16)
    return OTHER_COLOURS[place % len(OTHER_COLOURS)]


def load(source: str) -> Maker:
    """Import and return the function of an import path, ``package.module:name`` or ``folder/file.py:name``."""
    module_name, colon, name = source.rpartition(":")
    if not colon:
        raise InvalidInput(f"{source!r} is not an import path; write it like my_package.my_module:my_function")
    module = _from_file(Path(module_name)) if module_name.endswith(".py") else _from_package(module_name, source)
    if not hasattr(module, name):
        raise InvalidInput(f"cannot import {source!r}: {module_name} has no {name!r}")
    return _callable(getattr(module, name), source)


def _from_package(module_name: str, source: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(f"cannot import {source!r}: {error}") from None


def _from_file(path: Path) -> Any:
    """Load a module from a file: the same one, with the same classes, until the file is changed."""
    try:
        code = path.read_bytes()
    except OSError:
        raise InvalidInput(f"there is no file {path}; check the path") from None
    name = f"holdcourse_user_{path.stem}_{hashlib.sha256(bytes(path.resolve()) + code).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise InvalidInput(f"{path} is not a Python file; give one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        exec(compile(code, path, "exec"), vars(module))  # an import might take an older copy from a cache
    except Exception as error:
        del sys.modules[name]
        raise InvalidInput(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def _callable(found: Any, source: str) -> Maker:
    if not callable(found):
        raise InvalidInput(f"{source!r} is a {type(found).__name__}, which cannot be called; name a function")
    return found  # type: ignore[no-any-return]
