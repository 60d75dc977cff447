"""A simulated wind site, end to end: readings, a backtest, a policy's file, and a kite that flies by a service.

    pip install "holdcourse[serve]"
    python examples/wind_site_live.py --hours 96

1. A backtest on what the site's lidar has measured says whether altitude control would have paid off there.
2. The policy that it judged is saved to a file, with everything that it has learned.
3. A service is started on a folder of its own (or give ``--url`` of one that runs), and the file is sent to it.
4. Every hour the kite asks with the time, shows a forecast of the wind every six hours, flies no higher than the
   airspace allows, and tells what it has: the wind where it flies, a whole profile of the lidar, or nothing.
5. The record of all that is proved: every decision is taken again, and comes out the same.

The wind is bundled data. The forecasts are the wind that came, with errors that grow by the hour, as those of a weather
model do. At the end it prints what was made, and what staying at one altitude would have made.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import holdcourse as hc

PLAN = hc.wind.Plan(low=60, high=300, count=7, movement="physical", policies=("fixed", "wind-planner"), what_if=())
HEIGHTS = [50.0, 100.0, 200.0, 350.0]  # of the lidar, and of the forecasts
FORECAST_HOURS = 18
CEILING = 200.0  # metres, while the airspace is closed above: every day from 6 to 10 UTC
CLOSED = range(6, 10)
START = 2  # which altitude the kite is at before the first hour


def saved_policy(path: Path) -> str:
    """Judge the policy on half a year of the site's wind, and save it as one would fly it from now on."""
    wind = hc.wind.bundled("history").between("2009-10-01", "2010-07-01")
    result = hc.wind.run_backtest(wind, plan=PLAN, site="North Sea")
    hc.wind.site_policy(result).save(path)
    return result.backtest.conclusion


def forecast_of(wind: hc.wind.WindData, hour: int, random: np.random.Generator) -> dict[str, object]:
    """The wind of the next hours, as a weather model might say it now."""
    coming = wind.between(wind.time[hour], wind.time[min(hour + FORECAST_HOURS + 1, len(wind) - 1)])
    said = coming.forecast(HEIGHTS)
    errors = 0.15 * np.sqrt(np.arange(len(coming)))[:, None] * random.standard_normal((len(coming), 1))
    said["speeds"] = np.maximum(np.array(said["speeds"], dtype=float) + errors, 0.0).tolist()
    return {**said, "std": (0.2 + 0.15 * np.sqrt(np.arange(len(coming)))).tolist()}


def fly(kite: hc.RemoteController, policy: hc.Policy, wind: hc.wind.WindData, hours: int) -> tuple[float, float]:
    """Fly by the service's decisions; returns what was made, and what staying at the first altitude would have made."""
    random, altitudes = np.random.default_rng(0), policy.problem.actions[:, 0]
    speed = wind.at(altitudes)  # what only this simulation knows
    lidar = wind.at(HEIGHTS)
    power, here = PLAN.curve.power, START
    net = stayed = 0.0
    for hour in range(hours):
        time = wind.time[hour]
        closed = int(time.astype("datetime64[h]").astype(int)) % 24 in CLOSED
        decision = kite.ask(
            time,
            forecast=forecast_of(wind, hour, random) if hour % 6 == 0 else None,
            within=(None, CEILING) if closed else None,
            key=f"{time}",  # the same question again, after a restart, gets the same answer
        )
        net += float(power(speed[hour, decision.action])) - policy.problem.distance(here, decision.action)
        stayed += float(power(speed[hour, START]))
        here = decision.action
        if hour % 10 == 9:
            kite.tell(decision.id, None)  # nothing was measured
        elif hour % 3 == 0:
            kite.tell(decision.id, None, profile=(HEIGHTS, lidar[hour]))  # the lidar sees all heights
        else:
            kite.tell(decision.id, float(speed[hour, here]))  # the kite's own anemometer
    return net, stayed


@contextlib.contextmanager
def service(folder: Path) -> Iterator[str]:
    """A service of our own on a folder; yields its address."""
    command = [
        sys.executable,
        "-c",
        "from holdcourse.cli import main; main()",
        "serve",
        "--data",
        str(folder),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        try:
            assert started.stdout is not None
            found = re.search(r"http://\S+", started.stdout.readline())
            if found is None:
                raise SystemExit("the service did not start; is holdcourse[serve] installed?")
            yield found[0]
        finally:
            started.terminate()


def main() -> None:
    """Walk the whole road."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=int, default=96)
    parser.add_argument("--url", help="of a service that runs already")
    parser.add_argument("--name", default="kite-1")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        file = Path(folder) / "site.policy"
        print(saved_policy(file))
        policy = hc.load_policy(file)
        url = given.url or stack.enter_context(service(Path(folder) / "data"))
        with hc.connect(url) as remote:
            kite = remote.create_from_file(file, given.name, start_index=START, limits={"min_dwell": 2})
            net, stayed = fly(kite, policy, hc.wind.bundled("test"), given.hours)
            state = kite.state()
            print(f"{given.hours} hours: {net:,.0f} kWh made, less what moving cost; staying: {stayed:,.0f} kWh")
            estimate = state["estimate"]["against_staying"]
            words = (
                estimate["withheld"] or f"{estimate['low']:+,.0f} to {estimate['high']:+,.0f} {state['units']['cost']}"
            )
            print(f"by its own estimate against staying: {words}")
            print("proved" if kite.verify()["ok"] else "NOT the same when decided again")


if __name__ == "__main__":
    main()
