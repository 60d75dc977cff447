r"""The usual wind of a site and its variations, learned from a history; or a general climate that nearly fits any site.

============  ==============================================================================================  ========
symbol        meaning                                                                                         shape
============  ==============================================================================================  ========
t, n, r       times of the history, altitudes, modes
c(h)          usual wind at hour h since 1970: a mean, waves of a day and its parts, and a wave of a year     (n,)
a             anomalies: wind less usual wind                                                                 (t, n)
u_j           modes: eigenvectors of the covariance of the anomalies                                          (n,)
lambda_j      variance of the anomalies along a mode
tau_j         time scale of a mode: its correlation after s hours is exp(-s / tau_j)
o             constant error of the usual wind, learned while flying                                          (n,)
============  ==============================================================================================  ========

As a Gaussian process the wind is :math:`c(h) + o + \sum_j u_j s_j(h)` with independent Ornstein-Uhlenbeck processes
:math:`s_j` of variance :math:`\lambda_j`. This is a kernel over altitudes and time; the filter for it is exact
even if hours are missing.

**Without history** (`general_climate`): rough values that fit nearly any site. The wind grows with height by a power
law until it levels off, plus a constant profile of errors (the site). Around this profile, the strength of the wind
changes over two days, with nearly the same height profile; and the shape of the profile changes by about a metre per
second over some hours (fronts, stability).

**With a history** (`learn_climate`): the usual wind at each hour, and how anomalies spread over altitudes and last. The
number of waves of the day, and whether there is a wave of the year, are chosen by leaving out a tenth of the history at
a time and predicting it from the rest. A short history says little, and one season says little about the others. So the
history is combined with the general climate, as if that had been observed for some weeks. The mean profile keeps an
error that is learned while flying; the longer the history, the smaller it is. See docs/theory/wind-in-time.md for what
else was tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
SHORTEST_HISTORY = 3 * DAY  # hours; from less, nothing is learned
SHORTEST_DAYS = 10 * DAY  # hours; from less, no wave of the day
FEWEST_PAIRS = 48  # of times a lag apart; fewer tell no correlation
ARRAYS = ("altitudes", "usual", "modes", "variances", "time_scales")  # of a climate
OFFSETS = ("offsets", "offset_variances")
CORRELATIONS = (0.05, 0.9995)  # over an hour; what lies outside is chance


@dataclass(frozen=True, eq=False)
class Climate:
    """The usual wind, and the anomalies around it; `holdcourse.wind.policy.climate` explains the symbols.

    Attributes
    ----------
    altitudes
        Altitudes in metres, (n,).
    waves
        Number of waves of the day and of the year in the usual wind.
    usual
        Coefficients of the usual wind, (1 + 2 * waves, n), m/s.
    modes, variances, time_scales
        Modes of the anomalies: unit vectors (n, r), variances (r,) in (m/s)^2, and time scales (r,) in hours.
    unexplained
        Standard deviation of the wind that no mode explains, m/s.
    period
        First and last hour of the history, since 1970; the same hour twice if there is no history.
    offsets, offset_variances
        Possible constant errors of the usual wind: unit vectors (n, m), and variances (m,) in (m/s)^2; default: none.
    """

    altitudes: Array
    waves: tuple[int, int]
    usual: Array
    modes: Array
    variances: Array
    time_scales: Array
    unexplained: float
    period: tuple[float, float]
    offsets: Array = field(default_factory=lambda: np.empty((0, 0)))
    offset_variances: Array = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.offset_variances):
            object.__setattr__(self, "offsets", np.empty((len(self.altitudes), 0)))
        # Laid out alike, whether learned or read from a file: products of matrices differ in their last bits otherwise.
        for name in (*ARRAYS, *OFFSETS):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))

    def __call__(self, hours: Array) -> Array:
        """Return the usual wind at k hours since 1970, (k, n)."""
        return np.asarray(_waves(np.atleast_1d(hours), self.waves) @ self.usual)

    @cached_property
    def kernel(self) -> hc.KernelSum:
        """The anomalies as a process over altitudes and time."""
        from sklearn.gaussian_process.kernels import Matern

        stays = [
            hc.Kernel(np.outer(offset, offset), None, float(variance))
            for offset, variance in zip(self.offsets.T, self.offset_variances, strict=True)
        ]
        changes = [
            hc.Kernel(np.outer(mode, mode), Matern(float(hours), nu=0.5), float(variance))
            for mode, hours, variance in zip(self.modes.T, self.time_scales, self.variances, strict=True)
        ]
        return hc.KernelSum((*stays, *changes))

    @property
    def states(self) -> tuple[Array, Array, Array]:
        """States of the filter, constant ones first: vectors (n, k), variances (k,), time scales in hours (k,)."""
        hours = np.concatenate([np.full(len(self.offset_variances), np.inf), self.time_scales])
        variances = np.concatenate([self.offset_variances, self.variances])
        return np.ascontiguousarray(np.hstack([self.offsets, self.modes])), variances, hours

    def posterior(self, problem: hc.Problem) -> hc.Posterior:
        """Return the posterior of the anomalies before the first measurement; contexts are hours since 1970."""
        return hc.posterior(problem, self.kernel, noise_std=self.unexplained, method="temporal")

    def describe(self) -> dict[str, Any]:
        """Return what was learned in JSON values."""
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
        """Return everything that was learned in JSON values, from which an equal climate can be made."""
        learned = {part.name: np.asarray(getattr(self, part.name)).tolist() for part in fields(self)}
        return {"wind": "climate"} | {name: value for name, value in learned.items() if name not in self._absent}

    @property
    def _absent(self) -> tuple[str, ...]:
        """What a climate of an earlier day does not have."""
        return () if len(self.offset_variances) else OFFSETS

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
        return (
            f"The usual wind {follows}; the wind deviates from it in {len(self.variances)} modes over height (size and "
            f"duration: {modes})."
        )

    @cached_property
    def digest(self) -> str:
        """A hash that is equal for equal climates."""
        digest = hashlib.sha256()
        for part in fields(self):
            if part.name not in self._absent:
                digest.update(np.ascontiguousarray(getattr(self, part.name), dtype=np.float64).tobytes())
        return digest.hexdigest()[:16]


def learn_climate(hours: Array, speed: Array, altitudes: Array) -> Climate:
    """Learn a climate from past profiles of the wind; with few profiles it stays near `general_climate`.

    Parameters
    ----------
    hours
        Time of each profile in hours since 1970, ascending, (t,); hours may be missing.
    speed
        m/s, (t, n).
    altitudes
        Metres, (n,).

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> speed = 8.0 + random.normal(size=(400, 1)) + 0.1 * random.normal(size=(400, 3))
    >>> learn_climate(np.arange(400.0), speed, np.array([50.0, 100.0, 200.0])).modes.shape
    (3, 2)
    """
    times, table = np.asarray(hours, dtype=np.float64), np.asarray(speed, dtype=np.float64)
    if times.ndim != 1 or table.shape != (len(times), len(altitudes)):
        raise InvalidInput(
            f"speed must have one row per hour and one column per altitude, got {table.shape} for {times.shape} hours "
            f"and {len(altitudes)} altitudes"
        )
    if not (np.isfinite(times).all() and np.isfinite(table).all() and (np.diff(times) > 0).all()):
        raise InvalidInput("hours must ascend, and all speeds must be finite; leave out hours that are missing")
    step = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    covered = len(times) * step
    if covered < SHORTEST_HISTORY:
        raise InvalidInput(
            f"the history covers {covered:.0f} hours, but a climate needs {SHORTEST_HISTORY:.0f} or more; give more "
            "wind"
        )
    heights = np.asarray(altitudes, dtype=np.float64)
    waves = _chosen_waves(times, table)
    basis = _waves(times, waves)
    usual: Array = np.linalg.lstsq(basis, table, rcond=None)[0].astype(np.float64)
    anomalies = table - basis @ usual
    if float((anomalies**2).mean()) <= 1e-9:
        raise InvalidInput("the wind of the history never changes, so there is nothing to learn; check the file")
    lag = max(1, round(1.0 / step)) * step
    now, later, noise = _covariances(times, anomalies, lag, step)
    level, shape = _level(heights), _shape(heights)
    share = covered / (covered + GENERAL_HOURS)
    now = share * now + (1 - share) * (level + shape)
    faded = level * np.exp(-lag / LEVEL_HOURS) + shape * np.exp(-lag / SHAPE_HOURS)
    modes, variances, rest = _modes(now)
    kept = np.einsum("ij,ik,kj->j", modes, share * later + (1 - share) * faded, modes) / variances
    time_scales = -lag / np.log(np.clip(kept, *CORRELATIONS))
    unexplained = float(np.sqrt(max(rest, LEAST_NOISE**2) + np.diag(noise).mean()))
    usual[0], offset = _site(heights, usual[0], modes, variances * np.minimum(1.0, 2 * time_scales / covered), covered)
    offsets, offset_variances, _ = _modes(offset)
    return Climate(
        altitudes=heights,
        waves=waves,
        usual=usual,
        modes=modes,
        variances=variances,
        time_scales=time_scales,
        unexplained=unexplained,
        period=(float(times[0]), float(times[-1])),
        offsets=offsets,
        offset_variances=offset_variances,
    )


def _modes(covariance: Array) -> tuple[Array, Array, float]:
    """Return eigenvectors (n, r), their variances (r,), and the variance that they leave at an altitude, on average."""
    variances, modes = np.linalg.eigh((covariance + covariance.T) / 2)
    variances, modes = np.maximum(variances[::-1], 0.0), modes[:, ::-1]
    enough = int(np.searchsorted(np.cumsum(variances) / variances.sum(), EXPLAINED)) + 1
    kept = min(enough, MOST_MODES, int((variances > 1e-9 * variances.sum()).sum()))
    left = float(variances[kept:].sum() / len(variances))
    return np.ascontiguousarray(modes[:, :kept]), variances[:kept].copy(), left


def _pairs(hours: Array, lag: float, step: float) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which times have another one a lag later, and its row for each of these."""
    later = np.searchsorted(hours, hours + lag - 0.01 * step)
    found = later < len(hours)
    found[found] = np.abs(hours[later[found]] - hours[found] - lag) < 0.02 * step
    return found, later[found]


