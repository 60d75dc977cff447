"""More combinations of knobs than can be listed: settings by groups of knobs, each small, and costs that add up.

Ten knobs of ten values are 10^10 settings. Nothing here has a number for each of them. The knobs stand in **groups**,
and every array "by action" has one entry for each setting of each group, group after group: 100 numbers for ten knobs
of ten values. An action is one entry of each group. What a setting costs is the sum over its entries; a mask permits it
if it permits all of its entries; probabilities are those of each group.

So what cannot be written as a sum over groups is given up: whoever uses this must say so, and `describe_in_words` does.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import is_finite
from holdcourse.errors import InvalidInput, NoActionLeft, TooLarge, plain, shown
from holdcourse.movement.grid import Grid, said
from holdcourse.movement.knob import Knob, knob_of
from holdcourse.movement.problem import KNOBS, Problem
from holdcourse.movement.settings import TOLERANCE

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

MOST_IN_GROUP = 1_000  # settings
MOST_ENTRIES = 20_000  # of all groups together
MOST_ACTIONS = 2**62  # so many can be counted by a whole number of 64 bits


class Knobs(Problem):
    """Very many settings: the combinations of groups of knobs. Made by `knobs`.

    Attributes
    ----------
    groups
        A `Problem` for each group of knobs that are considered together.

    Examples
    --------
    >>> import holdcourse as hc
    >>> many = hc.knobs(**{f"k{i}": hc.knob(range(10), change=1.0) for i in range(10)})
    >>> many.n, many.entries
    (10000000000, 100)
    >>> many.value(1234567890)["k9"]
    0.0
    """

    def __init__(self, groups: Sequence[Problem], names: Sequence[str]) -> None:
        self.groups = tuple(groups)
        self._names = tuple(names)
        self._grid = None
        self._at_once = False
        self.n = math.prod(group.n for group in self.groups)
        if self.n > MOST_ACTIONS:
            raise TooLarge(
                f"there are {said(self.n)} combinations, but at most {said(MOST_ACTIONS)} can be counted; give fewer "
                "knobs, or fewer values"
            )
        if sum(group.n for group in self.groups) > MOST_ENTRIES:
            raise TooLarge(
                f"the groups have {sum(g.n for g in self.groups):,} settings in all, but at most {MOST_ENTRIES:,} fit; "
                "make smaller groups, or give fewer values"
            )
        self.metric_name, self.directed, self.has_coordinates = KNOBS, False, True
        self.labels = None
        self.units = ("",) * len(self._names)
        first = self.groups[0]
        self.fixed_cost, self.cost_unit = first.fixed_cost, first.cost_unit
        self.context_names, self.context_units = first.context_names, first.context_units
        self.scale = np.ones(len(self._names))

    @property
    def in_groups(self) -> bool:
        """Whether the actions are not listed, but are combinations of groups."""
        return True

    # -- arrays by action are arrays by entry ------------------------------------------------------------------------

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """The entries of each group."""
        ends = np.cumsum([0, *(group.n for group in self.groups)]).tolist()
        return tuple(slice(begin, end) for begin, end in itertools.pairwise(ends))

    @property
    def entries(self) -> int:
        """Length of every array by action: one entry for each setting of each group."""
        return int(self.parts[-1].stop)

    def within_groups(self, action: int) -> tuple[int, ...]:
        """Return the setting of each group, by its index within the group."""
        self.check_action(action)
        places: list[int] = []
        for group in reversed(self.groups):
            action, place = divmod(action, group.n)
            places.append(place)
        return tuple(reversed(places))

    def entries_of(self, action: int) -> tuple[int, ...]:
        """Return the entries that the action consists of, one for each group."""
        return tuple(part.start + place for part, place in zip(self.parts, self.within_groups(action), strict=True))

    def together(self, places: Sequence[int]) -> int:
        """Return the action that consists of these settings of the groups."""
        action = 0
        for group, place in zip(self.groups, places, strict=True):
            action = action * group.n + int(place)
        return action

    def read(self, array: Array, action: int) -> float:
        """Return the value of an action: the sum of its entries in the array."""
        return float(sum(array[entry] for entry in self.entries_of(action)))

    def permits(self, mask: Mask, action: int) -> bool:
        """Return whether a mask by entry permits an action, that is, all of its entries."""
        return bool(all(mask[entry] for entry in self.entries_of(action)))

    def entry_value(self, entry: int) -> Any:
        """Return the setting that an entry stands for: values of the knobs of one group."""
        for part, group in zip(self.parts, self.groups, strict=True):
            if entry < part.stop:
                return group.value(entry - part.start)
        raise InvalidInput(f"{entry} is not an entry; entries are numbered from 0 to {self.entries - 1}")

    # -- what a problem can be asked ---------------------------------------------------------------------------------

    def distance(self, i: int, j: int) -> float:
        """Return what the move from action i to action j costs."""
        pairs = zip(self.groups, self.within_groups(i), self.within_groups(j), strict=True)
        return float(sum(group.distance(a, b) for group, a, b in pairs))

    def move_costs(self, before: Any, after: Any) -> Array:
        """Return what each of several moves costs, (k,)."""
        return np.array([self.distance(int(i), int(j)) for i, j in zip(before, after, strict=True)])

    def costs_from(self, action: int) -> Array:
        """Return what turning each group from where it is to each of its settings costs, by entry."""
        return np.concatenate(
            [group.costs_from(place) for group, place in zip(self.groups, self.within_groups(action), strict=True)]
        )

    costs_to = costs_from

    def nearest(self, action: int, permitted: Mask) -> int:
        """Return the permitted action nearest to another one; group by group."""
        if not self.any_permitted(permitted):
            raise NoActionLeft("a group of knobs has no permitted setting; permit at least one in each group")
        places = self.within_groups(action)
        return self.together(
            [group.nearest(a, permitted[part]) for group, a, part in zip(self.groups, places, self.parts, strict=True)]
        )

    def value(self, action: int) -> dict[str, Any]:
        """Return the action in the user's words: the value of each knob by its name."""
        found: dict[str, Any] = {}
        for group, place in zip(self.groups, self.within_groups(action), strict=True):
            found |= group.value(place)
        return {name: found[name] for name in self._names}

    def index(self, setting: Any) -> int:
        """Return the action with these values of all knobs, by name."""
        setting = plain(setting)
        if not isinstance(setting, Mapping) or set(setting) != set(self._names):
            raise InvalidInput(f"{setting!r} is not a setting; give a value for each of {list(self._names)}")
        return self.together([group.index({n: setting[n] for n in group.axis_names or ()}) for group in self.groups])

    def text(self, action: int) -> str:
        """Return the action as people read it."""
        parts: dict[str, str] = {}
        for group, place in zip(self.groups, self.within_groups(action), strict=True):
            values = group.text(place).split(", ")
            parts |= dict(zip(group.axis_names or (), values, strict=True))
        return ", ".join(parts[name] for name in self._names)

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the knobs."""
        return self._names

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs, in the order of their names."""
        found = {n: k for group in self.groups for n, k in zip(group.axis_names or (), group.knobs or (), strict=True)}
        return tuple(found[name] for name in self._names)

    @property
    def actions(self) -> Array:  # type: ignore[override]
        """Raise an error, because the settings are not listed."""
        raise self._not_listed

    @property
    def _knobs(self) -> Grid:
        """Refuse: no grid of all knobs is made."""
        raise self._not_listed

    @property
    def _not_listed(self) -> TooLarge:
        return TooLarge(
            f"the {said(self.n)} settings of hc.knobs(...) are not listed, which this needs; use a policy for knobs, "
            "hc.knob_planner(...), or up to a million settings in hc.Problem(hc.grid(...))"
        )

    def entries_allowed(self, allowed: Any) -> Mask:
        """Return a mask by entry from the allowed values of some knobs, by name; others may have any value."""
        if isinstance(allowed, list | tuple | np.ndarray) and all(
            isinstance(each, bool | np.bool_) for each in allowed
        ):
            mask = np.array(allowed, dtype=np.bool_)
            if mask.shape == (self.entries,):
                return mask
        if not isinstance(allowed, Mapping) or not set(allowed) <= set(self._names):
            raise InvalidInput(
                f"allowed must list the values that may be chosen under the name of each knob, or be {self.entries} "
                f"booleans; the knobs are {list(self._names)}, got {shown(allowed)}"
            )
        masks = []
        for group in self.groups:
            mask = np.full(group.n, True)
            for axis, (name, knob) in enumerate(zip(group.axis_names or (), group.knobs or (), strict=True)):
                if name in allowed:
                    mask &= np.isin(group.actions[:, axis], _allowed_places(name, knob, plain(allowed[name])))
            masks.append(mask)
        return np.concatenate(masks)

    def describe(self) -> dict[str, Any]:
        """Return the problem in JSON values, from which `Problem.from_data` makes an equal one."""
        return {
            "knobs": [[name, knob.describe()] for name, knob in zip(self._names, self.knobs, strict=True)],
            "groups": [list(group.axis_names or ()) for group in self.groups],
            "fixed_cost": self.fixed_cost,
            "cost_unit": self.cost_unit,
            "context_names": None if self.context_names is None else list(self.context_names),
            "context_units": None if self.context_units is None else list(self.context_units),
            "labels": None,
        }

    def repriced(self, prices: Mapping[str, Any]) -> Problem:
        """Return the same settings with another fixed cost, the only price that is not a knob's own."""
        wrong = sorted(prices.keys() - {"fixed_cost"})
        if wrong:
            raise InvalidInput(
                f"{wrong[0]} cannot be changed for hc.knobs(...): each knob has a price of its own, and "
                f"{wrong[0]}={shown(prices[wrong[0]])} would apply to none of them. Change fixed_cost, or begin "
                "another record with knobs at the new prices, such as hc.knob(values, change=...)"
            )
        return super().repriced(prices)

    def has_settings_of(self, other: Problem) -> bool:
        """Return whether the settings are those of another problem, in the same groups."""
        if not isinstance(other, Knobs) or self._names != other._names or len(self.groups) != len(other.groups):
            return False
        pairs = zip(self.groups, other.groups, strict=True)
        return all(one.axis_names == two.axis_names and one.has_settings_of(two) for one, two in pairs)

    def describe_in_words(self) -> str:
        """Say which groups there are, and what they cannot express."""
        groups = [" with ".join(group.axis_names or ()) for group in self.groups]
        return (
            f"{said(self.n)} combinations in {len(groups)} groups: {'; '.join(groups)}. The cost is learned as a sum "
            "over these groups, and each is planned by itself. Effects that groups have only together are not seen, "
            "and a fixed cost is paid by every group that moves. Put knobs that act on each other "
            "into one group."
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for problems with the same groups."""
        digest = hashlib.sha256(" ".join(self._names).encode())
        for group in self.groups:
            digest.update((group.fingerprint + repr(group.axis_names)).encode())
        return digest.hexdigest()[:32]

    def __repr__(self) -> str:
        return f"Knobs({said(self.n)} combinations of {len(self._names)} knobs in {len(self.groups)} groups)"


def knobs(
    *,
    groups: Sequence[Sequence[str]] | None = None,
    fixed_cost: float | str = 0.0,
    cost_unit: str = "",
    context_names: Sequence[str] | None = None,
    context_units: Sequence[str] | None = None,
    **axes: Any,
) -> Knobs:
    """Describe more combinations of knobs than `grid` can list, for `knob_planner`.

    The cost of a setting is then a **sum over groups of knobs**. By default each knob is a group, and knobs that are
    turned `together` are in one. This has a price: if knobs of different groups are better turned together than one by
    one, the policy neither learns nor plans it; and each group that moves pays the fixed cost.

    Parameters
    ----------
    groups
        Names of knobs that affect each other, a list for each group. Every other knob is a group of its own.
    fixed_cost, cost_unit, context_names, context_units
        As in `Problem`; each group that moves pays the fixed cost.
    axes
        Knobs by name, as in `grid`. A knob cannot have the name of an option.

    Examples
    --------
    >>> import holdcourse as hc
    >>> database = hc.knobs(
    ...     groups=[("shared_buffers_gb", "work_mem_mb")],  # both take memory
    ...     shared_buffers_gb=hc.knob([1, 2, 4, 8], change=30.0),
    ...     work_mem_mb=hc.knob([4, 16, 64], change=1.0),
    ...     compression=hc.knob(["lz4", "zstd", "none"], change=1.0),
    ... )
    >>> [group.n for group in database.groups]
    [12, 3]
    """
    if not axes:
        raise InvalidInput("knobs needs at least one knob, such as workers=hc.knob([1, 2, 4], change=30.0)")
    found = {name: knob_of(axis, name) for name, axis in axes.items()}
    members = _joined(found, _groups(groups, list(found)))
    options: dict[str, Any] = {
        "fixed_cost": fixed_cost,
        "cost_unit": cost_unit,
        "context_names": context_names,
        "context_units": context_units,
    }
    problems = []
    for names in members:
        count = math.prod(len(found[name].values) for name in names)
        if count > MOST_IN_GROUP:
            raise TooLarge(
                f"the group {', '.join(names)} has {said(count)} settings, but at most {MOST_IN_GROUP:,} can be "
                "planned together; give fewer knobs the same group or the same `together`, or give fewer values"
            )
        problems.append(Problem(Grid(tuple(names), tuple(found[name] for name in names)), "cityblock", **options))
    return Knobs(problems, list(found))


def _allowed_places(name: str, knob: Knob, wanted: Any) -> list[float]:
    """The coordinates of some values of a knob; an error where they are none, or not some of its values."""
    given = [plain(each) for each in wanted] if isinstance(wanted, list | tuple | set | range) else []
    places = [knob.place(each) for each in given]
    if not knob.is_named:
        numbers = [each for each in given if is_finite(each) and not isinstance(each, bool)]
        places = [c for c in knob.coordinates if any(math.isclose(c, each, rel_tol=TOLERANCE) for each in numbers)]
    known = [place for place in places if place is not None]
    if not known or len(known) < len(given):
        raise InvalidInput(f"allowed {name}={wanted!r} must be a list of some of its values, {list(knob.values)}")
    return known


def _groups(given: Any, names: Sequence[str]) -> list[list[str]]:
    """Groups of names as somebody gave them; an error where they are no lists of names."""
    if given is None:
        return []
    listed = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    for group in listed:
        if isinstance(group, str) or not isinstance(group, Sequence):
            raise InvalidInput(
                f"groups must be lists of knobs that act on each other, such as [{tuple(names[:2])}], got "
                f"{shown(given)}"
            )
        unknown = [name for name in group if name not in names]
        if unknown:
            raise InvalidInput(f"groups names {shown(unknown[0])}, which is not a knob; the knobs are {list(names)}")
    return [list(group) for group in listed]


def _joined(knobs: Mapping[str, Knob], groups: list[list[str]]) -> list[list[str]]:
    """The names of each group, in the order of the knobs: those asked for, joined where knobs are turned together."""
    group_of = {name: k for k, name in enumerate(knobs)}
    words: dict[str, list[str]] = {}
    for name, knob in knobs.items():
        if knob.together:
            words.setdefault(knob.together, []).append(name)
    for names in (*groups, *words.values()):
        joined = {group_of[name] for name in names}
        for name in knobs:
            if group_of[name] in joined:
                group_of[name] = min(joined)
    found: dict[int, list[str]] = {}
    for name in knobs:
        found.setdefault(group_of[name], []).append(name)
    return list(found.values())
