"""Figures that a financier asks for: net energy per year with P50, P75 and P90, and its parts.

All wind, history and test, is flown again as years, counted back from the end of the record, by the compiled version of
`wind-planner`. Each year is flown with what was learned from the years before it (the first year with what was learned
from the years after it), so no year is flown with its own wind. The caution is the one chosen on the whole history.

The variation between years is estimated from these years alone, with Student's distribution because they are few. The
errors of the wind data and of the power curve are not in these years, and count only if they are stated.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri as normal_quantile
from scipy.special import stdtrit as student_quantile

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.calibration import TOO_FEW, Calibration, calibration_words, gains_inside, reached_levels
from holdcourse.wind.backtest.forecast_skill import VARIANTS, Skill
from holdcourse.wind.physics import WindWorld
from holdcourse.wind.policy.policies import Past, Setting

if TYPE_CHECKING:
    from holdcourse.wind.policy.planner import Taught

Array: TypeAlias = NDArray[np.float64]

HOURS_PER_YEAR = 8766.0
LEAST_COVERAGE = 0.9  # of its hours, for a year to count
SHORTEST_STRETCH = 24.0  # hours without a gap; shorter ones are not flown
LEVELS = (0.5, 0.75, 0.9)
LOAN_YEARS = 10
USED = (
    "The policy uses a lidar or forecasts only if they had clearly paid in the wind that it learned from. It uses both "
    "only if both together had clearly paid more than the better of the two."
)
CLEARLY = 2.0  # standard errors by which knowing more must have paid in the past to be used


@dataclass(frozen=True)
class Factors:
    """Stated properties of the plant, as shares of its energy.

    Parameters
    ----------
    availability
        Share of the time that the machine can fly.
    losses
        Share of the energy that is lost between the machine and the meter.
    uncertainty
        Standard deviation of the error of wind data and power curve together, as a share of the energy; None: not
        stated, so not counted.
    """

    availability: float = 1.0
    losses: float = 0.0
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.availability <= 1:
            raise InvalidInput(f"availability={self.availability:g} must be a share of the time, above 0 and at most 1")
        if not 0 <= self.losses < 1:
            raise InvalidInput(f"losses={self.losses:g} must be a share of the energy, at least 0 and below 1")
        if self.uncertainty is not None and not 0 <= self.uncertainty < 1:
            raise InvalidInput(
                f"uncertainty={self.uncertainty:g} must be a share of the energy, at least 0 and below 1"
            )

    @property
    def delivered(self) -> float:
        """Share of the net energy that reaches the meter."""
        return self.availability * (1 - self.losses)


@dataclass(frozen=True, eq=False)
class Year:
    """A year of the record: its last day, and its energy at the machine, kWh in 8766 hours.

    `knowing` is the energy of the same policy with a lidar, with forecasts, with both, and with hindsight; `used` says
    which of them it would have used: "" if that had not paid in the wind from which it learned.
    """

    end: str
    coverage: float
    ours: float
    fixed: float
    moving: float
    moves_per_day: float
    knowing: dict[str, float] = field(default_factory=dict)
    used: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Bankable:
    """Energy per year and its uncertainty: the figures that a bank asks for.

    Attributes
    ----------
    years
        Years flown, oldest first.
    altitudes, hours_at
        Altitudes in metres, and hours a year at each of them, (n,).
    gain
        Mean net gain over `fixed` by month and hour of the day (UTC), kW, (12, 24); NaN if no such hour was flown.
    weibull
        Scale in m/s and shape of the wind at each altitude, (n, 2).
    weeks
        Net energy of our policy and of `fixed` in every week flown, kWh, (w, 2).
    """

    years: tuple[Year, ...]
    factors: Factors
    largest_power: float
    altitudes: Array
    hours_at: Array
    gain: Array
    weibull: Array
    weeks: Array
    price: float | None = None
    currency: str = ""
    skill: Skill = field(default_factory=Skill)

    def energies(self, which: str) -> Array:
        """Return the energy at the meter in every year, kWh: "ours", "fixed", or "more", their difference."""
        ours, fixed = (np.array([getattr(year, name) for year in self.years]) for name in ("ours", "fixed"))
        made = {"ours": ours, "fixed": fixed, "more": ours - fixed}[which]
        return np.asarray(self.factors.delivered * made)

    def exceeded(self, which: str, level: float, span: int = 1) -> float:
        """Return the energy per year, kWh, that the mean of `span` future years exceeds with this probability."""
        return exceeded(self.energies(which), level, span, self.factors.uncertainty or 0.0)

    @property
    def variability(self) -> float:
        """Standard deviation from year to year as a share of the mean; NaN for a single year."""
        made = self.energies("ours")
        return float(made.std(ddof=1) / made.mean()) if len(made) > 1 and made.mean() > 0 else math.nan

    @property
    def capacity_factor(self) -> float:
        """Mean energy at the meter as a share of the energy at full power all year."""
        return float(self.energies("ours").mean() / (self.largest_power * HOURS_PER_YEAR))

    @cached_property
    def calibration(self) -> list[Calibration]:
        """Calibration: how often predictions for years and half-years came true."""
        gains = gains_inside(*self.weeks.T) if len(self.weeks) else None
        return [*reached_levels(self.energies("ours"), LEVELS, exceeded), *([] if gains is None else [gains])]

    @property
    def worth_knowing(self) -> dict[str, float]:
        """Additional energy at the meter with lidar, forecasts, both, and hindsight, kWh a year on average."""
        names = self.years[0].knowing
        return {
            name: self.factors.delivered * float(np.mean([year.knowing[name] - year.ours for year in self.years]))
            for name in names
        }

    @property
    def knowing_words(self) -> str:
        """Worth of knowing more, in a sentence."""
        worth = self.worth_knowing
        if not worth:
            return ""
        told = ", ".join(f"{name} {more:+,.0f} kWh{self._worth(more)}" for name, more in worth.items())
        return f"More information would add per year: {told}."

    def _worth(self, energy: float) -> str:
        """Return what energy is worth, in brackets; nothing where no price was given."""
        return "" if self.price is None else f" ({energy * self.price:+,.0f} {self.currency or 'in money'})"

    @property
    def words(self) -> list[str]:
        """What stands behind the figures, in sentences; the figures themselves are a table."""
        years = len(self.years)
        factor = f"The capacity factor is {100 * self.capacity_factor:.1f} %."
        if years < 2:
            return [
                f"One year of wind was flown: {self.energies('ours')[0]:,.0f} kWh net, "
                f"{self.energies('fixed')[0]:,.0f} kWh at the fixed altitude. {factor} P75 and P90 need two years or "
                "more."
            ]
        varies = (
            f"The energy varies by {100 * self.variability:.1f} % from year to year (standard deviation of {years} "
            "years)."
        )
        return [f"{factor} {varies}", self.assumed, *calibration_words(self.calibration)]

    @property
    def assumed(self) -> str:
        """What the figures take for granted, or include because it was stated."""
        stated = self.factors
        given = f"an availability of {100 * stated.availability:g} % and losses of {100 * stated.losses:g} %"
        said = f"assume {given}; state your own." if stated == Factors() else f"include {given}, as you stated."
        error = (
            "no error of the wind data and the power curve, because you gave none"
            if stated.uncertainty is None
            else f"your error of {100 * stated.uncertainty:g} % for wind data and power curve"
        )
        return f"The figures per year {said} They include {error}."

    @property
    def brief(self) -> list[str]:
        """The sentences for a terminal: without the details of the calibration, and with what knowing more is worth."""
        checked = calibration_words(self.calibration)
        kept = [text for text in self.words if text not in checked] + [text for text in checked if TOO_FEW in text]
        return [" ".join(kept), *([self.knowing_words] if self.knowing_words else [])]

    def as_values(self) -> dict[str, Any]:
        """Return everything in JSON values."""

        def finite(number: float) -> float | None:
            return float(number) if math.isfinite(number) else None

        kinds = {"wind_planner": "ours", "fixed": "fixed", "gain": "more"}
        values: dict[str, Any] = {
            "years": [
                {
                    "end": year.end,
                    "coverage": year.coverage,
                    "net_kwh": year.ours,
                    "fixed_net_kwh": year.fixed,
                    "moving_kwh": year.moving,
                    "moves_per_day": year.moves_per_day,
                    "knowing_more_net_kwh": year.knowing,
                }
                for year in self.years
            ],
            "availability": self.factors.availability,
            "losses": self.factors.losses,
            "uncertainty": self.factors.uncertainty,
            "year_to_year": finite(self.variability),
            "capacity_factor": finite(self.capacity_factor),
            "net_kwh_per_year": {
                name: {f"p{100 * level:.0f}": finite(self.exceeded(kind, level)) for level in LEVELS}
                | {f"p90_of_{LOAN_YEARS}_years": finite(self.exceeded(kind, 0.9, LOAN_YEARS))}
                for name, kind in kinds.items()
            },
            "calibration": [asdict(each) for each in self.calibration],
            "knowing_more_kwh_per_year": self.worth_knowing,
            "forecast_error_m_s": {
                "next_hour": self.skill.first,
                "day_ahead": self.skill.day,
                "source": self.skill.source,
            },
            "altitudes_m": self.altitudes.round(3).tolist(),
            "hours_per_year_at_altitude": self.hours_at.round(2).tolist(),
            "gain_kw_by_month_and_hour": [[finite(cell) for cell in row] for row in self.gain.round(4)],
            "weibull": [
                {"altitude_m": float(height), "scale_m_s": finite(scale), "shape": finite(shape)}
                for height, (scale, shape) in zip(self.altitudes.round(3), self.weibull.round(4), strict=True)
            ],
        }
        if self.price is not None:
            values["price_per_kwh"], values["currency"] = self.price, self.currency or None
            values["worth_per_year"] = {
                name: {level: None if kwh is None else kwh * self.price for level, kwh in levels.items()}
                for name, levels in values["net_kwh_per_year"].items()
            }
            values["knowing_more_worth_per_year"] = {
                name: more * self.price for name, more in self.worth_knowing.items()
            }
        return values


def exceeded(made: Array, level: float, span: int = 1, uncertainty: float = 0.0) -> float:
    """Return what the mean of `span` further years exceeds with this probability, given what some years made.

    Year to year by Student's distribution; a stated error, as a share, is the same in every year and adds in squares.
    """
    mean = float(made.mean())
    if level == 0.5:
        return mean
    if len(made) < 2:
        return math.nan
    spread = float(made.std(ddof=1)) * math.sqrt(1 / span + 1 / len(made))
    weather, error = student_quantile(len(made) - 1, level) * spread, normal_quantile(level) * uncertainty * abs(mean)
    return mean - math.copysign(math.hypot(weather, error), level - 0.5)


def weibull_fit(speed: Array) -> Array:
    """Return scale and shape of the Weibull distribution most likely to give these winds, (t, n); (n, 2)."""
    wind = np.maximum(speed, 1e-3)
    logs = np.log(wind)
    shape = np.full(wind.shape[1], 2.0)
    for _ in range(100):  # the usual fixed point, halfway: it settles within some tens
        raised = wind**shape
        step = 1 / ((raised * logs).sum(axis=0) / raised.sum(axis=0) - logs.mean(axis=0))
        if np.allclose(step, shape, rtol=1e-7):
            break
        shape = (shape + step) / 2
    scale = (wind**shape).mean(axis=0) ** (1 / shape)
    return np.stack([scale, shape], axis=1)


def bankable(
    setting: Setting,
    caution: float,
    factors: Factors | None = None,
    price: float | None = None,
    skill: Skill | None = None,
    currency: str = "",
) -> Bankable | None:
    """Fly all years of a setting's wind, history and test; None if there is less than one year.

    Parameters
    ----------
    caution
        Caution of `wind-planner`, as chosen on the history.
    skill
        Skill of the forecasts that are tried.
    """
    skill = skill or Skill()
    world, past = setting.world, setting.past
    times, speed = _record(world, past)
    step = world.step_hours
    blocks = _years(times, step)
    if not blocks:
        return None
    years, flown = [], []
    for number, (begin, end) in enumerate(blocks):
        known = np.arange(blocks[0][0], begin) if number else np.arange(end, len(times))
        if len(known) * step < HOURS_PER_YEAR * LEAST_COVERAGE:  # a single year is flown with what its own wind taught
            known = np.arange(begin, end)
        try:
            year, hours = _fly_year(world, times, speed, slice(begin, end), known, caution, step, skill)
        except InvalidInput:  # nothing but gaps, or no climate can be learned: a year that does not count
            continue
        years.append(year)
        flown.append(hours)
    if not years:
        return None
    actions, ours, fixed, when = (np.concatenate(parts) for parts in zip(*flown, strict=True))
    week = max(1, round(168.0 / step))
    whole = len(ours) // week * week
    return Bankable(
        tuple(years),
        factors or Factors(),
        world.curve.largest_power,
        world.altitudes,
        np.bincount(actions, minlength=len(world.altitudes)) * HOURS_PER_YEAR / len(actions),
        _by_month_and_hour(when, (ours - fixed) / step),
        weibull_fit(speed),
        np.column_stack([part[:whole].reshape(-1, week).sum(axis=1) for part in (ours, fixed)]),
        price,
        currency,
        skill,
    )


def _record(world: WindWorld, past: Past | None) -> tuple[Array, Array]:
    """Return all wind in order of time, each hour once: hours since 1970 and speeds."""
    times, speeds = [world.moments], [world.speed]
    if past is not None and past.time is not None:
        times, speeds = [past.time, *times], [past.speed, *speeds]
    moments, first = np.unique(np.concatenate(times), return_index=True)
    return moments, np.concatenate(speeds)[first]


def _years(times: Array, step: float) -> list[tuple[int, int]]:
    """Return the first row of each year and the one after its last, oldest first, counted back from the end."""
    found, end = [], float(times[-1]) + step
    while end - HOURS_PER_YEAR >= times[0] - HOURS_PER_YEAR * (1 - LEAST_COVERAGE):
        begin = end - HOURS_PER_YEAR
        # Half a step of slack: a calendar year of 8760 hours begins 6 hours after the mean year does.
        rows = np.searchsorted(times, [begin - step / 2, end - step / 2])
        if (rows[1] - rows[0]) * step >= LEAST_COVERAGE * HOURS_PER_YEAR:
            found.append((int(rows[0]), int(rows[1])))
        end = begin
    return found[::-1]


def _fly_year(
    world: WindWorld,
    times: Array,
    speed: Array,
    rows: slice,
    known: NDArray[np.int64],
    caution: float,
    step: float,
    skill: Skill,
) -> tuple[Year, tuple[NDArray[np.int64], Array, Array, Array]]:
    """Fly one year with what other rows taught.

    Returns the year, and of every round flown: altitude (index), net energy and that of staying, kWh, and time.
    """
    from holdcourse.wind.policy.planner import Taught  # compiled code that only this policy needs

    taught = Taught.by(world, times[known], speed[known], step)
    stretches = _stretches(world, taught, times, speed, np.arange(rows.start, rows.stop), step)
    if not stretches:
        raise InvalidInput("a year of the record has no whole day without a gap; give data with fewer gaps")
    used = {told: told for told in VARIANTS}
    if not np.isin(rows.start, known):  # a single year, flown with what its own wind taught, may not choose by it
        used = _worth_using(_tried(world, times, speed, known, step), caution, skill)
    taken = [stretch.actions(caution, skill) for stretch in stretches]
    net = [stretch.net(actions) for stretch, actions in zip(stretches, taken, strict=True)]
    fixed = [stretch.energy[:, taught.home] for stretch in stretches]
    flown = np.concatenate(taken)
    hours = len(flown) * step
    per_year = HOURS_PER_YEAR / hours
    knowing = {
        name: sum(float(stretch.net(stretch.actions(caution, skill, what)).sum()) for stretch in stretches) * per_year
        for name, what in used.items()
    }
    knowing["hindsight"] = sum(float(stretch.net(stretch.hindsight()).sum()) for stretch in stretches) * per_year
    made, stayed = (float(np.concatenate(part).sum()) * per_year for part in (net, fixed))
    moving = sum(float(each.ways(actions).sum()) for each, actions in zip(stretches, taken, strict=True)) * per_year
    moves = int(sum((np.diff(actions) != 0).sum() for actions in taken))
    last = str(np.datetime64(int(times[rows.stop - 1] * 3600), "s").astype("datetime64[D]"))
    told = tuple(used.items())
    year = Year(last, hours / HOURS_PER_YEAR, made, stayed, moving, moves * 24 / hours, knowing, told)
    when = np.concatenate([stretch.times for stretch in stretches])
    return year, (flown, np.concatenate(net), np.concatenate(fixed), when)


class _Stretch:
    """Gapless wind that our policy is flown through, from home, with whatever it is told."""

    def __init__(self, world: WindWorld, taught: Taught, times: Array, wind: Array, step: float) -> None:
        from holdcourse.wind.policy.planner import Replayed  # compiled code that only this policy needs

        self.world, self.home, self.times, self.step = world, taught.home, times, step
        self.energy = step * world.curve.power(wind)  # what is made, whatever rho says of its weight
        self._replayed = Replayed(world, taught, wind, float(times[0]), step)

    def actions(self, caution: float, skill: Skill, told: str = "") -> NDArray[np.int64]:
        """Return the altitudes taken by one who is told more: "", or one of `VARIANTS`."""
        given: dict[str, Any] = {"lidar": True} if told in ("lidar", "both") else {}
        if told in ("forecast", "both"):
            rounds, seed = len(self.times), int(self.times[0]) % 2**32
            given["said"] = skill.wrong(self.world.altitudes, rounds, self.step, seed)
            given["errors"] = skill.errors(self._replayed.rounds, self.step)
        return self._replayed.actions(caution, **given)

    def hindsight(self) -> NDArray[np.int64]:
        """Return the altitudes of one who knew all wind before."""
        shortfall = self.world.rho * (self.energy.max(axis=1, keepdims=True) - self.energy)
        return hc.optimal_path(shortfall, self.world.problem, self.home).actions

    def net(self, actions: NDArray[np.int64]) -> Array:
        """Return the energy made less that spent on moving, kWh in every round."""
        return np.asarray(self.energy[np.arange(len(actions)), actions] - self.ways(actions))

    def ways(self, actions: NDArray[np.int64]) -> Array:
        """Return what moving costs, kWh in every round: a kWh made counts rho times one of moving."""
        return np.asarray(self.world.problem.distances[np.append(self.home, actions[:-1]), actions] / self.world.rho)


def _stretches(
    world: WindWorld, taught: Taught, times: Array, speed: Array, rows: NDArray[np.int64], step: float
) -> list[_Stretch]:
    """Return the gapless stretches of these rows that are long enough to fly."""
    moments = times[rows]
    cuts = np.flatnonzero(np.abs(np.diff(moments) - step) > 0.01 * step) + 1
    return [
        _Stretch(world, taught, moments[a:b], speed[rows[a:b]], step)
        for a, b in zip(np.append(0, cuts), np.append(cuts, len(moments)), strict=True)
        if (b - a) * step >= SHORTEST_STRETCH
    ]


def _tried(world: WindWorld, times: Array, speed: Array, known: NDArray[np.int64], step: float) -> list[_Stretch]:
    """Return stretches of the past to try what one is told on: its last two years at most.

    Each half of them is flown with what all the rest taught. None if that is too little to learn from.
    """
    from holdcourse.wind.policy.planner import Taught  # compiled code that only this policy needs

    last = known[-round(2 * HOURS_PER_YEAR / step) :]
    found = []
    for half in np.array_split(last, 2):
        rest = np.setdiff1d(known, half)
        try:
            taught = Taught.by(world, times[rest], speed[rest], step)
        except InvalidInput:
            return []
        found += _stretches(world, taught, times, speed, half, step)
    return found


def _worth_using(past: list[_Stretch], caution: float, skill: Skill) -> dict[str, str]:
    """Return what one would use of what one is told: that which clearly paid in the past.

    A lidar or a forecast that did not pay there is left unread, and makes as much as the plain policy. Both together
    are used where one of them paid, and both clearly paid more than the better one alone.
    """
    made = {told: _weekly(past, caution, skill, told) for told in ("", *VARIANTS)}
    alone = {told: told if _clearly(made[told] - made[""]) else "" for told in ("lidar", "forecast")}
    better = max(alone.values(), key=lambda told: float(made[told].sum()))
    both = "both" if better and _clearly(made["both"] - made[better]) else better
    return alone | {"both": both}


def _weekly(past: list[_Stretch], caution: float, skill: Skill, told: str) -> Array:
    """Return the net energy of every week of some stretches, kWh, (weeks,), made by one who is told more."""
    weeks = []
    for stretch in past:
        net, week = stretch.net(stretch.actions(caution, skill, told)), round(168.0 / stretch.step)
        weeks += [float(part.sum()) for part in np.split(net, np.arange(week, len(net), week))]
    return np.array(weeks)


def _clearly(more: Array) -> bool:
    """Whether weeks made more on the whole, by `CLEARLY` standard errors of their sum."""
    if len(more) < 2:
        return False
    return bool(more.sum() > CLEARLY * float(more.std(ddof=1)) * math.sqrt(len(more)))


def _by_month_and_hour(times: Array, values: Array) -> Array:
    """Return the mean by month and hour of the day, UTC, (12, 24)."""
    stamps = (times * 3600).astype(np.int64).astype("datetime64[s]")
    month = stamps.astype("datetime64[M]").astype(np.int64) % 12
    cell = month * 24 + np.floor(times).astype(np.int64) % 24
    count = np.bincount(cell, minlength=288)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(cell, weights=values, minlength=288) / count
    return np.asarray(mean.reshape(12, 24))
