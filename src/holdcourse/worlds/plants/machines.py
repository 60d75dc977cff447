"""What an hour costs at every setting of a plant: plain formulas of textbooks, none of them a Gaussian process.

Each function is given a generator, from which a case draws how its machine differs from others of the kind, the hours
(T,), the contexts (T, d) and the settings (n, axes), and answers with expected costs, shape (T, n), all positive.
Hours below `HISTORY` are those of the operators' history; `ROUNDS` follow.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.worlds.plants.weather import DAY

Array: TypeAlias = NDArray[np.float64]
Random: TypeAlias = np.random.Generator

HISTORY, ROUNDS = 336, 672  # hours: two weeks and four weeks


def about(random: Random, value: float, spread: float = 0.08) -> float:
    """A number of the machine that differs from case to case."""
    return float(value * np.exp(spread * random.standard_normal()))


def _columns(table: Array) -> tuple[Array, ...]:
    """Contexts as columns (T, 1), so that they meet settings of shape (n,)."""
    return tuple(column[:, None] for column in table.T)


def _axes(settings: Array) -> tuple[Array, ...]:
    """Settings as one array (n,) for each knob."""
    return tuple(settings.T)


def over(values: Array, limit: float | Array, softness: float) -> Array:
    """How far values are above a limit, rounded off within the softness."""
    return softness * np.logaddexp(0.0, (values - limit) / softness)


def chiller(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Compressor by a share of Carnot, fan and pump by the cube law; Braun's cooling plants, in small.

    Colder water needs more lift, warmer water more flow through the coils; a faster fan brings the condenser nearer to
    the wet-bulb temperature.
    """
    wet_bulb, load = _columns(contexts)
    water, fan = _axes(settings)
    heat, share = about(random, 500.0), about(random, 0.45)
    condenser = wet_bulb + 2.0 + about(random, 7.0) * load / fan**0.9
    compressor = heat * load * np.maximum(condenser - water + 4.0, 5.0) / (share * (water + 273.0))
    pump = about(random, 15.0) * (load * 8.0 / (15.0 - water)) ** 3 + 3.0
    return compressor + about(random, 26.0) * fan**3 + pump


