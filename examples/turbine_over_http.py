"""A simulated turbine that asks a service every hour at which altitude to fly.

    pip install "holdcourse[serve]"
    holdcourse serve --data /tmp/fleet &
    python examples/turbine_over_http.py --hours 200

The turbine is bundled wind data and a power curve; it knows the energy that it made and the time, nothing else. The
controller starts from what an engineer would have: measurements of the month before. Its context is the time (the
policy's option ``time``), since wind lasts: an hour is best predicted from the hours just before, at all altitudes at
once. Open the service's page in a browser to watch it. Stop either side with Ctrl-C and start it again: it goes on
where it was.

At the end it prints what the controller believes that it gained, and the truth: this simulation, unlike a turbine,
knows what every altitude would have made.
"""

from __future__ import annotations

import argparse

import numpy as np

import holdcourse as hc

ALTITUDES = np.array([50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0])
KWH_PER_METRE = 0.006  # what a metre of climb or descent costs
MONTH = 720  # hours
START = 150.0  # metres: where it is before the first decision


def energy_of(part: str) -> np.ndarray:
    """What each altitude makes in each hour, (t, n), in kWh."""
    made: np.ndarray = hc.wind.paper_curve().power(hc.wind.bundled(part).onto(ALTITUDES).speed)
    return made


def configuration(name: str) -> dict[str, object]:
    """The controller: what it may do, how it decides, what it knows from before."""
    made = energy_of("history")[-MONTH:]
    flown = np.random.default_rng(0).integers(len(ALTITUDES), size=MONTH)
    return {
        "id": name,
        "name": "Simulated turbine",
        "actions": ALTITUDES.tolist(),
        "scale": KWH_PER_METRE,
        "policy": "recommended",
        "options": {"maximise": True, "time": True},
        "start": START,
        "deadline_s": 3600,
        "units": {"action": "m", "measurement": "kWh"},
        "history": [
            [
                float(ALTITUDES[action]),
                float(hour - MONTH),
                float(made[hour, action]),
            ]  # hours before the first decision
            for hour, action in enumerate(flown)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--token")
    parser.add_argument("--name", default="turbine-1")
    parser.add_argument("--hours", type=int, default=200)
    given = parser.parse_args()

    made = energy_of("test")
    controller = hc.connect(given.url, given.token).create(configuration(given.name))
    state = controller.state()
    for pending in state["pending"]:  # we were interrupted after a decision: say what came of it
        controller.tell(pending["decision"], made[pending["round"], pending["action"]])
    for hour in range(state["round"], min(given.hours, len(made))):
        decision = controller.ask(float(hour), key=f"hour-{hour}")
        controller.tell(decision.id, made[hour, decision.action])
        if hour % 24 == 23:
            print(f"hour {hour + 1:5d}: at {decision.value:g} m, made {made[hour, decision.action]:.0f} kWh")
    state = controller.state()
    stayed = made[: state["round"], ALTITUDES == START].sum()
    made_so_far = state["measurements_sum"]
    print(f"{state['rounds_told']} hours: {made_so_far:.0f} kWh made, {state['movement']:.0f} kWh for moving")
    true = made_so_far - state["movement"] - stayed
    print(f"against staying at {START:g} m:")
    estimate = state["estimate"]["against_staying"]
    if estimate["withheld"]:
        print(f"the controller's own estimate is withheld: {estimate['withheld']}")
    else:
        between = f"{estimate['low']:+.0f} to {estimate['high']:+.0f}"
        print(f"{estimate['gain']:+.0f} kWh by the controller's own estimate, 95 % interval {between}")
    print(f"{true:+.0f} kWh in truth, which only a simulation knows")


if __name__ == "__main__":
    main()
