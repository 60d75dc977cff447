"""What is knowing more worth? The same years are flown with a lidar, with forecasts, and with both.

The lidar measures the wind at every altitude after each round. The forecast states the wind of future rounds with an
error of a given size, which grows with the lead; errors at neighbouring times and altitudes are correlated. The policy
trusts a forecast by the share of the variance that it removes, as it does in operation.

The size of the errors comes from published figures or, better, from your own past forecasts:

    s(lead)^2 = first^2 + (day^2 - first^2) (lead - 1) / 23

The published figures are for about the first twelve hours: a median absolute error of 1.25 m/s at hub height on land
(HRRR: Pendergrass, Vogel and Dobosy, 92nd AMS Annual Meeting, 2012), which for normal errors is a deviation of 1.85
m/s, and about 2.5 m/s between 50 and 200 m at sea (NAM, RAP: Banta et al., Bull. Amer. Meteor. Soc. 99, 2018). They
give the level, 2.2 m/s. That errors grow by half within a day is an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from holdcourse.errors import InvalidInput
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.forecasts import Forecasts

Array: TypeAlias = NDArray[np.float64]

PUBLISHED = (1.25 / 0.6745, 2.5)  # m/s, over the first PUBLISHED_HOURS; a median absolute error as that of normal ones
PUBLISHED_HOURS = 12
GROWTH = 1.5  # of the error, from an hour ahead to a day ahead; assumed
MEMORY = 6.0  # hours over which the error of a forecast lasts
REACH = 0.7  # in the logarithm of height: errors at 100 m and 200 m go together by 0.61
FEWEST_PAIRS = 200  # of forecast and wind, to fit to
LONGEST_STEP = 6.0  # hours between two times of a run that tell how long errors last
NARROW = 6.0  # hours: leads that span less do not tell how errors grow
VARIANTS = ("lidar", "forecast", "both")


def _level(growth: float = GROWTH) -> float:
    """Return the error an hour ahead that gives the published ones over their hours."""
    mean_square = sum(error**2 for error in PUBLISHED) / len(PUBLISHED)
    middle = (PUBLISHED_HOURS + 1) / 2
    return math.sqrt(mean_square / (1 + (growth**2 - 1) * (middle - 1) / 23))


@dataclass(frozen=True)
class Skill:
    """Errors of a forecast: standard deviation in m/s for the next hour and a day ahead; its square grows linearly.

    Parameters
    ----------
    memory
        Hours after which the correlation of an error has fallen to 1/e.
    reach
        Difference in the logarithm of height over which the correlation falls to 1/e.
    source
        Source of the figures, in words.
    """

    first: float = round(_level(), 1)
    day: float = round(GROWTH * _level(), 1)
    memory: float = MEMORY
    reach: float = REACH
    source: str = "from published figures; give your own forecasts for a better figure"

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.day < math.inf:
            raise InvalidInput(
                f"forecast_error={self.first:g},{self.day:g} must be the errors one hour and one day ahead, in m/s, "
                "and the second must not be below the first"
            )

    def at(self, lead: Array) -> Array:
        """Return the standard deviation of forecasts with this lead in hours, m/s."""
        growth = (self.day**2 - self.first**2) / 23.0
        return np.sqrt(np.maximum(self.first**2 + growth * (lead - 1.0), 0.25 * self.first**2))

    def errors(self, rounds: int, step: float) -> Array:
        """Return the standard deviations of a forecast for the present round and those after it, m/s, (rounds,)."""
        return self.at(np.asarray(1.0 + step * np.arange(rounds)))

    def wrong(self, altitudes: Array, rounds: int, step: float, seed: int) -> Array:
        """Draw errors of the forecasts of every round, with standard deviation 1, (rounds, n)."""
        heights = np.log(altitudes)
        alike = np.exp(-0.5 * ((heights[:, None] - heights[None, :]) / self.reach) ** 2) + 1e-9 * np.eye(len(heights))
        root, random = np.linalg.cholesky(alike), np.random.default_rng(seed)
        drawn = random.standard_normal((rounds, len(heights))) @ root.T
        keep = math.exp(-step / self.memory)
        fresh = math.sqrt(1 - keep * keep)
        for k in range(1, rounds):
            drawn[k] = keep * drawn[k - 1] + fresh * drawn[k]
        return np.asarray(drawn)

    @property
    def words(self) -> str:
        """The skill in words."""
        return (
            f"the error of forecasts is {self.first:.2g} m/s an hour ahead and {self.day:.2g} m/s a day ahead, "
            f"{self.source}"
        )


def fitted_skill(said: Sequence[Forecasts], record: Sequence[WindData]) -> Skill:
    """Return the skill of past forecasts, from the wind that then blew.

    Errors include their bias, because the policy does not correct a forecast either. If all forecasts have about the
    same lead, the growth of the published figures is kept.
    """
    wrong = [(each, _wrong(each, data)) for each in said for data in record]
    known = [np.isfinite(table) for _, table in wrong]
    errors = np.concatenate([table[there] for (_, table), there in zip(wrong, known, strict=True)])
    leads = np.concatenate(
        [np.repeat(each.lead, there.sum(axis=1)) for (each, _), there in zip(wrong, known, strict=True)]
    )
    if len(errors) < FEWEST_PAIRS:
        about = " and ".join(f"{each.source} ({each.time.min()} to {each.time.max()})" for each in said)
        raise InvalidInput(
            f"{FEWEST_PAIRS} forecasts or more must match hours and heights of the wind data, but only {len(errors)} "
            f"{'does' if len(errors) == 1 else 'do'}; the forecasts are {about}. Give wind of the same time, or more "
            "forecasts"
        )
    squares = errors**2
    if np.ptp(leads) >= NARROW:
        start, growth = nnls(np.column_stack([np.ones_like(leads), leads]), squares)[0]
        first, day = math.sqrt(start + growth), math.sqrt(start + 24 * growth)
    else:
        shape = Skill()
        first = shape.first * math.sqrt(float(squares.mean()) / float((shape.at(leads) ** 2).mean()))
        day = first * shape.day / shape.first
    names = ", ".join(dict.fromkeys(each.source for each in said))
    return Skill(first, day, _memory(wrong), _reach(wrong), f"fitted to {len(errors):,} forecasts in {names}")


def _wrong(said: Forecasts, record: WindData) -> Array:
    """Return what each forecast was wrong by, m/s, (k, m); NaN where the wind is not known."""
    wrong = np.full(said.speed.shape, np.nan)
    covered = (said.heights >= record.heights[0]) & (said.heights <= record.heights[-1])
    place = np.minimum(np.searchsorted(record.time, said.time), len(record.time) - 1)
    same = record.time[place] == said.time
    if covered.any() and same.any():
        begin, end = int(place[same].min()), int(place[same].max()) + 1
        blew = record.between(record.time[begin], record.time[end - 1] + np.timedelta64(1, "s"))
        blew_there = blew.at(said.heights[covered], outside="clamp")[place[same] - begin]
        wrong[np.ix_(same, covered)] = said.speed[np.ix_(same, covered)] - blew_there
    return wrong


def _memory(wrong: Sequence[tuple[Forecasts, Array]]) -> float:
    """Return how long errors last, by what goes together from one hour of a run to the next."""
    first, then, steps = [], [], []
    for said, table in wrong:
        seconds = said.time.astype(np.int64)
        run = np.round(seconds / 3600.0 - said.lead, 3)
        order = np.lexsort((seconds, run))
        step = np.diff(seconds[order]) / 3600.0
        follows = (np.diff(run[order]) == 0) & (step > 0) & (step <= LONGEST_STEP)
        steps.append(step[follows])
        first.append(table[order[:-1]][follows].ravel())
        then.append(table[order[1:]][follows].ravel())
    alike = _together(np.concatenate(first), np.concatenate(then))
    hours = np.median(np.concatenate(steps)) if alike is not None else math.nan
    return MEMORY if alike is None else float(np.clip(-hours / math.log(alike), 1.0, 48.0))


def _reach(wrong: Sequence[tuple[Forecasts, Array]]) -> float:
    """Return how far errors go together over height, by neighbouring heights."""
    found = []
    for said, table in wrong:
        for k in range(len(said.heights) - 1):
            alike = _together(table[:, k], table[:, k + 1])
            if alike is not None:
                apart = math.log(said.heights[k + 1] / said.heights[k])
                found.append(apart / math.sqrt(-2 * math.log(alike)))
    return float(np.clip(np.median(found), 0.1, 3.0)) if found else REACH


def _together(one: Array, other: Array) -> float | None:
    """Return the correlation of two errors, within what an exponential can be; None where too few tell."""
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < FEWEST_PAIRS or one[known].std() == 0 or other[known].std() == 0:
        return None
    return float(np.clip(np.corrcoef(one[known], other[known])[0, 1], 0.05, 0.99))