def database(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Gunther's scalability law for workers, a queue for the load, a cache for reads; beyond the memory it swaps.

    One in a hundred hours has a stall that makes it five times as long, whatever the setting.
    """
    load, reads = _columns(contexts)
    workers, buffer = _axes(settings)
    hit = 1.0 - np.exp(-buffer / about(random, 5.0))
    service = about(random, 4.0) * (reads * (1.0 - 0.75 * hit) + (1.0 - reads) * 1.3)
    contention = (1.0 - reads) * about(random, 0.09)
    capacity = workers / (1.0 + contention * (workers - 1) + 0.0004 * workers * (workers - 1)) / service
    full = about(random, 3.4)
    busy = np.minimum(load * full / capacity, 0.93)
    latency = service * (1.0 + busy / (1.0 - busy) / 2) * (1.0 + 0.004 * workers)
    swap = 0.3 * workers * (0.3 + load) + buffer > about(random, 18.0, 0.03)
    return latency * np.where(swap, 3.2, 1.0)


def wastewater(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Aeration by oxygen transfer, nitrification by Monod, recycled nitrate; a charge for ammonia over the limit.

    The ideas are those of the activated sludge models of the IWA, with one tank and no memory.
    """
    inflow, ammonia = _columns(contexts)
    oxygen, recycle = _axes(settings)
    rate = oxygen / (about(random, 0.55) + oxygen) * about(random, 1.55)
    left = ammonia * np.exp(-2.6 * rate / inflow**0.6)
    removed = inflow * (ammonia - left)
    air = about(random, 0.95) * removed * 4.0 / (9.0 - oxygen) + 2.0 * oxygen
    nitrate = removed / (1.0 + recycle)
    pumping = 1.6 * recycle**1.5 * inflow
    return 6.0 + air + 0.35 * nitrate + pumping + about(random, 4.0) * inflow * over(left, 4.0, 0.4)


def heating(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Radiators by their exponent 1.3, a heat pump by a share of Carnot, and the price of feet that are cold.

    What the building needs follows outdoor temperature and sun; people feel a shortfall, and empty rooms do not.
    """
    outdoor, hour, occupied = _columns(contexts)
    (supply,) = _axes(settings)
    sun = 9.0 * np.maximum(0.0, np.cos(2 * np.pi * (hour - 13.0) / DAY))
    room = np.where(occupied > 0, 21.0, 18.0)
    need = np.maximum(about(random, 3.4) * (room - outdoor) - sun - 6.0 * occupied, 3.0)
    given = about(random, 1.45) * np.maximum(supply - room, 1.0) ** 1.15
    heat = np.where(given > need, need + 0.22 * (given - need), given)
    carnot = (supply + 273.0) / np.maximum(supply - outdoor + 6.0, 8.0)
    short = np.maximum(need - given, 0.0)
    comfort = (0.12 + 0.5 * occupied) * short + 0.012 * (0.3 + occupied) * short**2
    cost: Array = 0.30 * heat / (about(random, 0.42) * carnot) + 0.30 * comfort + 1.0
    return cost


def compressors(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Piecewise constant: machines are on or off, leaks go by the bar, the tariff by the clock.

    Where the machines that are ready do not suffice, a rented diesel starts.
    """
    demand, hour = _columns(contexts)
    pressure, ready = _axes(settings)
    tariff = np.where((hour >= 8) & (hour < 20), 0.27, 0.17)
    wanted = np.ceil(demand / 2.0) * 2.0 + about(random, 2.0) * np.floor((pressure - 6.0) / 0.4)
    low = np.floor(np.maximum(0.0, about(random, 7.0, 0.02) - pressure) / 0.4)  # tools that work badly
    each = about(random, 12.0, 0.04)
    running = np.ceil(wanted / each)
    power = 75.0 * np.minimum(running, ready) * (1.0 + 0.03 * np.round((pressure - 7.0) / 0.4))
    waiting = 22.0 * np.maximum(ready - running, 0.0)
    diesel = 34.0 * np.maximum(running - ready, 0.0)
    return tariff * (power + waiting) + diesel + 5.0 * low * (1.0 + (demand > 24.0))


def dryer(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Piecewise linear: gas and fan by the unit, dry goods by the weight lost, wet ones by what is sent back."""
    moisture, tonnes = _columns(contexts)
    burner, air = _axes(settings)
    water = tonnes * (moisture - 12.0) / 88.0
    dries = about(random, 0.021, 0.04) * burner * (0.7 + 0.3 * np.minimum(air / 0.7, 1.0))
    gas = about(random, 0.42) * burner * (1.0 + 0.25 * np.maximum(air - 0.7, 0.0))
    short, much = np.maximum(water - dries, 0.0), np.maximum(dries - water, 0.0)
    return 8.0 + gas + 14.0 * air + about(random, 60.0) * short + about(random, 9.0) * much


def exchanger(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """A heat exchanger by its number of transfer units, a pump by the cube law; it fouls as weeks go by."""
    demand, water = _columns(contexts)
    flow, bypass = _axes(settings)
    fouling = np.exp(-about(random, 0.9, 0.15) * hours[:, None] / (HISTORY + ROUNDS))
    units = about(random, 1.7) * fouling / flow**0.4
    effective = (1.0 - np.exp(-units)) * flow * (1.0 - bypass)
    cooled = effective * (42.0 - water) / 26.0
    pump = about(random, 9.0) * flow**3 * (1.0 + 0.5 * (1.0 - fouling))
    short, much = np.maximum(demand - cooled, 0.0), np.maximum(cooled - demand, 0.0)
    return 12.0 + pump + about(random, 220.0) * short**1.2 + about(random, 30.0) * much


def pumps(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Pumps by the affinity laws, each with a best point; half way they are replaced by others with another one."""
    demand, level = _columns(contexts)
    speed, number = _axes(settings)
    change = HISTORY + ROUNDS / 2 + 48.0 * (2.0 * random.random() - 1.0)
    new = hours[:, None] >= change
    best = np.where(new, about(random, 0.26, 0.05), about(random, 0.46, 0.05))
    efficiency = np.where(new, 0.82, 0.72)
    flow = demand * about(random, 1.3)
    each = flow / (number * speed)
    efficiency = np.maximum(efficiency * (1.0 - 1.1 * (each / best - 1.0) ** 2), 0.25)
    lift = 22.0 + 7.0 * level + 9.0 * flow**2
    head = 46.0 * speed**2 * (1.0 - 0.25 * each**2)
    power = 2.725 * flow * np.maximum(head, 12.0) / efficiency * 0.34
    short = over(lift - head, 0.0, 1.0)
    return 10.0 + power + 4.0 * number + about(random, 2.2) * short * (0.4 + demand)


def district_heat(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Hot water loses heat on its way, cool water needs more pumping and a peak boiler."""
    outdoor, draw = _columns(contexts)
    supply, flow = _axes(settings)
    loss = about(random, 0.55) * (supply - 0.5 * outdoor - 5.0)
    carried = flow * (supply - 45.0) / 45.0 * about(random, 1.1, 0.04)
    peak = about(random, 260.0) * over(draw, carried, 0.02)
    back = about(random, 70.0) * np.maximum(carried - draw, 0.0)
    return 90.0 * draw + loss + about(random, 26.0) * flow**3 + peak + back


def mill(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Grinding by Bond's law: finer costs power by the root of the size; the separator's speed has its best place."""
    hardness, tonnes = _columns(contexts)
    filling, separator = _axes(settings)
    place = about(random, 0.27, 0.03) + 0.008 * (hardness - 12.0)
    work = 10.0 * hardness * tonnes * (1 / np.sqrt(60.0) - 1 / np.sqrt(2000.0)) / 3.0
    bad = about(random, 55.0) * (filling - place) ** 2 / 0.04
    best = about(random, 0.72, 0.03) - 0.0022 * (tonnes - 80.0)
    again = 1.0 + about(random, 2.2) * (separator - best) ** 2 + 0.7 * np.maximum(best - separator, 0.0)
    cost: Array = 0.35 * (work * again + bad * tonnes / 80.0 + 60.0 * filling)
    return cost


def boiler(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Siegert's flue-gas loss grows with excess air; too little leaves fuel unburnt, the more so where it is wet."""
    load, moisture = _columns(contexts)
    oxygen, grate = _axes(settings)
    flue = 0.48 * (150.0 + 60.0 * load) / (21.0 - oxygen) / 100.0
    needed = about(random, 4.6, 0.05) + 0.12 * (moisture - 30.0) - 4.0 * (load - 0.6)
    unburnt = about(random, 0.050) * over(needed - oxygen, 0.0, 0.3)
    grate_best = 0.05 + 0.9 * load
    bed = about(random, 2.6) * (grate - grate_best) ** 2
    return about(random, 105.0) * load * (1.0 + flue + unburnt + bed) + 1.5 * oxygen


def ventilation(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Carbon dioxide by a balance of the room, fans by the cube law, heat for the air that comes in."""
    persons, outdoor = _columns(contexts)
    (air,) = _axes(settings)
    dioxide = 420.0 + about(random, 1650.0) * persons / (9.0 * air + 0.8)
    stale = about(random, 0.012) * over(dioxide, 1000.0, 60.0)
    heat = 0.42 * air * np.maximum(18.0 - outdoor, 0.0)
    return 18.0 + about(random, 15.0) * air**3 + heat + stale


def extruder(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Every product has its own best temperature and speed, in no order of the codes; waste grows with the distance."""
    product, hall = _columns(contexts)
    heat, speed = _axes(settings)
    kind = product.astype(np.int64)
    best_heat, best_speed = random.uniform(185.0, 225.0, 6), random.uniform(0.45, 0.9, 6)
    price = random.uniform(0.8, 1.3, 6)
    off = ((heat - best_heat[kind] + 0.4 * (hall - 21.0)) / 22.0) ** 2 + ((speed - best_speed[kind]) / 0.28) ** 2
    waste = about(random, 14.0) * price[kind] * off / (1.0 + 0.35 * off)
    return 30.0 * price[kind] + waste + 0.05 * (heat - 170.0) + 4.0 * speed


def servers(random: Random, hours: Array, contexts: Array, settings: Array) -> Array:
    """Air of a server hall: warmer air saves the chiller, outdoor air saves it all, until fans and damp cost more."""
    load, outdoor, humidity, hour, _ = _columns(contexts)
    supply, outside = _axes(settings)
    tariff = np.where((hour >= 8) & (hour < 20), 0.25, 0.19)
    heat = about(random, 300.0) * load
    mixed = (supply + 11.0) * (1.0 - outside) + outdoor * outside
    lift = np.maximum(mixed - supply, 0.0) / 11.0
    chiller_power = heat * lift / about(random, 3.6) * (1.0 + 0.015 * (outdoor - 14.0))
    fans = about(random, 20.0) * load**2 * (1.0 + over(supply, 23.0, 0.8) / 2.2) ** 2
    cold = 6.0 * np.maximum(supply - 2.0 - mixed, 0.0)
    damp = about(random, 75.0) * outside * over(humidity, 0.7, 0.04)
    return tariff * (chiller_power + fans + cold + damp + 25.0)
