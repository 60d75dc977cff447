"""What is kept of a site's backtest: the policy that was judged, with its evidence, and a power curve.

The policy flies at the site. The curve describes its power for other programs, in awesIO, by the wind at one reference
height.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.backtest.handover import file_digest, finite
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.result import HINDSIGHT
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.files.awesio import Document, power_curve_document
from holdcourse.wind.policy.policies import Past, Setting, policy_of

Array: TypeAlias = NDArray[np.float64]

REFERENCE_HEIGHT = 100.0
BIN = 1.0  # m/s
FEWEST_HOURS = 12.0  # that a bin needs to say something
CONTEXTS = {"time": "hours since 1970, UTC", "hour": "hour of the day, UTC"}


def site_policy(result: SiteResult, name: str | None = None, *, as_judged: bool = False) -> hc.Policy:
    """Return a policy of a site's backtest, to be saved or flown, with the evidence of the backtest.

    Parameters
    ----------
    name
        Name of one of the policies; default: the policy that the answer is about.
    as_judged
        Whether to return exactly the policy that was flown, which knows only the history. Default: the policy to fly
        from now on, which has also learned from the period on which it was judged.

    Examples
    --------
    >>> import holdcourse as hc
    >>> plan = hc.wind.Plan(count=4, end="2010-07-08", policies=("fixed", "gp-md"), what_if=())
    >>> result = hc.wind.run_backtest(hc.wind.bundled("test"), hc.wind.bundled("history"), plan)
    >>> policy = hc.wind.site_policy(result)  # policy.save("site.policy") writes it to a file
    >>> policy.name
    'GP-MD'
    """
    flown = result.backtest
    if name is None:
        if flown.judged is None:
            raise InvalidInput(
                "no controller that a real machine could use was flown, so there is none to save; add one to the "
                "policies"
            )
        name = flown.judged.policy
    if name in HINDSIGHT:
        raise InvalidInput(f"{name} is known only in hindsight and cannot be run as a policy; save another policy")
    line, setting = flown.line(name), result.setting
    if not as_judged:
        setting = learned_from_all(setting)
    policy = policy_of(name)(setting)
    past, world = setting.past, setting.world
    learned = "nothing"
    if past is not None and past.time is not None:
        learned = f"the wind from {_day(past.time[0])} to {_day(past.time[-1])}, {len(past.time):,} profiles"
    judged = flown.judged is not None and name == flown.judged.policy
    evidence = hc.Evidence(
        source=f"{result.site}: {result.source}",
        files={path.name: file_digest(path) for path in result.files},
        data=_digest(past, world.altitudes),
        learned=learned,
        judged=f"{result.period}, {len(flown.world.time):,} rounds",
        as_judged=as_judged,
        verdict=flown.verdict if judged else "",
        conclusion=flown.conclusion if judged else "",
        figures={
            "gain_percent": finite(line.gain),
            "gain_low": finite(line.gain_low),
            "gain_high": finite(line.gain_high),
            "net_kwh": finite(line.net),
            "moves_per_day": finite(line.moves_per_day),
            "step_hours": world.step_hours,
        },
    )
    units = {"action": "m", "measurement": "m/s", "cost": "kWh"}
    units["context"] = CONTEXTS[registry.entry_of(name, "wind").context]
    return replace(policy, evidence=evidence, units=units)


def learned_from_all(setting: Setting) -> Setting:
    """Return the setting with the wind of the test period added to its history."""
    world, past = setting.world, setting.past
    times, speeds = [world.moments], [world.speed]
    if past is not None and past.moments is not None:
        times, speeds = [past.moments, *times], [past.speed, *speeds]
    moments, first = np.unique(np.concatenate(times), return_index=True)
    whole = Past(np.floor(moments) % 24.0, np.concatenate(speeds)[first], moments)
    again = replace(setting, past=whole)
    return again.fitted() if setting.hyperparameters == "fitted" else again


def _digest(past: Past | None, altitudes: Array) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(altitudes).tobytes())
    for part in () if past is None else (past.time, past.speed):
        digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _day(hours: float) -> str:
    return str(np.datetime64(int(hours * 3600), "s").astype("datetime64[D]"))


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
        raise InvalidInput(f"{policy} was not flown; choose one of {', '.join(found.flights)}")
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
            f"{found.days:.1f} days of wind are too few for a power curve, which needs 12 hours in two bins of 1 m/s; "
            "give more wind"
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
