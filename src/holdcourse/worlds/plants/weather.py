"""What happens to a plant from hour to hour: temperatures, loads, the clock, what is being made.

Each function is given a generator of random numbers and the hours since Monday 0:00 before the history, shape (T,), and
answers with one row of contexts per hour, shape (T, d).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Random: TypeAlias = np.random.Generator

DAY, WEEK = 24, 168


def wave(hours: Array, peak: float) -> Array:
    """A daily wave between -1 and 1, highest at the hour `peak`."""
    return np.cos(2 * np.pi * (hours - peak) / DAY)


def wander(random: Random, rounds: int, memory: float) -> Array:
    """A random walk that is drawn back to 0, of deviation 1; `memory` is how many rounds it remembers."""
    keep = float(np.exp(-1.0 / memory))
    path = random.standard_normal(rounds)
    for t in range(1, rounds):
        path[t] = keep * path[t - 1] + np.sqrt(1 - keep**2) * path[t]
    return path


def workday(hours: Array) -> Array:
    """1 from 7 to 19 o'clock on the first five days of a week, else 0."""
    day, hour = hours // DAY % 7, hours % DAY
    return ((day < 5) & (hour >= 7) & (hour < 19)).astype(np.float64)


def within(values: Array, low: float, high: float) -> Array:
    """The values, held between two bounds."""
    return np.clip(values, low, high)


def summer_load(random: Random, hours: Array) -> Array:
    """Wet-bulb temperature in deg C, and cooling load as a share of the largest."""
    t = len(hours)
    wet_bulb = 18.5 + 2.5 * wave(hours, 15) + 2.5 * wander(random, t, 60)
    load = (
        0.42 + 0.16 * wave(hours, 15) + 0.24 * workday(hours) + 0.02 * (wet_bulb - 18.5) + 0.04 * wander(random, t, 5)
    )
    return np.column_stack([within(wet_bulb, 10, 27), within(load, 0.2, 1.0)])


def requests(random: Random, hours: Array) -> Array:
    """Load of a database as a share of the largest, and the share of it that reads."""
    t = len(hours)
    load = 0.45 + 0.2 * wave(hours, 14) + 0.15 * workday(hours) + 0.08 * wander(random, t, 6)
    reads = 0.75 + 0.1 * wave(hours, 12) - 0.3 * (hours % DAY < 4) + 0.05 * wander(random, t, 12)
    return np.column_stack([within(load, 0.1, 0.98), within(reads, 0.2, 0.98)])


def sewage(random: Random, hours: Array) -> Array:
    """Inflow in thousand m3 an hour, and ammonia in it in mg/l; rain brings more of the first and thins the second."""
    t = len(hours)
    rain = np.maximum(0.0, wander(random, t, 10) - 1.2)
    inflow = 1.0 + 0.3 * wave(hours, 11) + 0.7 * rain + 0.05 * wander(random, t, 4)
    ammonia = 30.0 * (1.0 + 0.25 * wave(hours, 10)) / (1.0 + 0.6 * rain) + 2.0 * wander(random, t, 8)
    return np.column_stack([within(inflow, 0.4, 3.0), within(ammonia, 8.0, 50.0)])


def winter_office(random: Random, hours: Array) -> Array:
    """Outdoor temperature in deg C, hour of the day, and whether people are in (0 or 1)."""
    outdoor = 3.0 + 3.0 * wave(hours, 15) + 4.0 * wander(random, len(hours), 72)
    return np.column_stack([within(outdoor, -12, 16), hours % DAY, workday(hours)])


def shift_demand(random: Random, hours: Array) -> Array:
    """Demand for compressed air in m3 a minute, and hour of the day."""
    demand = 14.0 + 16.0 * workday(hours) + 4.0 * wave(hours, 13) + 3.0 * wander(random, len(hours), 6)
    return np.column_stack([within(demand, 4.0, 46.0), hours % DAY])


def wet_goods(random: Random, hours: Array) -> Array:
    """Moisture of what comes in, in percent, and tonnes of it an hour."""
    t = len(hours)
    moisture = 34.0 + 5.0 * wander(random, t, 30)
    tonnes = 6.0 + 2.0 * workday(hours) + 0.8 * wander(random, t, 8)
    return np.column_stack([within(moisture, 20, 48), within(tonnes, 3, 11)])


