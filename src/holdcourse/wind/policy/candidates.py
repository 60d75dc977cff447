r"""Several climates side by side, and the one that has predicted the measurements best.

What was learned from a history may be wrong: another site, another gauge, a table upside down. So the wind filter
carries the general climate beside it, and each with several deviations of the gauge where that is not stated. Every
measurement is predicted by all of them. Their evidence is the sum of the logarithms of how likely it was to each, begun
with how much it is believed at first; it lags behind the best one's by `FARTHEST_BEHIND` at most, so that what has been
right for months can be found wrong within weeks. One of them leads, and all that is decided rests on it, until another
one is ahead of it: by `AHEAD` where only the noise is another, by `DROPPED_AHEAD` where the climate is. A history that
has lost the lead never takes it again: measured at one altitude at a time, a wrong profile that has been bent to fit
looks right for weeks.

No climate is quite right, so over a year the evidence of one that is hardly better would grow without end. With
`LEEWAY` for each measurement a history is dropped where it is clearly wrong, not where it is slightly worse.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

import holdcourse as hc
from holdcourse._numeric.wind_filter import predict, take
from holdcourse.errors import InvalidInput, shown
from holdcourse.wind.policy.climate import Climate, climate_from_data
from holdcourse.wind.policy.profiles import written_time

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

AHEAD = 5.0  # in evidence, of another noise; such a lead is chance once in 150
DROPPED_AHEAD = 20.0  # of the general climate
LEEWAY = 0.02  # of evidence in every measurement, by which the general climate must be better to count as better
FARTHEST_BEHIND = 60.0
GENERAL_BEHIND = 3.0  # at first: a history is believed
NOISE_BEHIND = 2.0  # at first, each step
NOISES = (0.0, 1.0, 2.0)  # m/s of a gauge, beyond what the climate leaves unexplained, where it is not stated
ARRAYS = ("time", "means", "covariances", "evidence", "leader", "since")


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the wind may be like.

    Parameters
    ----------
    climates
        The first one is believed most at first; the last one is general.
    gauge
        Deviation of a measurement in m/s; None: found out while flying.
    """

    climates: tuple[Climate, ...]
    gauge: float | None = None

    def __post_init__(self) -> None:
        if self.gauge is not None and not 0 <= self.gauge < math.inf:
            raise InvalidInput(f"gauge_noise must be 0 or more, in m/s, got {shown(self.gauge)}")

    def __call__(self, hours: Array) -> Array:
        """Return zeros, (k, n): what is usual is another in every climate, so `CandidateFilter` adds it."""
        return np.zeros((len(hours), len(self.climates[0].altitudes)))

    def posterior(self, problem: hc.Problem) -> CandidateFilter:
        """Return the filter before the first measurement."""
        return CandidateFilter(self, problem)

    @property
    def pairs(self) -> list[tuple[int, float, float]]:
        """Climate, variance of a measurement and evidence at first, of every candidate."""
        found = []
        for k, climate in enumerate(self.climates):
            least = climate.unexplained**2
            noises = NOISES if self.gauge is None else (self.gauge,)
            for step, noise in enumerate(noises):
                found.append((k, least + noise**2, -GENERAL_BEHIND * k - NOISE_BEHIND * step))
        return found

    def describe(self) -> dict[str, Any]:
        """Return what it is, in JSON values."""
        return {"wind": "candidates", "climates": [each.describe() for each in self.climates], "gauge": self.gauge}

    def to_data(self) -> dict[str, Any]:
        """Return it in JSON values, from which `from_data` makes an equal one."""
        altitudes = self.climates[0].altitudes.tolist()
        climates = [each.to_data() for each in self.climates]
        return {"wind": "candidates", "altitudes": altitudes, "climates": climates, "gauge": self.gauge}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Candidates:
        """Read what `to_data` gave."""
        climates = tuple(climate_from_data(each) for each in data["climates"])
        if not climates or any(len(each.altitudes) != len(data["altitudes"]) for each in climates):
            raise InvalidInput("a wind policy needs at least one climate, and all of them must have the same altitudes")
        gauge = data["gauge"]
        return cls(climates, None if gauge is None else float(gauge))


def weigh(evidence: Array, likely: Array, leader: Ints, which: Ints) -> tuple[Array, Ints]:
    """Return the evidence, (k, m), and who leads, (k,), in each of k filters after a measurement.

    Parameters
    ----------
    evidence, likely
        Of each candidate: so far, and the logarithm of how likely the measurement was to it, (k, m).
    leader
        So far, (k,).
    which
        The climate of each candidate, (m,).
    """
    rows, climate = np.arange(len(leader)), which[leader][:, None]
    weighed = np.where(which >= climate, evidence + likely - LEEWAY * which, -np.inf)  # what was dropped stays behind
    weighed = np.maximum(weighed - weighed.max(axis=1, keepdims=True), -FARTHEST_BEHIND)
    lead = weighed - weighed[rows, leader][:, None] - np.where(which > climate, DROPPED_AHEAD, AHEAD)
    best = lead.argmax(axis=1)
    return weighed, np.where(lead[rows, best] > 0, best, leader)


def best_of_each(evidence: Array, leader: Ints, which: Ints) -> Ints:
    """Return the candidate that each climate would lead with, (k, c): the leader, or that with most evidence."""
    climates = range(int(which.max()) + 1)
    found = np.stack([np.where(which == c, evidence, -np.inf).argmax(axis=1) for c in climates], axis=1)
    found[np.arange(len(leader)), which[leader]] = leader
    return found


