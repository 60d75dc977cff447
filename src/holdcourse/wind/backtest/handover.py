"""From a site's backtest to what flies there: the policy that was judged, and its evidence."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse.backtest.handover import file_digest, finite
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest.result import HINDSIGHT
from holdcourse.wind.backtest.run import SiteResult
from holdcourse.wind.policy.policies import Past, Setting, policy_of

Array: TypeAlias = NDArray[np.float64]

CONTEXTS = {"time": "hours since 1970, UTC", "hour": "hour of the day, UTC"}


def site_policy(result: SiteResult, name: str | None = None, *, as_judged: bool = False) -> hc.Policy:
    """Return a policy of a site's backtest, to be saved or flown, with what the backtest said of it.

    Parameters
    ----------
    name
        Which of its policies; default the one that its answer is about.
    as_judged
        The very one that was flown, which knows the history only; default: what one would fly from now on, which has
        also learned from the period on which it was judged.
    """
    flown = result.backtest
    if name is None:
        if flown.judged is None:
            raise InvalidInput("no controller that could really be flown was run, so there is none to save")
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
    """Return the setting of one who has also seen the wind of the test period."""
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