def process_heat(random: Random, hours: Array) -> Array:
    """Heat that is asked for, as a share of the largest, and temperature of the cooling water in deg C."""
    t = len(hours)
    demand = 0.55 + 0.15 * wave(hours, 14) + 0.1 * wander(random, t, 10)
    water = 16.0 + 2.0 * wave(hours, 17) + 1.5 * wander(random, t, 80)
    return np.column_stack([within(demand, 0.2, 1.0), within(water, 8, 24)])


def water_demand(random: Random, hours: Array) -> Array:
    """Water that a town draws, as a share of the largest hour, and level of the reservoir as a share."""
    t = len(hours)
    demand = 0.5 + 0.2 * wave(hours, 8) + 0.12 * wave(2 * hours, 38) + 0.06 * wander(random, t, 6)
    level = 0.6 + 0.15 * wave(hours, 4) + 0.08 * wander(random, t, 48)
    return np.column_stack([within(demand, 0.12, 1.0), within(level, 0.2, 1.0)])


def winter_town(random: Random, hours: Array) -> Array:
    """Outdoor temperature in deg C, and heat that a town draws as a share of the largest."""
    t = len(hours)
    outdoor = 2.0 + 2.5 * wave(hours, 15) + 4.0 * wander(random, t, 80)
    draw = 0.5 - 0.025 * (outdoor - 2.0) + 0.08 * wave(hours, 7) + 0.04 * wander(random, t, 5)
    return np.column_stack([within(outdoor, -14, 15), within(draw, 0.15, 1.0)])


def raw_material(random: Random, hours: Array) -> Array:
    """Hardness of what is ground, as an index around 12, and tonnes an hour."""
    t = len(hours)
    return np.column_stack(
        [within(12 + 1.6 * wander(random, t, 40), 7, 17), within(80 + 12 * wander(random, t, 12), 45, 115)]
    )


def steam(random: Random, hours: Array) -> Array:
    """Steam load as a share of the largest, and moisture of the fuel in percent."""
    t = len(hours)
    load = 0.55 + 0.2 * workday(hours) + 0.08 * wave(hours, 11) + 0.06 * wander(random, t, 6)
    return np.column_stack([within(load, 0.25, 1.0), within(30 + 6 * wander(random, t, 30), 12, 50)])


def visitors(random: Random, hours: Array) -> Array:
    """Persons in a hall, in hundreds, and outdoor temperature in deg C."""
    t = len(hours)
    open_ = (hours % DAY >= 9) & (hours % DAY < 21)
    persons = np.where(open_, 4.0 + 2.5 * wave(hours, 16) + 0.8 * wander(random, t, 4), 0.3)
    outdoor = 12.0 + 4.0 * wave(hours, 15) + 3.0 * wander(random, t, 70)
    return np.column_stack([within(persons, 0.2, 9.0), within(outdoor, -2, 28)])


def campaigns(random: Random, hours: Array) -> Array:
    """The product, a code from 0 to 5 without order, about twelve hours each, and hall temperature in deg C."""
    t = len(hours)
    product = np.empty(t)
    now = int(random.integers(6))
    for k in range(t):
        if k and random.random() < 1 / 12:
            now = int((now + random.integers(1, 6)) % 6)
        product[k] = now
    hall = 21.0 + 2.0 * wave(hours, 16) + 1.5 * wander(random, t, 50)
    return np.column_stack([product, within(hall, 14, 30)])


def servers(random: Random, hours: Array) -> Array:
    """Load as a share, outdoor temperature in deg C, humidity as a share, hour of day, and a number without meaning."""
    t = len(hours)
    load = 0.55 + 0.12 * wave(hours, 20) + 0.08 * wander(random, t, 10)
    outdoor = 14.0 + 4.5 * wave(hours, 15) + 3.5 * wander(random, t, 70)
    humidity = 0.6 - 0.15 * wave(hours, 15) + 0.08 * wander(random, t, 30)
    idle = random.random(t)
    return np.column_stack(
        [within(load, 0.2, 1.0), within(outdoor, -2, 32), within(humidity, 0.2, 0.98), hours % DAY, idle]
    )
