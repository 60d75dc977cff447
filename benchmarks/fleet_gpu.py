"""How many decisions of GP-MD a second an accelerator takes, the whole loop included; needs torch, and no numba.

``python -m benchmarks.fleet_gpu`` prints one JSON object a line: first whether the device decides as numpy does in
double precision, then decisions a second by precision and number of members. The setting is that of the wind, 25
altitudes and 24 hours, written down in `fleet_gpu.json` by ``--prepare``, which needs the whole package.

A round is: contexts in, a random number for each member, bounds, mirror descent, the draw from the coupling, a
measurement of a synthetic world where each member went, conditioning.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse._numeric import lockstep_arrays as lockstep

SETTING = Path(__file__).with_suffix(".json")
WIDTH, NOISE = 2.0, 2.73
HOURS = 24


def prepare() -> None:
    """Write the setting down: the basis of the posterior and a tree."""
    from sklearn.gaussian_process.kernels import RBF

    import holdcourse as hc

    altitudes, hours = np.linspace(10.0, 750.0, 25), np.arange(float(HOURS))
    (low, spread), (noon, day) = hc.zscore(altitudes), hc.zscore(hours)
    kernel = hc.Kernel(RBF(3.67), RBF(3.67), 6.85, low, spread, noon, day)
    problem = hc.Problem(altitudes, scale=0.006)  # kWh per metre, the physical price
    policy = hc.gp_md(problem, kernel=kernel, noise_std=NOISE**0.5, prior_mean=8.5, contexts=hours, tree_seed=0)
    layout, tree = policy.costs.posterior.layout, policy.rule_for(0).tree  # type: ignore[attr-defined]
    setting = {
        "psi": [layout.features(np.array([hour]))[0].tolist() for hour in hours],
        "phi": layout.action_features().tolist(),
        "start": layout.start.tolist(),
        "column": layout.column.tolist(),
        "parent": tree.parent.tolist(),
        "weight": tree.weight.tolist(),
    }
    SETTING.write_text(json.dumps(setting) + "\n")


def kind_of(like: Any, *, fused: bool = False) -> lockstep.Shared:
    """The setting in the library, precision and device of an array."""
    arrays = {name: np.array(values) for name, values in json.loads(SETTING.read_text()).items()}
    means = np.full((HOURS, len(arrays["phi"])), 8.5)
    return lockstep.shared(like, means=means, noise=NOISE, width=WIDTH, fused=fused, **arrays)


def world(n: int) -> np.ndarray:
    """The synthetic wind of every hour and altitude, (HOURS, n)."""
    hour, place = np.arange(HOURS)[:, None], np.linspace(0.0, 1.0, n)[None, :]
    return 8.0 + 2.0 * place + 1.5 * np.sin(2 * np.pi * (hour / HOURS + place))


def step(kind: lockstep.Shared, wind: Any, seeds: Any, offsets: Any, noise: Any, state: Any) -> Any:
    """One round of all members."""
    library = kind.library
    contexts = (state.round + offsets) % HOURS
    numbers = lockstep.uniforms(library, seeds, state.round)
    state, _ = lockstep.ask(kind, state, contexts, numbers)
    measured = library.along(library.transposed(library.rows(wind, contexts)), state.action[None, :])[0] + noise
    return lockstep.tell(kind, state, measured)


def members(kind: lockstep.Shared, count: int) -> tuple[Any, ...]:
    """World, seeds, offsets, noise and first state of so many members."""
    library, random = kind.library, np.random.default_rng(7)
    seeds = tuple(library.asarray(half, "int64") for half in lockstep.halves(range(count)))
    offsets = library.asarray(random.integers(0, HOURS, count), "int64")
    noise = library.asarray(random.normal(size=count))
    return library.asarray(world(kind.n)), seeds, offsets, noise, lockstep.begin(kind, np.arange(count) % kind.n)


def compare(device: str, count: int, rounds: int) -> dict[str, Any]:
    """The device against numpy, both in double precision, over whole runs."""
    import torch

    kinds = kind_of(np.zeros(0)), kind_of(torch.zeros(0, dtype=torch.float64, device=device), fused=True)
    runs = [members(kind, count) for kind in kinds]
    states = [run[-1] for run in runs]
    other = 0
    for _ in range(rounds):
        states = [step(kind, *run[:-1], state) for kind, run, state in zip(kinds, runs, states, strict=True)]
        other += int((states[0].action != states[1].action.cpu().numpy()).sum())
    states = [state._replace(S=lockstep.settled(state)) for state in states]
    far = {}
    for name in ("S", "w", "p"):
        ours, theirs = getattr(states[0], name), getattr(states[1], name).cpu().numpy()
        far[name] = float(np.abs(ours - theirs).max() / np.abs(ours).max())
    return {"check": f"{count} members, {rounds} rounds, float64 against numpy", "other actions": other, "far": far}


def measure(
    device: str, count: int, precision: str, how: str, seconds: float, profile: bool, mode: str
) -> dict[str, Any]:
    """Decisions a second."""
    import torch

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    kind = kind_of(torch.zeros(0, dtype=getattr(torch, precision), device=device), fused=how == "compiled")
    *fixed, state = members(kind, count)

    def plain(*state: Any) -> Any:  # tuples of arrays: what compilers take in and give back
        return tuple(step(kind, *fixed, lockstep.State(*state)))

    taken = plain if how == "eager" else torch.compile(plain, dynamic=False, mode=mode)
    begun = time.perf_counter()
    with torch.no_grad():
        for _ in range(3):
            state = taken(*state)
        wait()
        first = time.perf_counter() - begun
        begun, rounds = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            for _ in range(10):
                state = taken(*state)
            wait()
            rounds += 10
        spent = time.perf_counter() - begun
        row: dict[str, Any] = {
            "members": count,
            "precision": precision,
            "how": how,
            "ms a round": 1e3 * spent / rounds,
            "decisions a second": count * rounds / spent,
            "warm-up s": round(first, 1),
        }
        if how == "compiled":
            ours, theirs = lockstep.State(*taken(*state)), lockstep.State(*plain(*state))
            row["other actions than eager"] = int((ours.action != theirs.action).sum())
            row["farthest p from eager"] = float((ours.p - theirs.p).abs().max())
        if profile:
            row["kernels"] = kernels(taken, state)
    return row


def kernels(taken: Any, state: Any) -> list[str]:
    """What the time goes into: microseconds a round and name."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(5):
            state = taken(*state)
        torch.cuda.synchronize()
    found = sorted(seen.key_averages(), key=lambda event: -event.device_time_total)[:16]
    return [f"{event.device_time_total / 5:.0f} us x{event.count / 5:g} {event.key[:90]}" for event in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--members", type=int, nargs="+", default=[100_000, 1_000_000, 10_000])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--within", type=float, default=270.0, help="seconds for everything; what is left is not begun")
    parser.add_argument("--how", nargs="+", default=["eager", "compiled"])
    parser.add_argument("--mode", default="default", help="of torch.compile, for instance max-autotune-no-cudagraphs")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.prepare:
        prepare()
        return
    import torch

    begun = time.perf_counter()
    name = torch.cuda.get_device_name() if options.device != "cpu" else "cpu"
    print(json.dumps({"device": name, "torch": torch.__version__, "numpy": np.__version__}), flush=True)
    print(json.dumps(compare(options.device, 256, 100)), flush=True)
    hows = [("eager", "float32"), ("eager", "float64"), ("compiled", "float32"), ("compiled", "float64")]
    rows = [(count, *how) for count in options.members for how in hows if how[0] in options.how]
    for count, how, precision in rows:
        if time.perf_counter() - begun > options.within:
            print(json.dumps({"members": count, "precision": precision, "how": how, "not begun": True}), flush=True)
            continue
        try:
            row = measure(options.device, count, precision, how, options.seconds, options.profile, options.mode)
        except Exception as error:  # an accelerator may lack memory, or its compiler: the rest is still of use
            row = {"members": count, "precision": precision, "how": how, "failed": str(error)[:300]}
        row["at s"] = round(time.perf_counter() - begun)
        print(json.dumps(row), flush=True)
        torch._dynamo.reset()
        if options.device != "cpu":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
