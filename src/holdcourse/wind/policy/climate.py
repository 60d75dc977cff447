r"""What is usual of the wind: learned from its history, or, where there is none, true nearly everywhere.

============  ==============================================================================================  ========
symbol        meaning                                                                                         shape
============  ==============================================================================================  ========
t, n, r       times of the history, altitudes, modes
c(h)          usual wind at hour h since 1970: a mean, waves of a day and its parts, and a wave of a year     (n,)
a             anomalies, wind less what is usual                                                              (t, n)
u_j           modes: eigenvectors of the covariance of the anomalies                                          (n,)
lambda_j      variance of the anomalies along a mode
tau_j         hours in which a mode forgets: its correlation after s hours is exp(-s / tau_j)
============  ==============================================================================================  ========

**With a history**: what is usual at each hour, and how what is unusual spreads and lasts. As a Gaussian process the
wind is :math:`c(h) + \sum_j u_j s_j(h)` with independent Ornstein-Uhlenbeck processes :math:`s_j` of variance
:math:`\lambda_j`. That is a kernel over altitudes and time which `holdcourse.posterior` filters exactly, whatever hours
are missing. How many waves of the day, and whether one of the year, is decided by leaving out a tenth of the history at
a time and predicting it from the rest. See docs/theory/wind-in-time.md for what else was tried.

**Without one**: what holds nearly everywhere, in numbers that need not be right. The wind grows with height by a power
law until it levels off. It deviates from that by a profile that stays (the site), one that lasts a day or two (weather
systems) and one that lasts some hours (fronts, stability). All are smooth in the logarithm of height. The profile that
stays is how the site is learned as measurements come in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.errors import InvalidInput

Array: TypeAlias = NDArray[np.float64]

DAY, YEAR = 24.0, 8766.0  # hours
WAVES = tuple((day, year) for year in (0, 1) for day in range(4))  # of the day, of the year; what is tried
BLOCKS = 10  # that are left out in turn to choose among them
EXPLAINED = 0.999  # share of the variance that the modes kept explain
MOST_MODES = 6
SHORTEST_HISTORY = 7 * DAY  # hours; from less, no covariance is learned
FEWEST_PAIRS = 48  # of times a lag apart; fewer tell no correlation
ARRAYS = ("altitudes", "usual", "modes", "variances", "time_scales")  # of a climate
CORRELATIONS = (0.05, 0.9995)  # over an hour; what lies outside is chance


@dataclass(frozen=True, eq=False)
class Climate:
    """What is usual, and how the unusual behaves; see the table of the module.

    Attributes
    ----------
    altitudes
        In metres, (n,).
    waves
        How many waves of the day and of the year the usual wind has.
    usual
        Their coefficients, (1 + 2 * waves, n), m/s.
    modes, variances, time_scales
        Unit vectors (n, r), (r,) in (m/s)^2, (r,) in hours.
    unexplained
        Deviation of the wind that no mode explains, m/s.
    period
        First and last hour of the history, since 1970.
    """

    altitudes: Array
    waves: tuple[int, int]
    usual: Array
    modes: Array
    variances: Array
    time_scales: Array
    unexplained: float
    period: tuple[float, float]

    def __post_init__(self) -> None:
        # Laid out alike, whether learned or read from a file: products of matrices differ in their last bits otherwise.
        for name in ARRAYS:
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))

    def __call__(self, hours: Array) -> Array:
        """Return the usual wind at k hours since 1970, (k, n)."""
        return np.asarray(_waves(np.atleast_1d(hours), self.waves) @ self.usual)

    @cached_property
    def kernel(self) -> hc.KernelSum:
        """The anomalies as a process over altitudes and time."""
        from sklearn.gaussian_process.kernels import Matern

        return hc.KernelSum(
            tuple(
                hc.Kernel(np.outer(mode, mode), Matern(float(hours), nu=0.5), float(variance))
                for mode, hours, variance in zip(self.modes.T, self.time_scales, self.variances, strict=True)
            )
        )

    def posterior(self, problem: hc.Problem) -> hc.Posterior:
        """Return what is believed of the anomalies before the first measurement; contexts are hours since 1970."""
        return hc.posterior(problem, self.kernel, noise_std=self.unexplained, method="temporal")

    def describe(self) -> dict[str, Any]:
        """Return what was learned, in JSON values."""
        begin, end = (str(np.datetime64(int(hour * 3600), "s").astype("datetime64[h]")) for hour in self.period)
        return {
            "from": begin,
            "to": end,
            "waves": list(self.waves),
            "mean_speed": self.usual[0].round(3).tolist(),
            "deviations": np.sqrt(self.variances).round(3).tolist(),
            "time_scales": self.time_scales.round(2).tolist(),
            "unexplained": round(self.unexplained, 4),
            "digest": self.digest,
        }

    def to_data(self) -> dict[str, Any]:
        """Return all that was learned in JSON values, from which `wind_from_data` makes an equal one."""
        learned = {part.name: np.asarray(getattr(self, part.name)).tolist() for part in fields(self)}
        return {"wind": "climate", **learned}

    @property
    def words(self) -> str:
        """What was learned, in a sentence."""
        day, year = self.waves
        usual = ["the hour of the day"] * (day > 0) + ["the season"] * (year > 0)
        modes = ", ".join(
            f"{np.sqrt(variance / len(self.altitudes)):.1f} m/s for {hours:.0f} h"
            for variance, hours in zip(self.variances, self.time_scales, strict=True)
        )
        follows = f"follows {' and '.join(usual)}" if usual else "is the same at all hours"
        return f"The usual wind {follows}; {len(self.variances)} modes over height deviate from it ({modes})."

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal climates."""
        digest = hashlib.sha256()
        for part in fields(self):
            digest.update(np.ascontiguousarray(getattr(self, part.name), dtype=np.float64).tobytes())
        return digest.hexdigest()[:16]


