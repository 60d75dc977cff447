"""The table of a trial: its rounds, cut into blocks and pairs of blocks, and what each block cost.

Blocks 2j and 2j + 1 are pair j; a fair coin says which of the two the policy has. A round belongs to the arm that it
was assigned to, whatever was played (intention to treat): an override changes what a round cost, not whose it was.

Movement is booked by one rule: each arm pays for its own virtual path, the one that it would have gone had it decided
throughout. The way between the two paths at the border of two blocks is a cost of the trial, not of an arm; it is kept
apart as switching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import flag, float_array, whole_number
from holdcourse.deciding.trial import BASELINE, POLICY
from holdcourse.errors import InvalidInput

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The rounds of a trial, in time order; arrays have one entry per round.

    Parameters
    ----------
    block
        Number of the block, counted from 0. Blocks 2j and 2j + 1 are a pair and have different arms.
    arm
        Arm to which the block was assigned: 0 for the baseline, 1 for the policy.
    cost
        Measured cost, or reward if `maximise`; NaN if it was lost.
    movement
        Movement cost of the arm's own virtual path; never negative.
    predicted
        Cost of the round that was expected when its *pair* began, whichever arm has it, so that it does not depend on
        the coin. NaN if nothing was predicted.
    reference
        Signal that neither arm can change: a mast, a twin machine, a price; or several, shape (T, k). NaN if there is
        none.
    switching
        Movement cost in addition to the arm's own movement, in rounds in which the path of the other arm was left; zero
        within blocks. It is negative if the move over costs less than the arm's own move.
    overridden
        Whether something other than the rule's action was played.
    length
        Number of rounds of a whole block; a shorter block, such as the newest, does not count. Default: the length of
        the longest block.
    maximise
        Whether `cost`, `predicted` and `reference` are gains.

    Examples
    --------
    >>> table = Blocks(block=[0, 0, 1, 1, 2, 2], arm=[1, 1, 0, 0, 0, 0], cost=[2.0, 4.0, 5.0, np.nan, 1.0, 1.0])
    >>> table.pairs, table.net.tolist(), table.lost.tolist()
    (1, [[3.0, 5.0]], [1, 0])
    """

    block: Indices
    arm: Indices
    cost: Array
    movement: Array = None  # type: ignore[assignment]
    predicted: Array = None  # type: ignore[assignment]
    reference: Array = None  # type: ignore[assignment]
    switching: Array = None  # type: ignore[assignment]
    overridden: NDArray[np.bool_] = None  # type: ignore[assignment]
    length: int = 0
    maximise: bool = False
    _first: Indices = field(init=False, repr=False)  # of each round, the round in which its block began

    def __post_init__(self) -> None:
        block = _whole(self.block, "block")
        rounds = len(block)
        if (np.diff(block) < 0).any() or (rounds and block[0] < 0):
            raise InvalidInput("block must count up from 0 in the order of the rounds; sort the rounds by time first")
        arm = _whole(self.arm, "arm")
        given: dict[str, Any] = {"block": block, "arm": arm, "maximise": flag(self.maximise, "maximise")}
        absent = {"movement": 0.0, "predicted": np.nan, "reference": np.nan, "switching": 0.0}
        for name in ("cost", *absent):
            column = getattr(self, name)
            given[name] = np.full(rounds, absent[name]) if column is None else float_array(column, name)
            if np.isinf(given[name]).any():
                raise InvalidInput(
                    f"{name} is infinite in round {int(np.argmax(np.isinf(given[name])))}; give NaN for a round that "
                    "was lost"
                )
        for name, least in (("movement", 0.0), ("switching", -np.inf)):
            bad = ~(given[name] >= least)  # NaN is bad too
            if bad.any():
                at = int(np.argmax(bad))
                needed = "0 or more" if least == 0 else "a number"
                raise InvalidInput(f"{name} must be {needed}, got {given[name][at]:g} in round {at}")
        overridden = np.zeros(rounds, dtype=bool) if self.overridden is None else np.array(self.overridden, dtype=bool)
        given["overridden"] = overridden
        if given["reference"].ndim == 1:
            given["reference"] = given["reference"][:, None]
        for name, column in given.items():
            if name != "maximise" and (column.shape != (rounds,) if name != "reference" else len(column) != rounds):
                raise InvalidInput(f"{name} must have one entry per round, {rounds}, got shape {column.shape}")
        if not np.isin(arm, (BASELINE, POLICY)).all():
            at = int(np.argmin(np.isin(arm, (BASELINE, POLICY))))
            raise InvalidInput(f"arm must be 0 (baseline) or 1 (policy), got {arm[at]} in round {at}")
        starts = np.flatnonzero(np.diff(block, prepend=-1) > 0) if rounds else np.zeros(0, dtype=np.int64)
        counts = np.diff(np.append(starts, rounds))
        given["_first"] = np.repeat(starts, counts)
        given["length"] = whole_number(self.length, "length", 0) or int(counts.max(initial=1))
        mixed = arm != arm[given["_first"]]
        if mixed.any():
            raise InvalidInput(f"block {block[np.argmax(mixed)]} has rounds of both arms; a block belongs to one")
        same = (np.diff(block[starts]) == 1) & (block[starts][:-1] % 2 == 0) & (np.diff(arm[starts]) == 0)
        if same.any():
            first = int(block[starts][np.argmax(same)])
            raise InvalidInput(
                f"blocks {first} and {first + 1} are a pair but have the same arm; give each arm one block of every "
                "pair"
            )
        for name, column in given.items():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
            object.__setattr__(self, name, column)

    @cached_property
    def _all_pairs(self) -> Indices:
        """First round of both blocks of every pair whose blocks are whole, measured or not; (pairs, 2)."""
        starts = np.unique(self._first)
        whole = np.bincount(self._first, minlength=len(self.block) + 1)[starts] >= self.length
        numbers = self.block[starts]
        first = np.flatnonzero(whole[:-1] & whole[1:] & (numbers[:-1] % 2 == 0) & (np.diff(numbers) == 1))
        return np.stack([starts[first], starts[first + 1]], axis=1)

    @cached_property
    def _lost(self) -> Indices:
        """Rounds without a measurement in both blocks of every pair whose blocks are whole; (pairs, 2)."""
        return np.bincount(self._first[np.isnan(self.cost)], minlength=len(self.block) + 1)[self._all_pairs]

    @cached_property
    def _measured(self) -> NDArray[np.bool_]:
        """Whether both blocks were measured at least once, of every pair whose blocks are whole; (pairs, 2)."""
        rounds = np.bincount(self._first, minlength=len(self.block) + 1)[self._all_pairs]
        return np.asarray(self._lost < rounds)

    @cached_property
    def _whole_pairs(self) -> Indices:
        """First round of both blocks of every pair that counts: both are whole and were measured; (pairs, 2)."""
        return np.asarray(self._all_pairs[self._measured.all(axis=1)])

    def means(self, values: Array, within: NDArray[np.bool_] | None = None) -> Array:
        """Return the means of both blocks of every pair over the rounds that have a value; NaN if none has."""
        there = np.isfinite(values) if within is None else np.isfinite(values) & within
        size = len(self.block) + 1
        count = np.bincount(self._first[there], minlength=size)
        total = np.bincount(self._first[there], weights=values[there], minlength=size)
        with np.errstate(invalid="ignore"):
            return np.asarray((total / count)[self._whole_pairs]) if len(self._whole_pairs) else np.zeros((0, 2))

    @property
    def pairs(self) -> int:
        """Number of pairs that count: both blocks whole, and both measured at least once."""
        return len(self._whole_pairs)

    @property
    def coins(self) -> Array:
        """Outcome of each coin: +1 if the policy had the pair's first block, -1 if it had the second; (pairs,)."""
        return np.where(self.arm[self._whole_pairs[:, 0]] == POLICY, 1.0, -1.0)

    @cached_property
    def net(self) -> Array:
        """Net cost per round of the first and second block of every pair, (pairs, 2); rewards count as negative costs.

        The mean of what was measured, plus the mean movement: a round that was lost is taken to have cost what the
        others of its block did.
        """
        return self.net_after(0)

    def net_after(self, rounds: int) -> Array:
        """Return `net` without the first rounds of every block, in which the other arm may still have an effect."""
        later = np.arange(len(self.block)) - self._first >= rounds
        sign = -1.0 if self.maximise else 1.0
        return sign * self.means(self.cost, later) + self.means(self.movement, later)

    @cached_property
    def predictions(self) -> Array:
        """Predicted cost per round of both blocks of every pair, (pairs, 2); NaN where nothing was predicted."""
        return self.means(self.predicted)

    @cached_property
    def references(self) -> Array:
        """Mean reference signals of both blocks of every pair, (pairs, 2, k), in the rounds that were measured."""
        measured = np.isfinite(self.cost)
        return np.stack([self.means(signal, measured) for signal in self.reference.T], axis=-1)

    @property
    def began(self) -> Indices:
        """First round of every pair, (pairs,)."""
        return np.asarray(self._whole_pairs[:, 0])

    @property
    def lost(self) -> Indices:
        """Number of rounds without a measurement, of the baseline and of the policy, in all blocks; (2,)."""
        return np.bincount(self.arm[np.isnan(self.cost)], minlength=2)

    @property
    def left_out(self) -> Indices:
        """Pairs that do not count because nothing was measured in the block of the baseline, of the policy; (2,)."""
        return np.bincount(self.arm[self._all_pairs[~self._measured]], minlength=2)

    @property
    def uneven(self) -> float:
        """Excess of rounds lost in the policy's blocks, in standard deviations of the coin; 0 if none was lost.

        If losing a round did not depend on the arm, the coin alone would determine which arm has the losses of a pair.
        """
        sign = np.where(self.arm[self._all_pairs] == POLICY, 1, -1)
        more = (sign * self._lost).sum(axis=1)
        return float(more.sum() / np.sqrt((more**2).sum())) if more.any() else 0.0

    @property
    def redirected(self) -> Indices:
        """Number of rounds in which something other than the rule's action was played; (2,)."""
        return np.bincount(self.arm[self.overridden], minlength=2)


def joined(tables: Sequence[Blocks]) -> Blocks:
    """Join the tables of successive trials with blocks of equal length; each trial begins with a new pair."""
    parts: dict[str, list[NDArray[Any]]] = {}
    after = 0
    for table in tables:
        columns = {each.name: getattr(table, each.name) for each in fields(table) if each.init}
        columns["block"] = table.block + after
        for name, column in columns.items():
            if isinstance(column, np.ndarray):
                parts.setdefault(name, []).append(column)
        after = 2 * (int(columns["block"][-1]) // 2 + 1)
    whole: dict[str, Any] = {name: np.concatenate(each) for name, each in parts.items()}
    return Blocks(**whole, length=tables[0].length, maximise=tables[0].maximise)


def _whole(given: ArrayLike, what: str) -> Indices:
    values = np.asarray(given)
    if values.ndim != 1 or not (np.issubdtype(values.dtype, np.integer) or values.size == 0):
        raise InvalidInput(f"{what} must be whole numbers, one per round, got shape {values.shape} of {values.dtype}")
    return values.astype(np.int64)
