"""Which offset vectors matter, and what published rules make of FLORIS' lookup table.

**Settings.** FLORIS' serial refine gives the best offsets at every direction and speed. They are rounded to whole steps
(5 degrees), and an offset that gains next to nothing is dropped, turbine by turbine. What is left are the candidates,
some dozens of distinct vectors. Of these, settings are taken one after the other, each time the one that adds most to
the energy that is expected when the wind has moved on by the usual amount; vectors that add next to nothing are left
out. No steering is always the first setting.

**Rules.** A rate limit smooths the lookup table over direction and speed; a hysteresis holds a turbine's offset in
zones around directions where the table jumps. Both as hycon describes them (its design tools for wake steering, read in
November 2026): the rate limit is the mean of a pass in rising and one in falling direction, each limited in degrees of
offset per degree of direction and per m/s; a zone of a given width lies around every direction at which the offset
changes from one side to the other by a jump of at least 10 degrees per degree of direction, at any speed, and zones
that overlap are one. (hycon's code takes every such jump, also from and to no offset, for the middle of a zone. With
zones around these too a hysteresis of 8 degrees kept a sixth of the gain at La Haute Borne, so we follow its
documentation, which speaks of transitions between negative and positive offsets, and is the stronger rival.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput
from holdcourse.wakes.farm import FlorisModel, WakeModel
from holdcourse.wakes.groups import GroupedModel, digest_of
from holdcourse.wakes.table import EnergyTable

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

MOST = 25.0  # degrees
STEP = 5.0
DIRECTION_STEP = 2.0
SPEEDS = tuple(float(speed) for speed in range(3, 15))
WORTHLESS = 2e-4  # of the farm's power: an offset that gains less is dropped
ENOUGH = 0.995  # of the gain that all candidates give
MOST_SETTINGS = 96
MOST_CANDIDATES = 150  # vectors that settings are chosen from
TOGETHER = 25  # vectors that are computed at once: groups of a large farm have cases in common
BLUR = 5.0  # degrees: what a direction may turn by, where no record says
JUMP = 10.0  # degrees of offset per degree of direction
SPEED_LIMIT = 10.0  # degrees of offset per m/s, of a rate limit


def build_table(
    model: WakeModel,
    *,
    most: float = MOST,
    step: float = STEP,
    direction_step: float = DIRECTION_STEP,
    speeds: tuple[float, ...] = SPEEDS,
    most_settings: int = MOST_SETTINGS,
    progress: Callable[[str, float], None] | None = None,
) -> EnergyTable:
    """Compute a farm's energy table: settings chosen from the model, and the power of each in every wind.

    Parameters
    ----------
    model
        The farm's wake model: a `FlorisModel`, or a `GroupedModel` of a large farm.
    most, step
        Largest offset and the step of offsets, degrees.
    direction_step, speeds
        Step of directions in degrees, which must divide 360, and wind speeds in m/s.
    most_settings
        Largest number of offset vectors to choose from.
    progress
        Function that is called with what is being done and the share that is done.
    """
    if len(model.farm) < 2:
        raise InvalidInput(
            f"{model.farm.name} has one turbine, so there is no wake to steer; give a farm of two or more"
        )
    told = progress or (lambda what, share: None)
    grid = wind_grid(direction_step, speeds, most, step)
    directions, pairs, shape = grid.directions, (grid.direction, grid.speed), grid.shape
    told("looking for the best offsets", 0.0)
    found = rounded_best(model, grid, most, step, lambda share: told("looking for the best offsets", 0.1 * share))
    told("dropping offsets that gain nothing", 0.1)
    best = tidied(model, pairs[0], pairs[1], found)
    candidates = np.unique(best, axis=0)
    zero = np.zeros((1, candidates.shape[1]))
    candidates = np.concatenate([zero, candidates[candidates.any(axis=1)]])
    made, alone = (model.power(*pairs, each).sum(axis=1) for each in (best, np.zeros_like(best)))
    place = {tuple(vector): k for k, vector in enumerate(candidates.tolist())}
    which = np.array([place[tuple(vector)] for vector in best.tolist()])
    # Those that gain most where they are best are looked at; what the others make is computed where it is needed.
    worth = np.bincount(which, made - alone, len(candidates))
    worth[0] = np.inf
    looked_at = np.argsort(-worth, kind="stable")[:MOST_CANDIDATES]
    power = np.full((len(pairs[0]), len(candidates)), np.nan)
    for first in range(0, len(looked_at), TOGETHER):
        told("computing the energy of every setting", 0.2 + 0.8 * first / len(looked_at))
        some = looked_at[first : first + TOGETHER]
        d, u = (np.tile(each, len(some)) for each in pairs)
        held = np.repeat(candidates[some], len(pairs[0]), axis=0)
        power[:, some] = model.power(d, u, held).sum(axis=1).reshape(len(some), -1).T
    whole = power.reshape(*shape, -1)
    picked = choice(whole[:, :, looked_at], direction_step, most_settings)
    chosen = Choice(looked_at[picked.vectors], picked.share)
    rest = np.setdiff1d(np.arange(len(candidates)), chosen.vectors)
    order = np.concatenate([chosen.vectors, rest])
    lookup = np.argsort(order)[which].reshape(shape)
    words = (
        f"FLORIS' best offsets within {most:g} degrees, in steps of {step:g}, are {len(candidates) - 1} distinct "
        f"vectors over {len(directions)} directions and {len(speeds)} speeds. The policies choose "
        f"from {len(chosen.vectors)} settings, including no steering. These have {100 * chosen.share:.1f} % of the "
        "gain that the "
        f"{len(looked_at) - 1} best vectors give when the direction may have turned by {BLUR:g} degrees."
    )
    return EnergyTable(
        model.farm,
        directions,
        np.array(speeds),
        candidates[order],
        whole[:, :, order],
        lookup,
        len(chosen.vectors),
        words,
        model.turbulence,
        most,
        step,
        digest_of(model),
    )


class WindGrid(NamedTuple):
    """The winds that a table is computed for: every direction at every speed."""

    directions: Array  # (D,)
    speeds: Array  # (S,)
    direction: Array  # of each wind, (D x S,)
    speed: Array
    direction_step: float

    @property
    def shape(self) -> tuple[int, int]:
        """How many directions and speeds there are."""
        return len(self.directions), len(self.speeds)


def wind_grid(direction_step: float, speeds: tuple[float, ...], most: float, step: float) -> WindGrid:
    """Return the grid of a table of offsets up to `most` in steps of `step`; what cannot be is refused."""
    if not 0 < direction_step <= 30 or abs(360 / direction_step - round(360 / direction_step)) > 1e-9:
        raise InvalidInput(f"direction_step={direction_step} does not divide 360 degrees; give a step such as 2")
    if not 0 < step <= most <= 45:
        raise InvalidInput(
            f"offsets of up to {most} degrees in steps of {step} are not possible; the largest offset must be at most "
            "45, and the step above 0 and no larger than it"
        )
    directions, each = np.arange(0.0, 360.0, direction_step), np.array(speeds, dtype=np.float64)
    winds = np.meshgrid(directions, each, indexing="ij")
    return WindGrid(directions, each, winds[0].ravel(), winds[1].ravel(), direction_step)


def rounded_best(
    model: WakeModel,
    grid: WindGrid,
    most: float,
    step: float,
    progress: Callable[[float], None] | None = None,
) -> Array:
    """Return the best offsets in every wind of a grid, in whole steps, (D x S, m)."""
    winds = (grid.direction, grid.speed, most)
    if isinstance(model, FlorisModel | GroupedModel):  # others need not say how far they are
        found = model.best_offsets(*winds, progress)
    else:
        found = model.best_offsets(*winds)
    return np.asarray(np.clip(np.rint(found / step) * step, -most, most) + 0.0)


def near_power(model: WakeModel, directions: Array, speeds: Array, offsets: Array, turbines: ArrayLike) -> Array:
    """Return the power of every turbine, (k, m), or 0 of one that cannot notice what some turbines (indices) do."""
    if isinstance(model, GroupedModel):
        return model.power(directions, speeds, offsets, around=turbines)
    return model.power(directions, speeds, offsets)


def tidied(model: WakeModel, directions: Array, speeds: Array, offsets: Array) -> Array:
    """Return offsets, (k, m), without those that gain less than `WORTHLESS` of the power of farm or group."""
    kept = offsets.copy()
    for turbine in range(offsets.shape[1]):
        steers = np.flatnonzero(kept[:, turbine] != 0)
        if not len(steers):
            continue
        without = kept[steers].copy()
        without[:, turbine] = 0.0
        made, less = (
            near_power(model, directions[steers], speeds[steers], each, [turbine]).sum(axis=1)
            for each in (kept[steers], without)
        )
        drop = less >= made * (1 - WORTHLESS)
        kept[steers[drop]] = without[drop]
    return kept + 0.0


class Choice(NamedTuple):
    """The vectors chosen (indices), no steering first, and which share of the gain of all they hold."""

    vectors: Indices
    share: float


def choice(power: Array, direction_step: float, most: int = MOST_SETTINGS) -> Choice:
    """Choose vectors by what they add to the energy expected after the usual turn; power is (D, S, N), 0 no steering.

    Every direction counts the same, and speeds by how much there is to gain at them.
    """
    near = np.arange(-8, 9) * direction_step
    weights = np.exp(-0.5 * (near / BLUR) ** 2)
    blurred = sum(
        weight * np.roll(power, shift, axis=0)
        for weight, shift in zip(weights / weights.sum(), range(-8, 9), strict=True)
    )
    gain = (blurred - blurred[:, :, :1]).reshape(-1, power.shape[2])
    limit = float(np.maximum(gain.max(axis=1), 0.0).sum())
    taken, best = [0], np.zeros(len(gain))
    while len(taken) < min(most, power.shape[2]) and limit > 0:
        adds = np.maximum(gain - best[:, None], 0.0).sum(axis=0)
        vector = int(np.argmax(adds))
        if adds[vector] <= 0 or best.sum() >= ENOUGH * limit:
            break
        taken.append(vector)
        best = np.maximum(best, gain[:, vector])
    return Choice(np.array(taken, dtype=np.int64), float(best.sum() / limit) if limit > 0 else 1.0)


def rate_limited(table: EnergyTable, per_degree: float, per_speed: float = SPEED_LIMIT) -> Array:
    """Return the lookup table's offsets under a rate limit, in whole degrees, (D, S, m).

    Parameters
    ----------
    per_degree
        The most degrees of offset per degree of direction.
    per_speed
        The most degrees of offset per m/s.
    """
    if not per_degree > 0:
        raise InvalidInput(f"a rate limit must be above 0 degrees per degree, got {per_degree}")
    offsets = table.offsets[table.lookup]
    turn = 360.0 / len(table.directions)
    # Once around the circle and back to where it began, so that north is no border.
    around = np.concatenate([offsets, offsets, offsets])
    limited = _limited(around, np.full(len(around) - 1, per_degree * turn))[len(offsets) : 2 * len(offsets)]
    by_speed = _limited(np.moveaxis(limited, 1, 0), per_speed * np.diff(table.speeds))
    # Whole steps of the table would leave nothing of small rates, of which the rule makes many small offsets.
    return np.asarray(np.rint(np.moveaxis(by_speed, 0, 1)) + 0.0)


def _limited(offsets: Array, most: Array) -> Array:
    """Return the mean of a pass forwards and one backwards along the first axis, each within `most` per step."""
    rising, falling = offsets.copy(), offsets.copy()
    for k in range(1, len(offsets)):
        rising[k] = rising[k - 1] + np.clip(rising[k] - rising[k - 1], -most[k - 1], most[k - 1])
    for k in range(len(offsets) - 2, -1, -1):
        falling[k] = falling[k + 1] + np.clip(falling[k] - falling[k + 1], -most[k], most[k])
    return (rising + falling) / 2


def jumps(table: EnergyTable, threshold: float = JUMP) -> list[Array]:
    """Return the directions, degrees, at which each turbine's table changes sides with a jump, at any speed."""
    offsets = table.offsets[table.lookup]  # (D, S, m)
    turn = 360.0 / len(table.directions)
    after = np.roll(offsets, -1, axis=0)
    change = (np.abs(after - offsets) >= threshold * turn - 1e-9) & (after * offsets < 0)
    middles = table.directions + turn / 2
    return [middles[change[:, :, turbine].any(axis=1)] for turbine in range(offsets.shape[2])]


def in_zone(table: EnergyTable, direction: Array, width: float) -> NDArray[np.bool_]:
    """Return whether each of k directions lies within `width` / 2 of a jump of each turbine's table, (k, m)."""
    inside = np.zeros((len(direction), len(table.farm)), dtype=bool)
    for turbine, middles in enumerate(jumps(table)):
        for middle in middles:
            apart = np.abs((direction - middle + 180.0) % 360.0 - 180.0)
            inside[:, turbine] |= apart < width / 2
    return inside