def learn_climate(hours: Array, speed: Array, altitudes: Array) -> Climate:
    """Learn a climate from past profiles of the wind.

    Parameters
    ----------
    hours
        When each was measured, in hours since 1970, ascending; hours may be missing. (t,)
    speed
        m/s, (t, n).
    altitudes
        Metres, (n,).

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> speed = 8.0 + random.normal(size=(400, 1)) + 0.1 * random.normal(size=(400, 3))
    >>> learn_climate(np.arange(400.0), speed, np.array([50.0, 100.0, 200.0])).modes.shape
    (3, 3)
    """
    times, table = np.asarray(hours, dtype=np.float64), np.asarray(speed, dtype=np.float64)
    if times.ndim != 1 or table.shape != (len(times), len(altitudes)):
        raise InvalidInput(
            f"speed must have one row per hour and one column per altitude, got {table.shape} for {times.shape} hours "
            f"and {len(altitudes)} altitudes"
        )
    if not (np.isfinite(times).all() and np.isfinite(table).all() and (np.diff(times) > 0).all()):
        raise InvalidInput("hours must ascend and all speeds be finite; leave out what is missing")
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    if len(times) * step < SHORTEST_HISTORY:
        raise InvalidInput(
            f"the history covers {len(times) * step:.0f} hours; a climate needs {SHORTEST_HISTORY:.0f} or more"
        )
    waves = _chosen_waves(times, table)
    basis = _waves(times, waves)
    usual: Array = np.linalg.lstsq(basis, table, rcond=None)[0].astype(np.float64)
    anomalies = table - basis @ usual
    variances, modes = np.linalg.eigh(anomalies.T @ anomalies / len(times))
    variances, modes = np.maximum(variances[::-1], 0.0), modes[:, ::-1]
    total = float(variances.sum())
    if total <= 1e-9:
        raise InvalidInput("the wind of the history never changes; there is nothing to learn from it")
    enough = int(np.searchsorted(np.cumsum(variances) / total, EXPLAINED)) + 1
    kept = min(enough, MOST_MODES, int((variances > 1e-9 * total).sum()))
    unexplained = float(np.sqrt(max(variances[kept:].sum() / len(altitudes), 1e-6 * total / len(altitudes))))
    scores = anomalies @ modes[:, :kept]
    return Climate(
        altitudes=np.asarray(altitudes, dtype=np.float64),
        waves=waves,
        usual=usual,
        modes=np.ascontiguousarray(modes[:, :kept]),
        variances=variances[:kept],
        time_scales=_time_scales(times, scores, step),
        unexplained=unexplained,
        period=(float(times[0]), float(times[-1])),
    )


def _waves(hours: Array, waves: tuple[int, int]) -> Array:
    """Return 1, and cosine and sine of every wave, (k, 1 + 2 * waves)."""
    columns = [np.ones(len(hours))]
    for count, length in zip(waves, (DAY, YEAR), strict=True):
        for number in range(1, count + 1):
            angle = 2 * np.pi * number * hours / length
            columns += [np.cos(angle), np.sin(angle)]
    return np.array(columns).T


def _chosen_waves(hours: Array, speed: Array) -> tuple[int, int]:
    """Return the waves that predict best what they were not fitted to; a wave of the year needs a year to be seen."""
    tried = [waves for waves in WAVES if waves[1] == 0 or hours[-1] - hours[0] >= YEAR]
    edges = np.linspace(0, len(hours), BLOCKS + 1).astype(int)
    blocks = [slice(a, b) for a, b in pairwise(edges.tolist())]
    errors = []
    for waves in tried:
        basis = _waves(hours, waves)
        squares = np.array([basis[part].T @ basis[part] for part in blocks])
        products = np.array([basis[part].T @ speed[part] for part in blocks])
        missed = 0.0
        for k, part in enumerate(blocks):
            fit = np.linalg.lstsq(squares.sum(axis=0) - squares[k], products.sum(axis=0) - products[k], rcond=None)[0]
            missed += float(((speed[part] - basis[part] @ fit) ** 2).sum())
        errors.append(missed)
    return tried[int(np.argmin(errors))]