def _covariances(hours: Array, anomalies: Array, lag: float, step: float) -> tuple[Array, Array, Array]:
    """Return the covariance of the wind's anomalies, the one over a lag, and that of the noise of the gauges, (n, n).

    By half the mean product of changes over a lag: that is the covariance less the one over the lag, and where hours
    are missing much less is left to chance than in their difference.
    """
    found, _ = _pairs(hours, lag, step)
    if found.sum() < FEWEST_PAIRS:
        raise InvalidInput(
            f"to learn how long wind lasts, {FEWEST_PAIRS} times of the history or more must have another one {lag:g} "
            f"h later, but only {found.sum()} {'has' if found.sum() == 1 else 'have'}; give more wind without gaps"
        )
    whole, change = anomalies.T @ anomalies / len(anomalies), _changes(hours, anomalies, lag, step)
    noise = np.zeros_like(whole)
    if lag < NOISE_LAG and _pairs(hours, 2 * lag, step)[0].sum() >= FEWEST_PAIRS:
        # Changes of the wind itself fade with the lag, those of noise do not: what a straight line leaves at lag 0.
        variances, vectors = np.linalg.eigh(2 * change - _changes(hours, anomalies, 2 * lag, step))
        noise = (vectors * np.maximum(variances, 0.0)) @ vectors.T
        if np.diag(noise).mean() < NOTICED_NOISE**2:
            noise = np.zeros_like(whole)
    return whole - noise, whole - change, noise


