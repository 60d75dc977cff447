"""A plant, and a case of it: four weeks of hours after two weeks of operators' history.

Everything about a case follows from the plant's name and a seed: the machine, its weather, the incumbent, the history,
the noise of every round, which readings are wrong or missing, and where operators step in. Nothing depends on what a
policy does: the noise of a round is the same for all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import checked_seed, is_whole
from holdcourse.deciding.rules import View
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.history import History
from holdcourse.movement.grid import Grid
from holdcourse.movement.offline import PricedPath, optimal_path, price_path
from holdcourse.movement.problem import Problem
from holdcourse.worlds.plants.machines import HISTORY, ROUNDS
from holdcourse.worlds.plants.rivals import Excursions

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Random: TypeAlias = np.random.Generator

MACHINE, WEATHER, INCUMBENT, PAST, NOISE, FAULTS, OVERRIDES = range(7)  # what the random numbers of a case are for
OVERRIDE_HOURS = 4  # on average, when operators step in
LIKELY_INCUMBENTS = 3  # settings among which the incumbent is drawn


@dataclass(frozen=True)
class Sensor:
    """Sensor of a plant: how its cost is measured.

    Attributes
    ----------
    noise
        Standard deviation of a reading, as a share of the cost; readings stay positive, and their mean is right.
    spread
        Standard deviation of a reading, as a share of the range of costs, instead of `noise`.
    spikes
        Share of hours whose true cost is `SPIKE` times as high; expected costs include them.
    wrong
        Share of readings that are wrong by a factor of about ten, two thirds of them too high.
    missing
        Share of hours without a reading.
    delay
        Rounds between a decision and its reading.
    """

    noise: float = 0.05
    spread: float = 0.0
    spikes: float = 0.0
    wrong: float = 0.0
    missing: float = 0.0
    delay: int = 0


SPIKE = 5.0


@dataclass(frozen=True)
class Factor:
    """A number of the context: its name, its unit, and the bounds of the bins in an operator's table."""

    name: str
    unit: str
    edges: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Plant:
    """A kind of plant; `case` makes one plant of this kind.

    Attributes
    ----------
    name, sentence
        Name of the plant, and a description.
    unit
        Unit of its costs, per hour.
    settings
        Settings of the plant.
    scale, fixed_cost
        Costs of moving: per unit of each setting, and for every move.
    factors
        Numbers of the context, which are known before a decision.
    weather, machine
        Functions for the sequence of contexts and for the cost of an hour; see the modules with these names.
    sensor
        Sensor that measures the cost.
    excess
        Approximate share by which the incumbent costs more than the best fixed setting of the history.
    cautious
        For each setting, the side on which operators are cautious: 1 upwards, -1 downwards, 0 either.
    overrides
        Share of rounds in which operators apply a setting of their own.
    """

    name: str
    sentence: str
    unit: str
    settings: Grid
    scale: tuple[float, ...]
    factors: tuple[Factor, ...]
    weather: Callable[[Random, Array], Array]
    machine: Callable[[Random, Array, Array, Array], Array]
    sensor: Sensor = Sensor()
    excess: float = 0.06
    cautious: tuple[int, ...] = ()
    fixed_cost: float = 0.0
    overrides: float = 0.0

    @cached_property
    def problem(self) -> Problem:
        """The settings, and what moving between them costs; the same in every case."""
        return Problem(self.settings, "cityblock", scale=self.scale, fixed_cost=self.fixed_cost)

    @property
    def edges(self) -> tuple[tuple[float, ...], ...]:
        """Bounds of the bins in an operator's table, for each number of the context."""
        return tuple(factor.edges for factor in self.factors)

    def case(self, seed: int, rounds: int = ROUNDS) -> PlantCase:
        """Return the case of this seed; with fewer rounds, its beginning."""
        seed = checked_seed(seed)
        if not (is_whole(rounds) and 1 <= rounds <= ROUNDS):
            raise InvalidInput(f"a plant has 1 to {ROUNDS} rounds, got {shown(rounds)}")
        hours = np.arange(HISTORY + ROUNDS, dtype=np.float64)
        contexts = self.weather(self._random(seed, WEATHER), hours)
        settings = self.settings.coordinates
        costs = self.machine(self._random(seed, MACHINE), hours, contexts, settings)
        costs = np.ascontiguousarray(costs * (1.0 + (SPIKE - 1.0) * self.sensor.spikes))
        start = self._incumbent(self._random(seed, INCUMBENT), costs[:HISTORY].mean(axis=0))
        readings = Readings.drawn(
            self._random(seed, NOISE), self._random(seed, FAULTS), self.sensor, costs, float(np.ptp(costs))
        )
        overrides = self._overrides(self._random(seed, OVERRIDES), start)
        contexts, costs = contexts[: HISTORY + rounds], costs[: HISTORY + rounds]
        for array in (contexts, costs):
            array.setflags(write=False)
        return PlantCase(
            self, seed, start, contexts, costs, readings, {t: a for t, a in overrides.items() if t < rounds}
        )

    def _random(self, seed: int, purpose: int) -> Random:
        return np.random.default_rng([zlib.crc32(self.name.encode()), seed, purpose])

    def _incumbent(self, random: Random, means: Array) -> int:
        """A setting whose mean cost in the history is about as much above the best one's as `excess` says."""
        best = int(np.argmin(means))
        if self.excess == 0:
            return best
        side = np.ones(len(means), dtype=bool)
        settings = self.settings.coordinates
        for axis, sign in enumerate(self.cautious):
            side &= sign * (settings[:, axis] - settings[best, axis]) >= 0
        off = np.where(side, np.abs(means / means[best] - 1.0 - self.excess), np.inf)
        likely = [int(k) for k in np.argsort(off, kind="stable")[:LIKELY_INCUMBENTS] if off[k] < self.excess / 2]
        return likely[int(random.integers(len(likely)))] if likely else int(np.argmin(off))

    def _overrides(self, random: Random, start: int) -> dict[int, int]:
        """Spells in which operators apply the incumbent or a setting near it."""
        found: dict[int, int] = {}
        if self.overrides == 0:
            return found
        near = np.argsort(self.problem.costs_from(start), kind="stable")[:4]
        begins = self.overrides / OVERRIDE_HOURS / (1.0 - self.overrides)
        action: int | None = None
        for t in range(ROUNDS):
            chance = random.random()
            if action is None and chance < begins:
                action = int(near[int(random.integers(len(near)))])
            elif action is not None and chance < 1 / OVERRIDE_HOURS:
                action = None
            if action is not None:
                found[t] = action
        return found