def _time_scales(hours: Array, scores: Array, step: float) -> Array:
    """Estimate in how many hours each mode forgets, from its correlation over about an hour, (r,)."""
    lag = max(1, round(1.0 / step)) * step
    later = np.searchsorted(hours, hours + lag - 0.01 * step)
    found = later < len(hours)
    found[found] = np.abs(hours[later[found]] - hours[found] - lag) < 0.02 * step
    if found.sum() < FEWEST_PAIRS:
        raise InvalidInput(
            f"only {found.sum()} times of the history have another {lag:g} hours later, so it says nothing about how "
            f"long wind lasts; {FEWEST_PAIRS} are needed"
        )
    now, then = scores[found], scores[later[found]]
    correlation = (now * then).sum(axis=0) / np.sqrt((now**2).sum(axis=0) * (then**2).sum(axis=0))
    return np.asarray(-lag / np.log(np.clip(correlation, *CORRELATIONS)))


SHEAR = 0.2  # exponent of the power law, as in the normal wind profile of IEC 61400-1
LEVELS_OFF = 300.0  # m; above, the ground is hardly felt
SITE, SLOW, FAST = (1.5, None), (3.5, 30.0), (2.5, 8.0)  # deviation in m/s, and the hours that it lasts
HEIGHT_SCALE = 1.75  # logarithm of height over which deviations change
GAUGE = 0.3  # m/s, deviation of a measurement from an hour's mean


@dataclass(frozen=True, eq=False)
class GeneralWind:
    """Wind at a site that nothing is known of.

    Parameters
    ----------
    altitudes
        Metres, (n,).
    mean
        Wind speed expected in the middle of them, m/s; or one for each, (n,).
    """

    altitudes: Array
    mean: float | Array

    def __call__(self, hours: Array) -> Array:
        """Return the usual wind at k hours, (k, n)."""
        return np.broadcast_to(self._profile, (len(hours), len(self.altitudes)))

    @cached_property
    def _profile(self) -> Array:
        if np.ndim(self.mean) == 1:
            return np.asarray(self.mean, dtype=np.float64)
        felt = np.minimum(self.altitudes, LEVELS_OFF)
        middle = min(float(np.exp(np.log(self.altitudes).mean())), LEVELS_OFF)
        return np.asarray(self.mean * (felt / middle) ** SHEAR)

    def posterior(self, problem: hc.Problem) -> hc.Posterior:
        """Return the deviations from it, as a process over altitudes and time."""
        from sklearn.gaussian_process.kernels import Matern

        logs = np.log(self.altitudes)
        alike = np.exp(-0.5 * ((logs[:, None] - logs[None, :]) / HEIGHT_SCALE) ** 2)
        site, slow, fast = (
            hc.Kernel(alike, None if hours is None else Matern(hours, nu=0.5), deviation**2)
            for deviation, hours in (SITE, SLOW, FAST)
        )
        return hc.posterior(problem, site + slow + fast, noise_std=GAUGE, method="temporal")

    def describe(self) -> dict[str, Any]:
        """Return what it is, in JSON values."""
        return {"wind": "general", "usual": self._profile.round(9).tolist()}

    def to_data(self) -> dict[str, Any]:
        """Return it in JSON values, from which `wind_from_data` makes an equal one."""
        return {"wind": "general", "altitudes": self.altitudes.tolist(), "mean": np.asarray(self.mean).tolist()}


def wind_from_data(data: Mapping[str, Any]) -> Climate | GeneralWind:
    """Read what `to_data` of a climate or of `GeneralWind` gave."""
    if data["wind"] == "general":
        mean = data["mean"]
        profile = float(mean) if np.ndim(mean) == 0 else np.array(mean, dtype=np.float64)
        return GeneralWind(np.array(data["altitudes"], dtype=np.float64), profile)
    if data["wind"] != "climate":
        raise InvalidInput(f"wind {data['wind']!r} is not known; there are climate and general")
    (day, year), (begin, end) = data["waves"], data["period"]
    arrays = {name: np.array(data[name], dtype=np.float64) for name in ARRAYS}
    n, r = len(arrays["altitudes"]), len(arrays["variances"])
    if arrays["usual"].shape != (1 + 2 * (day + year), n) or arrays["modes"].shape != (n, r):
        raise InvalidInput(f"the climate's arrays do not fit {n} altitudes and {r} modes")
    return Climate(
        **arrays,
        waves=(int(day), int(year)),
        unexplained=float(data["unexplained"]),
        period=(float(begin), float(end)),
    )