def _changes(hours: Array, anomalies: Array, lag: float, step: float) -> Array:
    """Return half the mean product of changes over a lag, (n, n)."""
    found, later = _pairs(hours, lag, step)
    change = anomalies[later] - anomalies[found]
    return np.asarray(change.T @ change / (2 * int(found.sum())))


def _site(heights: Array, seen: Array, modes: Array, errors: Array, covered: float) -> tuple[Array, Array]:
    """Return the mean profile of a site, (n,), and the covariance of its error, (n, n).

    What is expected of any site, corrected by the mean of a history, (n,), with its own errors: of the weather that it
    met along each mode, and of the seasons that it did not meet. Its fine shape, which no mode has, is taken as seen
    where the seasons were: smoothing a mean profile by some centimetres per second costs more than it saves.
    """
    expected, spread = general_profile(heights, GENERAL_MEAN), _site_spread(heights)
    fine = ROUGH**2 * _unseen(covered) + FINE**2
    error = (modes * errors) @ modes.T + _season(covered) * _alike(heights, SEASON_SCALE) + fine * np.eye(len(heights))
    gain = np.linalg.solve(spread + error, spread).T
    return expected + gain @ (seen - expected), spread - gain @ spread


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
    long = hours[-1] - hours[0]
    tried = [
        (day, year) for day, year in WAVES if (not day or long >= SHORTEST_DAYS) and (not year or long >= 0.95 * YEAR)
    ]
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