@dataclass(frozen=True, eq=False)
class Readings:
    """Effects of the sensor on the cost of each hour, history included; shape (HISTORY + ROUNDS,) each."""

    factor: Array
    added: Array
    there: NDArray[np.bool_]

    @classmethod
    def drawn(cls, random: Random, faults: Random, sensor: Sensor, costs: Array, extent: float) -> Readings:
        """Draw them for all hours, whether or not the sensor has such a fault."""
        hours = len(costs)
        normal = random.standard_normal(hours)
        chance = faults.random((4, hours))
        factor = np.exp(sensor.noise * normal - sensor.noise**2 / 2)
        added = np.zeros(hours)
        if sensor.spread > 0:
            factor, added = np.ones(hours), sensor.spread * extent * normal
        factor = factor * np.where(chance[0] < sensor.spikes, SPIKE, 1.0) / (1.0 + (SPIKE - 1.0) * sensor.spikes)
        tenfold = 7.0 * 2.0 ** chance[1]
        upwards = chance[2] < 2 / 3
        wrong = chance[3] < sensor.wrong
        factor = factor * np.where(wrong, np.where(upwards, tenfold, 1 / tenfold), 1.0)
        there = faults.random(hours) >= sensor.missing
        return cls(factor, added, there)


@dataclass(frozen=True, eq=False)
class PlantCase:
    """One plant and its four weeks, in hourly rounds counted from 0.

    Attributes
    ----------
    plant, seed
        Kind of plant and seed, which determine everything else.
    start
        Incumbent, the setting before the first round, by its index.
    overrides
        Settings that operators apply on their own, by round.
    """

    plant: Plant
    seed: int
    start: int
    all_contexts: Array
    all_costs: Array
    readings: Readings
    overrides: dict[int, int]

    @property
    def problem(self) -> Problem:
        """The settings, and what moving between them costs."""
        return self.plant.problem

    @property
    def delay(self) -> int:
        """Number of rounds between a decision and its reading; 0 if the reading arrives before the next decision."""
        return self.plant.sensor.delay

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.all_costs) - HISTORY

    @property
    def contexts(self) -> Array:
        """Context of each round, shape (T, d)."""
        return self.all_contexts[HISTORY:]

    @property
    def costs(self) -> Array:
        """Expected cost of every setting in each round, shape (T, n)."""
        return self.all_costs[HISTORY:]

    def reading(self, round: int, action: int) -> float | None:  # noqa: A002 - the word of the field
        """Return the sensor's reading of a round at a setting; None if there is none."""
        if not (is_whole(round) and 0 <= round < self.rounds):
            raise InvalidInput(f"the rounds of this case are 0 to {self.rounds - 1}, got {shown(round)}")
        self.problem.check_action(action)
        return self._reading(HISTORY + round, action)

    def _reading(self, hour: int, action: int) -> float | None:
        if not self.readings.there[hour]:
            return None
        return float(self.all_costs[hour, action] * self.readings.factor[hour] + self.readings.added[hour])

    @cached_property
    def history(self) -> History:
        """The two weeks before: the incumbent and the operators' excursions, as the sensor saw them."""
        rule = Excursions(self.problem, self.start)
        seed = int(self.plant._random(self.seed, PAST).integers(2**62))
        state = rule.begin(self.start, seed)
        rows = []
        for hour in range(HISTORY):
            allowed = np.ones(self.problem.n, dtype=bool)
            state = rule.step(state, View(np.zeros(self.problem.n), self.all_contexts[hour], allowed)).state
            y = self._reading(hour, state.action)
            if y is not None:
                rows.append((hour, state.action, y))
        hours, actions, readings = zip(*rows, strict=True)
        return History(actions, self.all_contexts[list(hours)], readings)

    @cached_property
    def possible(self) -> Array:
        """The costs, infinite where operators apply another setting; shape (T, n)."""
        costs = self.costs.copy()
        for t, action in self.overrides.items():
            costs[t] = np.where(np.arange(self.problem.n) == action, costs[t], np.inf)
        return costs

    @cached_property
    def optimum(self) -> PricedPath:
        """The cheapest path through all rounds, known in advance; where operators step in, it follows them."""
        return optimal_path(self.possible, self.problem, self.start)

    @cached_property
    def best_fixed(self) -> PricedPath:
        """The one setting that would have been the cheapest to hold; where operators step in, it follows them."""
        return min((self.held(action) for action in range(self.problem.n)), key=lambda path: path.total)

    @cached_property
    def stay(self) -> PricedPath:
        """The incumbent for ever; where operators step in, it follows them and goes back."""
        return self.held(self.start)

    def held(self, action: int) -> PricedPath:
        """Return the bill of holding a setting."""
        self.problem.check_action(action)
        actions = [self.overrides.get(t, action) for t in range(self.rounds)]
        return price_path(actions, self.costs, self.problem, self.start)

    def __repr__(self) -> str:
        return f"PlantCase({self.plant.name}, seed {self.seed}: {self.problem.n} settings, {self.rounds} rounds)"
