"""From a plant's backtest to what runs there: the policy that was judged, and its evidence.

Two policies can be handed over. *As judged* is the very one that the backtest ran, as it was before its first round:
run on the same contexts and readings it decides the same, bit by bit. *From now on* is what one would run at the plant:
the same policy after it has also learned from all readings.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import LARGEST
from holdcourse.backtest.plant import PlantBacktest, known_to_learners
from holdcourse.backtest.readings import Readings
from holdcourse.deciding import registry
from holdcourse.deciding.policy import Policy
from holdcourse.deciding.policyfile import Evidence
from holdcourse.errors import InvalidInput
from holdcourse.learning.fitting.search import FitWarning, fit_kernel
from holdcourse.learning.history import History
from holdcourse.movement.problem import Problem
from holdcourse.worlds.logged import box_of


def plant_policy(
    found: PlantBacktest,
    name: str | None = None,
    *,
    as_judged: bool = False,
    source: str = "",
    files: Sequence[str | Path] = (),
) -> Policy:
    """Return the policy of a plant's backtest, to be saved or run, with the evidence of the backtest.

    Parameters
    ----------
    name
        Name of one of the policies; default: the policy that the answer is about.
    as_judged
        Whether to return the policy as it was judged, before it knew a reading; default: the policy that has learned
        all readings.
    source
        Where the readings come from, in words; default: the name of the table that was read.
    files
        Files that were read; the policy remembers their digests.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table = {"load": [1, 2, 3, 4] * 12, "setting": [6, 8] * 24, "kWh": [3, 5, 4, 3] * 12}
    >>> readings = hc.read_readings(table, action="setting", cost="kWh", context="load")
    >>> found = hc.backtest_plant(readings.problem(), readings, ("cgp-lcb",))
    >>> policy = hc.plant_policy(found)  # policy.save("mill.policy") writes it to a file
    >>> policy.evidence.learned, policy.units
    ('48 readings', {'action': '', 'measurement': 'kWh', 'context': 'load'})
    """
    world, rho, readings, make = found.world, found.world.rho, found.readings, found.make
    if name is None:
        if found.judged is None:
            raise InvalidInput(
                "no policy that could run at the plant was tried, so there is none to save; add one, such as "
                "recommended"
            )
        name = found.judged.policy
    line = found.line(name)
    tells = found.support is None or found.support.enough
    if as_judged and rho != 1.0:
        raise InvalidInput(
            f"with rho={rho:g} the policy was judged on weighted costs, which a plant does not measure; save it "
            "without as_judged=True, or divide the costs of moving by rho instead and judge again"
        )
    if as_judged:
        policy = make(name, world.problem, known_to_learners(world), {})
    else:
        policy = _from_now(found, name, rho)
    told = f"{len(world.readings):,} readings{_period(None if readings is None else readings.times)}"
    evidence = Evidence(
        source=source or ("" if readings is None else readings.label),
        files={Path(path).name: file_digest(path) for path in files},
        data=readings_digest(world.readings),
        learned="the kernel, the noise and the mean of half of the readings, and nothing else" if as_judged else told,
        judged=f"{told}, in a model of one half of them, by a model of the other",
        as_judged=as_judged,
        verdict=found.verdict,
        conclusion=found.conclusion if found.judged is not None and name == found.judged.policy else "",
        figures={
            "saved_percent": finite(line.saved) if tells else None,  # no number where the readings cannot tell
            "saved_low_percent": finite(line.low) if tells else None,
            "saved_high_percent": finite(line.high) if tells else None,
            "total": finite(line.total),
            "service": finite(line.service),
            "movement": finite(line.movement),
            "guessed_share": finite(line.guessed),
            "rho": rho,
        },
    )
    return replace(policy, evidence=evidence, units={} if readings is None else _units(world.problem, readings))


def _units(problem: Problem, readings: Readings) -> dict[str, str]:
    """Return in which units the policy is asked and told, for people."""
    asked = zip(readings.context, readings.context_units, strict=True)
    context = ", ".join(f"{name} ({each})" if each and each not in name else name for name, each in asked)
    measured = readings.units.get(readings.cost, "") or problem.cost_unit or readings.cost
    return {"action": problem.units[0] if len(problem.units) == 1 else "", "measurement": measured, "context": context}


def _from_now(found: PlantBacktest, name: str, rho: float) -> Policy:
    """Return the policy with all readings learned, in the units in which the plant measures."""
    make = found.make
    problem, readings = divided(found.world.problem, rho), found.world.readings
    if name == "recommended":  # it goes on fitting by itself, and sets wrong readings aside
        return make(name, problem, {"history": readings}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # told by the backtest
        fit = fit_kernel(problem, readings.actions, readings.contexts, readings.measurements)
    knows = {"kernel": fit.kernel, "noise_std": fit.noise_std, "prior_mean": fit.prior_mean}
    box = box_of(readings.contexts)
    if box is not None:  # a year is learned in seconds; contexts beyond may come
        knows["context_bounds"] = box
    entry = registry.TABLE.get(name)
    if entry is not None:
        return make(name, problem, knows | {"history": readings}, {})
    policy = make(name, problem, knows, {})
    for action, context, y in zip(readings.actions, readings.contexts, readings.measurements, strict=True):
        policy.costs.learn(int(action), context, float(y))
    return policy


def divided(problem: Problem, rho: float) -> Problem:
    """Return the same actions, whose moves cost a `rho`-th: as weighing all else by `rho`."""
    if rho == 1.0:
        return problem
    data = problem.describe()
    if problem.has_named_metric:
        data["scale"] = (np.asarray(data["scale"]) / rho).tolist()
    else:
        data["metric"] = (np.asarray(data["metric"]) / rho).tolist()
    return Problem.from_data(data | {"fixed_cost": problem.fixed_cost / rho})


def readings_digest(readings: History) -> str:
    """Return the SHA-256 of readings."""
    digest = hashlib.sha256()
    for part in (readings.actions, readings.contexts, readings.measurements):
        digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file, as ``sha256sum`` prints it; empty where it cannot be read any more."""
    try:
        if Path(path).stat().st_size > 10 * LARGEST:  # minutes; the numbers have a digest of their own
            return ""
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it; None for one that is none."""
    return float(number) if math.isfinite(number) else None


def _period(times: NDArray[np.datetime64] | None) -> str:
    if times is None or not len(times):
        return ""
    days = np.asarray(times, dtype="datetime64[D]")
    return f" from {days.min()} to {days.max()}"
