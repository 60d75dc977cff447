"""Wind filters of many machines at once: `ExpectedEnergy` for each member of a fleet, to the last bit.

What is compiled is the single filter's code, looped over members. The rest is numpy on tables with a row for each
member, and every product of matrices has the shape that it has in a single filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric.lockstep import winds_ahead, winds_taken
from holdcourse.errors import InvalidInput
from holdcourse.wind.policy.candidates import ARRAYS, CandidateFilter, best_of_each, weigh
from holdcourse.wind.policy.filter import ExpectedEnergy, expected_power, settled_energy
from holdcourse.wind.policy.profiles import written_time

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
TOGETHER = 64  # members whose energies are expected at a time: their arrays stay in the cache
ACCOUNT = ("told", "worth", "known")  # what a filter remembers besides its climates


class WindsTogether:
    """What each of several wind filters of one kind has learned, and the energy that it expects.

    See `holdcourse.learning.lockstep.CostsTogether`; contexts are hours since 1970.
    """

    dimension = 1

    def __init__(self, model: ExpectedEnergy, count: int) -> None:
        assert isinstance(model.posterior, CandidateFilter)
        self._model, self._filter = model, model.posterior.copy()
        self._which = np.array(self._filter._which)
        self._vectors = np.ascontiguousarray(self._filter._vectors.transpose(1, 0, 2))  # (n, m, r)
        self._take({name: np.repeat(array[None], count, axis=0) for name, array in model.state().items()})

    def check(self, members: Ints, contexts: Array) -> None:
        """Raise where a time lies before the last measurement."""
        early = np.flatnonzero(contexts[:, 0] < self._time[members])
        if len(early):
            i = int(early[0])
            raise InvalidInput(
                f"member {members[i]}: the time {written_time(contexts[i, 0])} is before its last measurement, at "
                f"{written_time(self._time[members[i]])}; ask in the order of time"
            )

    def look(self, members: Ints, contexts: Array, rounds: int, interval: float) -> tuple[Array, Array]:
        """Energy lost to the best altitude in every round of a plan, kWh; and in the present one."""
        made = self._made(members, self._leader[members], *self._usual(contexts, rounds, interval))
        costs = self._model.scale * (made.max(axis=-1, keepdims=True) - made)
        return costs, costs[:, 0].copy()

    def settled_costs(self, members: Ints) -> Array:
        """Energy that settling at each altitude after a plan would make less than at the best one, (k, n)."""
        climate = self._which[self._leader[members]]
        return settled_energy(self._worth[members, climate], self._known[members, climate], self._model.interval)

    def learn(self, members: Ints, actions: Ints, contexts: Array, measurements: Array) -> None:
        """Filter the wind speed that every member measured."""
        hours, wind = contexts[:, 0], self._filter
        usual, times, at = self._usual(contexts, 1, 0.0)
        fresh = hours != self._told[members, 0, 0]
        later = members[fresh]
        if len(later):
            leads = best_of_each(self._evidence[later], self._leader[later], self._which)
            each = [self._made(later, lead, usual, times, at[fresh])[:, 0] for lead in leads.T]
            made = self._model.scale * np.stack(each, axis=1)  # (k, c, n)
            self._known[later] += 1.0
            worth = self._worth[later]
            self._worth[later] = worth + (made - worth) / self._known[later][:, :, None]
        decays = np.exp(-self._ahead(members, hours[:, None])[:, :, None] / wind._hours)
        surprises = measurements[:, None] - usual[at, :, 0, actions][:, self._which]
        likely = np.empty(surprises.shape)
        winds_taken(
            members,
            self._means,
            self._covariances,
            wind._variances,
            decays,
            self._vectors,
            actions,
            surprises,
            wind._noises,
            likely,
        )
        self._time[members] = hours
        self._weigh(members, likely)
        self._told[later, 1:] = self._told[later, :-1]
        self._told[later, 0] = np.stack([hours, actions.astype(np.float64), measurements], axis=1)[fresh]

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays of all filters, what altitudes are worth to them, and the last measurements."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        self._take({name: np.array(arrays[name]) for name in self._arrays()})

    def state_of(self, member: int) -> dict[str, NDArray[Any]]:
        """What a single filter's `state` gives."""
        return {name: np.array(array[member]) for name, array in self._arrays().items()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Name every array as a single filter's `state` does."""
        names = [*(f"posterior.{name}" for name in ARRAYS), *ACCOUNT]
        return dict(zip(names, (getattr(self, f"_{name}") for name in (*ARRAYS, *ACCOUNT)), strict=True))

    def _take(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._time, self._means, self._covariances, self._evidence, self._leader, self._since = (
            arrays[f"posterior.{name}"] for name in ARRAYS
        )
        self._told, self._worth, self._known = (arrays[name] for name in ACCOUNT)

    def _ahead(self, members: Ints, times: Array) -> Array:
        """Hours from the last measurement of each member to its times, (k, rounds); 0 before the first."""
        last = self._time[members][:, None]
        return np.where(np.isnan(last), 0.0, times - last)

    def _made(self, members: Ints, leads: Ints, usual: Array, times: Array, at: Ints) -> Array:
        """Power that every member expects at its times, (k, rounds, n), by the candidates `leads`, (k,).

        The rest is what `_usual` gives.
        """
        wind, n = self._filter, self._model.problem.n
        made = np.empty((len(members), times.shape[1], n))
        ahead = self._ahead(members, times[at])
        climate, leaders = self._which[leads], np.empty(len(self._leader), dtype=np.int64)
        leaders[members] = leads
        for begin in range(0, len(members), TOGETHER):
            part = slice(begin, begin + TOGETHER)
            mean, std = np.empty(made[part].shape), np.empty(made[part].shape)
            winds_ahead(
                members[part],
                leaders,
                wind._vectors,
                wind._variances,
                wind._hours,
                self._means,
                self._covariances,
                ahead[part],
                mean,
                std,
            )
            mean += usual[at[part], climate[part]]
            made[part] = expected_power(self._model.curve, mean.reshape(-1, n), std.reshape(-1, n)).reshape(mean.shape)
        return made

    def _weigh(self, members: Ints, likely: Array) -> None:
        """Take in how likely the measurement was to each climate, (k, m), and change those that lead."""
        before = self._leader[members]
        self._evidence[members], leader = weigh(self._evidence[members], likely, before, self._which)
        self._leader[members] = leader
        changed = members[self._which[leader] != self._which[before]]
        self._since[changed] = self._time[changed]

    def _usual(self, contexts: Array, rounds: int, interval: float) -> tuple[Array, Array, Ints]:
        """Usual wind of each climate at the t distinct times asked and in the rounds after them, (t, c, rounds, n).

        Also these times, (t, rounds), and which of them every member asks, (k,). Made for each distinct time in two
        products, as a single filter makes it: one for now, one for later.
        """
        climates = self._filter.candidates.climates
        hours, at = np.unique(contexts[:, 0], return_inverse=True)
        times = hours[:, None] + interval * np.arange(rounds)
        found = np.empty((len(hours), len(climates), rounds, self._model.problem.n))
        for t, row in enumerate(times):
            for c, climate in enumerate(climates):
                found[t, c, :1] = climate(row[:1])
                if rounds > 1:
                    found[t, c, 1:] = climate(row[1:])
        return found, times, at
