"""A frozen family of plants: hourly rounds, four weeks after two weeks of operators' history, no Gaussian processes.

The landscapes are plain physics (`machines`), the contexts days and weeks (`weather`), the readings noisy, late, wrong
or missing as the plant's sensor is. `PLANTS` names them; a case follows from the plant and a seed. Published tables
have the seeds `PUBLIC_SEEDS`; take others, from 1000 on, to tune.

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
