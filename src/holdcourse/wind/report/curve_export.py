"""What a policy made, as a power curve for other programs: awesIO, by the wind at one reference height."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.files.awesio import Document, power_curve_document

REFERENCE_HEIGHT = 100.0
BIN = 1.0  # m/s
FEWEST_HOURS = 12.0  # that a bin needs to say something


def curve_of(result: SiteResult, policy: str | None = None, reference_height: float | None = None) -> Document:
    """Return the mean net power of a policy by the wind at a reference height, as an awesIO document.

    Parameters
    ----------
    policy
        Which of the backtest; default the one that its answer is about.
    reference_height
        Metres; default that of the machine, or 100 m, as near as the altitudes of the backtest come to it.
    """
    found, world = result.backtest, result.backtest.world
    if policy is None:
        policy = found.judged.policy if found.judged is not None else "fixed"
    if policy not in found.flights:
        raise InvalidInput(f"{policy} was not flown; there are {', '.join(found.flights)}")
    machine, flight = result.plan.machine, found.flights[policy]
    stated = None if machine is None else machine.reference_height
    wanted = reference_height or stated or REFERENCE_HEIGHT
    height = float(np.clip(wanted, world.altitudes[0], world.altitudes[-1]))
    wind = np.array([np.interp(height, world.altitudes, row) for row in world.speed])
    net = (flight.gross / world.rho - flight.moving) / world.step_hours  # kW, whatever weight rho gave it
    bins = np.floor(wind / BIN).astype(np.int64)
    hours = np.bincount(bins) * world.step_hours
    enough = np.flatnonzero(hours >= FEWEST_HOURS)
    if len(enough) < 2:
        raise InvalidInput(
            f"{found.days:.1f} days of wind are too few for a power curve: two bins of 1 m/s need 12 hours"
        )
    power = np.bincount(bins, weights=net)[enough] / np.bincount(bins)[enough]
    cut_out = world.curve.cut_out if math.isfinite(world.curve.cut_out) else float((enough[-1] + 1) * BIN)
    return power_curve_document(
        f"{result.plan.curve.name} with {policy} at {result.site}",
        f"holdcourse {hc.__version__}, {result.period}: mean net power of {policy}, less what moving cost, in bins of "
        f"{BIN:g} m/s of the wind at {height:g} m with {FEWEST_HOURS:g} hours or more. Wing, tether and its force are "
        "not known to a backtest and are written as 0; cut-in and cut-out are those of the wind at the altitude flown.",
        datetime.now(UTC).isoformat(timespec="seconds"),
        height,
        (enough + 0.5) * BIN,
        power,
        world.altitudes,
        world.speed.mean(axis=0) / wind.mean(),
        operating_altitude=float(world.altitudes[flight.actions].mean()),
        cut_in=world.curve.cut_in,
        cut_out=cut_out,
    )
