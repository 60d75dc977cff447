"""A frozen family of plants: hourly rounds, two weeks of operators' history and then four weeks; no Gaussian processes.

Costs follow from plain physics (`machines`), contexts from days and weeks (`weather`), and readings are noisy, late,
wrong or missing, depending on the plant's sensor. `PLANTS` lists the plants by name; a plant and a seed determine a
case. Published tables use the seeds `PUBLIC_SEEDS`; for tuning, use others, from 1000 on.

Examples
--------
>>> from holdcourse.worlds import plants
>>> case = plants.PLANTS["database"].case(seed=1000)
>>> case
PlantCase(database, seed 1000: 20 settings, 672 rounds)
>>> case.optimum.total < case.best_fixed.total < case.stay.total
True
"""

from __future__ import annotations

from holdcourse.worlds.plants.case import Factor, Plant, PlantCase, Sensor
from holdcourse.worlds.plants.family import PLANTS, PUBLIC_SEEDS
from holdcourse.worlds.plants.machines import HISTORY, ROUNDS
from holdcourse.worlds.plants.operation import PlantRun, operate
from holdcourse.worlds.plants.rivals import fixed_on_history, operators, stay, table

__all__ = [
    "HISTORY",
    "PLANTS",
    "PUBLIC_SEEDS",
    "ROUNDS",
    "Factor",
    "Plant",
    "PlantCase",
    "PlantRun",
    "Sensor",
    "fixed_on_history",
    "operate",
    "operators",
    "stay",
    "table",
]