SHEAR = 0.2  # exponent of the power law, as in the normal wind profile of IEC 61400-1
LEVELS_OFF = 300.0  # m; above, the ground is hardly felt
GENERAL_MEAN = 8.5  # m/s, in the middle of the altitudes
LEVEL, LEVEL_SHEAR, LEVEL_HOURS = 4.7, 0.125, 50.0  # deviation of the strength in m/s at 150 m, exponent, hours
SHAPE, SHAPE_SCALE, SHAPE_HOURS = 1.0, 0.7, 5.0  # deviation of the shape in m/s, its scale over height, hours
TURN = 150.0  # m; shapes change over ln(1 + height / this): evenly near the ground, by the ratio of heights above
GENERAL_HOURS = 1000.0  # of history that the general climate counts as
UNSEEN_SEASON, OTHER_YEARS, SEASON_SCALE = 1.5, 0.2, 1.0  # m/s by which the mean shape of a history may be off
ANY_STRENGTH = 10.0  # times `LEVEL`: sites are as windy as they like
STRANGE = 25.0  # as `strangeness`: such profiles hardly exist
ROUGH, FINE = 0.1, 0.01  # m/s by which it may be off at a single altitude: in other seasons, and where all were seen
SITE_ROUGH = 0.3  # m/s, of shapes finer than those
GENERAL_NOISE, LEAST_NOISE, NOTICED_NOISE = 0.2, 0.1, 0.3  # m/s, of a measurement
NOISE_LAG = 1.5  # hours; from steps longer than that, noise cannot be told from wind
SITE, SLOW, FAST = (1.5, None), (3.5, 30.0), (2.5, 8.0)  # deviation in m/s, and the hours that it lasts
HEIGHT_SCALE = 1.75  # logarithm of height over which deviations change
GAUGE = 0.3  # m/s, deviation of a measurement from an hour's mean


def general_climate(altitudes: Array, mean: float = GENERAL_MEAN) -> Climate:
    """Return the climate of an unknown site; `mean` is the wind speed (m/s) in the middle of its altitudes.

    >>> general_climate(np.array([50.0, 100.0, 200.0])).time_scales.tolist()  # hours: of the strength, and of shapes
    [50.0, 5.0, 5.0, 5.0]
    """
    heights = np.asarray(altitudes, dtype=np.float64)
    level, shape = _level(heights), _shape(heights)
    # The strength is one mode of its own; the shape has several, which are not orthogonal to it.
    modes, variances, rest = _modes(shape)
    size = float(np.trace(level))
    strength = np.sqrt(np.diag(level) / size)
    offsets, offset_variances, _ = _modes(_site_spread(heights))
    return Climate(
        altitudes=heights,
        waves=(0, 0),
        usual=general_profile(heights, mean)[None],
        modes=np.column_stack([strength, modes]),
        variances=np.append(size, variances),
        time_scales=np.append(LEVEL_HOURS, np.full(len(variances), SHAPE_HOURS)),
        unexplained=float(np.sqrt(rest + GENERAL_NOISE**2)),
        period=(0.0, 0.0),
        offsets=offsets,
        offset_variances=offset_variances,
    )