class CandidateFilter:
    """The wind as each candidate sees it after some measurements, and which of them leads."""

    def __init__(self, candidates: Candidates, problem: hc.Problem) -> None:
        self.candidates, self.problem = candidates, problem
        pairs = candidates.pairs
        states = [candidates.climates[k].states for k, _, _ in pairs]
        most = max(len(variances) for _, variances, _ in states)
        m = len(pairs)
        self._vectors = np.zeros((m, problem.n, most))
        self._variances, self._hours = np.zeros((m, most)), np.full((m, most), np.inf)
        for i, (vectors, variances, hours) in enumerate(states):
            r = len(variances)
            self._vectors[i, :, :r], self._variances[i, :r], self._hours[i, :r] = vectors, variances, hours
        self._noises = np.array([noise for _, noise, _ in pairs])
        self._which = [k for k, _, _ in pairs]
        self.time = math.nan
        self.means = np.zeros((m, most))
        self.covariances = np.array([np.diag(row) for row in self._variances])
        self.evidence = np.array([begin for _, _, begin in pairs])
        self.leader = 0
        self.since = math.nan

    @property
    def climate(self) -> int:
        """Which climate leads."""
        return self._which[self.leader]

    @property
    def noise_std(self) -> float:
        """Deviation of a measurement, as the one that leads has it, m/s."""
        return math.sqrt(float(self._noises[self.leader]))

    def predict(self, context: Any) -> tuple[Array, Array]:
        """Return the mean and the deviation of the wind at every altitude at an hour, (n,) and (n,)."""
        mean, std = self.predict_at(np.reshape(np.asarray(context, dtype=np.float64), -1)[:1])
        return mean[0], std[0]

    def predict_at(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Return the same at each of k hours, (k, n) and (k, n)."""
        return self._predicted_by(self.leader, np.reshape(np.asarray(contexts, dtype=np.float64), -1))

    def predict_each(self, hour: float) -> tuple[Array, Array]:
        """Return the same at an hour as each climate has it, (c, n) and (c, n)."""
        leaders = best_of_each(self.evidence[None], np.array([self.leader]), np.array(self._which))[0]
        found = [self._predicted_by(int(i), np.array([hour])) for i in leaders]
        return np.concatenate([mean for mean, _ in found]), np.concatenate([std for _, std in found])

    def _predicted_by(self, i: int, times: Array) -> tuple[Array, Array]:
        """Return the mean and the deviation at k hours as candidate `i` has them, (k, n) and (k, n)."""
        hours = np.ascontiguousarray(times)
        ahead = self._ahead(hours)
        mean, std = np.empty((len(hours), self.problem.n)), np.empty((len(hours), self.problem.n))
        predict(
            self._vectors[i],
            self._variances[i],
            self._hours[i],
            self.means[i],
            self.covariances[i],
            ahead,
            mean,
            std,
        )
        return mean + self.candidates.climates[self._which[i]](hours), std

    def condition(self, action: int, context: Any, measurement: float) -> None:
        """Take in the wind measured at an altitude."""
        hour = np.reshape(np.asarray(context, dtype=np.float64), -1)[:1]
        passed = float(self._ahead(hour)[0])
        usual = [float(climate(hour)[0, action]) for climate in self.candidates.climates]
        likely = np.empty(len(self.evidence))
        self.means, self.covariances = self.means.copy(), self.covariances.copy()  # twins share them
        take(
            self.means,
            self.covariances,
            self._variances,
            np.exp(-passed / self._hours),
            np.ascontiguousarray(self._vectors[:, action]),
            np.array([measurement - usual[k] for k in self._which]),
            self._noises,
            likely,
        )
        self.time = float(hour[0])
        before = self.climate
        weighed, leads = weigh(self.evidence[None], likely[None], np.array([self.leader]), np.array(self._which))
        self.evidence, self.leader = weighed[0], int(leads[0])
        self.since = self.time if self.climate != before else self.since

    @property
    def notice(self) -> str:
        """What people should know of what was found out, in a sentence; empty where there is nothing."""
        if self.climate == 0:
            return ""
        hour = np.datetime64(round(self.since * 3600), "s").astype("datetime64[m]")
        return (
            f"The measured wind does not fit the history: since {hour}Z that is set aside, and the policy flies by "
            "what holds at any site and by what it measures. Check the heights, the units and the place of the history."
        )

    def _ahead(self, hours: Array) -> Array:
        if not np.isfinite(hours).all():
            raise InvalidInput(f"the context must be a time in hours since 1970, got {hours.tolist()}")
        if math.isnan(self.time):
            return np.zeros(len(hours))
        if (hours < self.time).any():
            raise InvalidInput(
                f"the time {written_time(float(hours.min()))} is before the last measurement, at "
                f"{written_time(self.time)}; ask in the order of time"
            )
        return np.asarray(hours - self.time)

    def copy(self) -> Self:
        """Return an independent twin."""
        return copy.copy(self)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that was learned, as arrays."""
        return {name: np.array(getattr(self, name)) for name in ARRAYS}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of an equal filter gave."""
        for name, own in self.state().items():
            if name not in arrays or np.shape(arrays[name]) != own.shape:
                raise InvalidInput(
                    f"this is not a saved state of these candidates: {name} is missing or has another shape"
                )
        self.time, self.leader, self.since = float(arrays["time"]), int(arrays["leader"]), float(arrays["since"])
        if not 0 <= self.leader < len(self.evidence):
            raise InvalidInput(
                f"this state is damaged: there are {len(self.evidence)} candidates, but number {self.leader} leads"
            )
        for name in ("means", "covariances", "evidence"):
            setattr(self, name, np.array(arrays[name], dtype=np.float64))
        return self

    def describe(self) -> dict[str, Any]:
        """Return what it is, in JSON values."""
        return {"filter": "candidates", "count": len(self._which)}