def general_profile(altitudes: Array, mean: float) -> Array:
    """Return the power law that levels off, m/s, (n,), with this wind speed in the middle of the altitudes."""
    felt = np.minimum(altitudes, LEVELS_OFF)
    middle = min(float(np.exp(np.log(altitudes).mean())), LEVELS_OFF)
    return np.asarray(mean * (felt / middle) ** SHEAR)


def strangeness(altitudes: Array, mean: Array, covered: float) -> float:
    """Return how far the mean profile of some hours, m/s (n,), is from that of any site, whatever its strength.

    In squared deviations: 4 to 14 for histories of two weeks to a year at the bundled site, 35 to 500 for the same with
    the heights upside down.
    """
    level, off = _level(altitudes), mean - general_profile(altitudes, GENERAL_MEAN)
    weather = (level + _shape(altitudes) * SHAPE_HOURS / LEVEL_HOURS) * min(1.0, 2 * LEVEL_HOURS / covered)
    season = _season(covered) * _alike(altitudes, SEASON_SCALE)
    spread = ANY_STRENGTH**2 * level + weather + season + _site_spread(altitudes)
    return float(off @ np.linalg.solve(spread, off))


def _season(covered: float) -> float:
    """Return the variance of what the shape of a mean profile is off by, after so many hours."""
    return UNSEEN_SEASON**2 * _unseen(covered) + OTHER_YEARS**2


def _unseen(covered: float) -> float:
    """Return the share of a year's seasons that so many hours did not meet."""
    return max(0.0, 1.0 - covered / YEAR)


def _level(altitudes: Array) -> Array:
    strength = LEVEL * (altitudes / TURN) ** LEVEL_SHEAR
    return np.outer(strength, strength)


def _shape(altitudes: Array) -> Array:
    return SHAPE**2 * _alike(altitudes, SHAPE_SCALE)


def _alike(altitudes: Array, scale: float) -> Array:
    turned = np.log1p(altitudes / TURN)
    return np.asarray(np.exp(-0.5 * ((turned[:, None] - turned[None, :]) / scale) ** 2))


def _site_spread(altitudes: Array) -> Array:
    """Return the covariance over altitudes of what the mean profile of a site is off by, (n, n)."""
    logs = np.log(altitudes)
    alike = np.exp(-0.5 * ((logs[:, None] - logs[None, :]) / HEIGHT_SCALE) ** 2)
    return np.asarray(SITE[0] ** 2 * alike + SITE_ROUGH**2 * _alike(altitudes, 0.5) + ROUGH**2 * np.eye(len(logs)))


@dataclass(frozen=True, eq=False)
class GeneralWind:
    """Wind at a site that nothing is known of, as policies of version 1 have it: `general_climate` took its place.

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
        return general_profile(self.altitudes, float(self.mean))

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
        """Return it in JSON values, from which an equal one is read."""
        return {"wind": "general", "altitudes": self.altitudes.tolist(), "mean": np.asarray(self.mean).tolist()}


def general_from_data(data: Mapping[str, Any]) -> GeneralWind:
    """Read what `to_data` of `GeneralWind` gave."""
    mean = data["mean"]
    profile = float(mean) if np.ndim(mean) == 0 else np.array(mean, dtype=np.float64)
    return GeneralWind(np.array(data["altitudes"], dtype=np.float64), profile)


def climate_from_data(data: Mapping[str, Any]) -> Climate:
    """Read what `to_data` of a climate gave."""
    (day, year), (begin, end) = data["waves"], data["period"]
    arrays = {name: np.array(data[name], dtype=np.float64) for name in (*ARRAYS, *OFFSETS) if name in data}
    n, r = len(arrays["altitudes"]), len(arrays["variances"])
    if "offsets" in arrays and arrays["offsets"].shape != (n, len(arrays["offset_variances"])):
        raise InvalidInput(f"the climate's offsets do not fit {n} altitudes")
    if arrays["usual"].shape != (1 + 2 * (day + year), n) or arrays["modes"].shape != (n, r):
        raise InvalidInput(f"the climate's arrays do not fit {n} altitudes and {r} modes")
    return Climate(
        **arrays,
        waves=(int(day), int(year)),
        unexplained=float(data["unexplained"]),
        period=(float(begin), float(end)),
    )
