"""How right the answers of trials are: the tables of docs/trials.md.

    python tools/trial_table.py [synthetic] [plants] [wind] [weeks] [rule] [prices] [--json FILE]

Paths of both arms, each run throughout, are cut into blocks and dealt out by many coins; so the true gain is known to
the last digit, and every deal is a trial. `rule` runs the very rule of `holdcourse.trial` over half years of wind
instead, in which the arms learn from each other's blocks, each with the plan that the time before it makes; `prices`
does so at other prices of moving. `weeks` holds the weeks that a plan promises against trials that begin anywhere in
the half year.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import holdcourse as hc
from holdcourse.trials.answer import answer, looks_of
from holdcourse.trials.intervals import bounds_of_mean, running_means
from holdcourse.trials.plan import Paths, TrialPlan, dealt, plan_of
from holdcourse.wind.backtest.paths import left_out_paths, trial_paths
from holdcourse.wind.backtest.run import Plan, SiteResult, run_backtest
from holdcourse.worlds import plants

HEAD = "| trials | block | true gain | mean error | deviation | width | held | held at every look | it pays |"
PLANTS = ("heating", "database", "servers", "ventilation")
PUBLISHED = range(2)  # seeds of the plants' cases
WEEKS = 8
OURS = "wind-planner"
SHORT_BLOCKS, GAINS = (2, 3), (8.0, 12.0)  # rounds, and % beside the gain that there is: for the promised weeks
REHEARSALS = 4  # at most, as the command has it
PRICES: tuple[str | float, ...] = (0.02, 0.1, "paper")  # of moving, kWh per metre, besides the physical one of 0.006


class Counts:
    """What many trials of one kind came to; all in % of the baseline's bill."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []

    def add(self, paths: Paths, block: int, draws: int, seed: int, **options: object) -> None:
        """Deal paths out, and compare every answer with the truth."""
        gains, bills = dealt(paths, block, draws, seed, **options)  # type: ignore[arg-type]
        baseline, policy = (net.mean(axis=1) for net in paths.pairs(block))
        bill = -baseline if paths.maximise else baseline
        so_far = 100 * running_means(baseline - policy) / np.abs(running_means(bill))
        looks, percent = looks_of(gains, bills)
        held = (percent.low[:, -1] <= so_far[-1]) & (so_far[-1] <= percent.high[:, -1])
        missed = ((percent.always_low > so_far) | (percent.always_high < so_far)).any(axis=1)
        width = percent.high[:, -1] - percent.low[:, -1]
        pays = (looks.always_low > 0).any(axis=1)
        truth = np.full(draws, so_far[-1])
        self.rows.append(np.stack([truth, percent.value[:, -1] - so_far[-1], width, held, ~missed, pays], axis=1))

    @property
    def summary(self) -> dict[str, float]:
        """The numbers of a row of the table."""
        truth, error, width, held, always, pays = np.concatenate(self.rows).T
        return {
            "trials": len(truth),
            "truth": truth.mean(),
            "bias": error.mean(),
            "deviation": error.std(),
            "width": width.mean(),
            "held": 100 * held.mean(),
            "always": 100 * always.mean(),
            "pays": 100 * pays.mean(),
        }


def row(name: str, block: int, found: dict[str, float]) -> str:
    """A line of the table."""
    return (
        f"| {found['trials']:,} {name} | {block} | {found['truth']:+z.1f} | {found['bias']:+z.2f} | "
        f"{found['deviation']:.2f} | {found['width']:.2f} | {found['held']:.1f} % | {found['always']:.1f} % | "
        f"{found['pays']:.1f} % |"
    )


def lasting(rng: np.random.Generator, rounds: int, share: float, heavy: bool = False) -> np.ndarray:
    """A weather of deviation 1 that keeps this share of itself from hour to hour."""
    shock = rng.standard_t(3, rounds) if heavy else rng.normal(size=rounds)
    found = np.empty(rounds)
    found[0] = shock[0]
    for t in range(1, rounds):
        found[t] = share * found[t - 1] + np.sqrt(1 - share**2) * shock[t]
    return found


KINDS = {
    "no effect": (0.0, 0.0, False, 0.0),
    "no effect, heavy tails": (0.0, 0.0, True, 0.0),
    "same gain always": (0.6, 0.0, False, 0.0),
    "same gain, heavy tails": (0.6, 0.0, True, 0.0),
    "gain by the weather": (0.6, 0.8, False, 0.0),
    "gain by the hour": (0.6, 0.0, False, 1.5),
}


def synthetic(kind: str, seed: int, rounds: int = 168 * WEEKS) -> Paths:
    """Eight weeks of hours around 20, with days, a weather that lasts half a day, and noise."""
    gain, by_weather, heavy, by_hour = KINDS[kind]
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    day, slow = np.sin(2 * np.pi * np.arange(rounds) / 24), lasting(rng, rounds, 0.92, heavy)
    level = 20 + 4 * day + 3 * slow
    saved = gain + by_weather * slow + by_hour * day
    noise = 0.5 * rng.normal(size=(2, rounds))
    still = np.zeros(rounds)
    return Paths(level - saved + noise[0], level + noise[1], still, still, reference=level)


def synthetic_rows(worlds: int = 40, draws: int = 25) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Every kind of world, at two block lengths."""
    for kind in KINDS:
        for block in (2, 6):
            counts = Counts()
            for world in range(worlds):
                counts.add(synthetic(kind, world), block, draws, world, cycle=24)
            yield f"synthetic: {kind}", block, counts.summary


def plant_rows(draws: int = 40) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Plants of the benchmark: `recommended` against staying, with the block length of each plan."""
    counts: dict[str, Counts] = {"": Counts(), ", no effect": Counts()}
    lengths = []
    for name in PLANTS:
        for seed in PUBLISHED:
            paths = plant_paths(name, seed)
            block = plan_of(paths).best.block
            lengths.append(block)
            counts[""].add(paths, block, draws, seed, cycle=24)
            still = Paths(paths.baseline, paths.baseline, paths.baseline_movement, paths.baseline_movement)
            counts[", no effect"].add(still, block, draws, seed, cycle=24)
            print(f"{name} {seed}: blocks of {block}, gain {paths.gain:.1f} %", file=sys.stderr, flush=True)
    for kind, found in counts.items():
        yield f"plants{kind}", int(np.median(lengths)), found.summary


def plant_paths(name: str, seed: int) -> Paths:
    """`recommended`, with the operators' history, and staying, as the plant's sensor sees them."""
    case = plants.PLANTS[name].case(seed)
    ours = plants.operate(hc.recommended(case.problem, history=case.history), case)
    theirs = plants.operate(plants.stay(case.problem, case.start), case)
    measured = [[case.reading(t, a) for t, a in enumerate(run.actions.tolist())] for run in (ours, theirs)]
    move, before = case.problem.move_costs, [np.append(case.start, run.actions[:-1]) for run in (ours, theirs)]
    return Paths(
        np.array(measured[0], dtype=float),
        np.array(measured[1], dtype=float),
        ours.movement,
        theirs.movement,
        to_policy=move(before[1], ours.actions) - ours.movement,
        to_baseline=move(before[0], theirs.actions) - theirs.movement,
        reference=theirs.service,
    )


def half_year() -> SiteResult:
    """The half year of wind at the physical price of moving."""
    return flown("2010-07-01", None)


def wind_rows(site: SiteResult, draws: int = 500) -> Iterator[tuple[str, int, dict[str, float]]]:
    """The half year of wind, with the block length of the plan, without and with a mast as a reference."""
    paths = trial_paths(site.backtest, OURS)
    best = plan_of(paths).best.block
    world = site.backtest.world
    mast = int(np.argmin(np.abs(world.altitudes - 100)))
    with_mast = Paths(
        **{name: getattr(paths, name) for name in Paths.__dataclass_fields__} | {"reference": world.energy[:, mast]}
    )
    still = Paths(paths.baseline, paths.baseline, paths.baseline_movement, paths.baseline_movement, maximise=True)
    for name, used, options in (
        ("wind", paths, {}),
        ("wind, a mast of 100 m as reference", with_mast, {"reference": True}),
        ("wind, a twin machine as reference", paths, {"reference": True}),
        ("wind, no effect", still, {}),
    ):
        counts = Counts()
        counts.add(used, best, draws, 0, cycle=24, **options)
        yield name, best, counts.summary


def weeks_rows(site: SiteResult, draws: int = 400) -> Iterator[tuple[int, float, float, float]]:
    """Of block lengths and gains in %: the weeks that the plan promises, and after which four of five trials saw it.

    A trial begins anywhere in the half year and, after its end, goes on at its beginning with other coins.
    """
    paths = trial_paths(site.backtest, OURS)
    for design in plan_of(paths, blocks=SHORT_BLOCKS).designs:
        gains, _ = dealt(paths, design.block, draws, seed=1, cycle=24)
        again = np.concatenate([np.roll(gains, k, axis=0) for k in range(4)], axis=1)
        begins = np.random.default_rng(2).integers(gains.shape[1], size=(draws, 1))
        turned = np.take_along_axis(again, np.arange(3 * gains.shape[1]) + begins, axis=1)
        for gain in (round(paths.gain, 1), *GAINS):
            shifted = turned + (gain - paths.gain) * abs(paths.bill) / 100
            seen = bounds_of_mean(shifted, "sequence").low > 0
            pairs = np.where(seen.any(axis=1), seen.argmax(axis=1) + 1, np.inf)
            yield design.block, gain, design.weeks(gain), float(np.quantile(pairs, 0.8)) * 2 * design.block / 168


def flown(begin: str, end: str | None, movement: str | float = "physical") -> SiteResult:
    """A stretch of the wind, flown by a policy that knows what was before it."""
    plan = Plan(movement=movement, policies=("fixed", OURS), what_if=(), begin=begin, end=end)
    if begin >= "2010-07":
        return run_backtest(hc.wind.bundled("test"), hc.wind.bundled("history"), plan)
    return run_backtest(hc.wind.bundled("history"), None, plan)


def planned(end: str, movement: str | float = "physical") -> TrialPlan:
    """The plan of a trial from all wind before a time, as `holdcourse trial plan` makes it."""
    before = hc.wind.bundled("history").between(None, end)
    paths, rehearse, _ = left_out_paths(before, Plan(movement=movement))
    return plan_of(paths, rehearse=rehearse, rehearsals=REHEARSALS)


def by_the_rule(site: SiteResult, block: int, heard: float, seeds: int) -> np.ndarray:
    """Trials over a stretch of the wind with the rule of a trial itself, in which the arms hear of each other.

    Of each: the answer without and with a mast as reference, by how much the policy's blocks were better than the same
    hours alone, and whether the two ordinary intervals hold the gain alone; (seeds, 5).
    """
    world, lines = site.backtest.world, site.backtest
    ours, theirs = lines.flights[OURS], lines.flights["fixed"]
    mast = int(np.argmin(np.abs(world.altitudes - 100)))
    bill, truth, found = theirs.net.mean(), lines.line(OURS).gain, []
    for seed in range(seeds):
        on_trial = hc.trial(site.policy(OURS), site.policy("fixed"), block=block, heard=heard)
        table = hc.trials.simulate_trial(
            on_trial,
            world,
            world.moments,
            start=lines.start,
            seed=seed,
            measured=world.energy,
            reference=world.energy[:, mast],
            maximise=True,
        )
        mine = table.arm == 1
        learned = 100 * ((table.cost - table.movement) - ours.net)[mine].mean() / bill
        plain = hc.trials.Blocks(table.block, table.arm, table.cost, table.movement, maximise=True)
        said = [answer(each, cycle=24).percent for each in (plain, table)]
        found.append((*(each.value for each in said), learned, *(each.low <= truth <= each.high for each in said)))
    return np.array(found)


def rule_row(site: SiteResult, block: int, heard: float, seeds: int) -> str:
    """A line of the table of `by_the_rule`."""
    found = by_the_rule(site, block, heard, seeds)
    mean, deviation = found[:, :3].mean(axis=0), found[:, :3].std(axis=0, ddof=1)
    numbers = " | ".join(f"{m:+.2f} ± {d:.2f}" for m, d in zip(mean, deviation, strict=True))
    held = " and ".join(f"{int(count)}" for count in found[:, 3:].sum(axis=0))
    return f"{block} h | {100 * heard:.0f} % | {site.backtest.line(OURS).gain:+.2f} | {numbers} | {held} of {seeds} |"


# Trials over a half year, planned from all that is before it.
ROLLING: dict[str, tuple[str, str | None]] = {
    "2009, first half": ("2009-01-01", "2009-07-01"),
    "2009, second half": ("2009-07-01", "2010-01-01"),
    "2010, first half": ("2010-01-01", "2010-07-01"),
    "2010, second half": ("2010-07-01", None),
}


def rule_rows(
    seeds: int = 12, movement: str | float = "physical", halves: Sequence[str] = tuple(ROLLING)
) -> Iterator[str]:
    """Half years with the block length and the share that the plan from the time before chooses, and with all heard."""
    yield "| half year | block | heard | alone | measured | with a mast | policy's blocks less alone | held |"
    yield "|---|---|---|---|---|---|---|---|"
    for name in halves:
        begin, end = ROLLING[name]
        plan = planned(begin, movement)
        print(f"{name}: {' '.join(plan.words)} {plan.rehearsed}", file=sys.stderr, flush=True)
        site = flown(begin, end, movement)
        for heard in dict.fromkeys((plan.heard, 1.0)):
            yield f"| {name} | {rule_row(site, plan.best.block, heard, seeds)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables that are wanted, all by default; keep their rows for programs."""
    kinds = ("synthetic", "plants", "wind", "weeks", "rule", "prices")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"default all: {', '.join(kinds)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows for programs as well")
    given = parser.parse_args(arguments)
    if unknown := [kind for kind in given.kinds if kind not in kinds]:
        parser.error(f"no kind {unknown[0]!r}; there are {', '.join(kinds)}")
    wanted = given.kinds or kinds
    kept: dict[str, list[str]] = {"rows": [], "rule": []}
    total, held = 0, 0.0
    sources = {"synthetic": synthetic_rows, "plants": plant_rows, "wind": lambda: wind_rows(half_year())}
    print(HEAD)
    print("|" + "---|" * 9)
    for kind, rows in sources.items():
        for name, block, found in rows() if kind in wanted else ():
            total += int(found["trials"])
            held += found["trials"] * found["held"]
            kept["rows"].append(row(name, block, found))
            print(kept["rows"][-1], flush=True)
    if total:
        print(f"\n{total:,} trials; of these {held / total:.1f} % held")
    for block, gain, promised, needed in weeks_rows(half_year()) if "weeks" in wanted else ():
        print(f"blocks of {block} h, a gain of {gain:g} %: {needed:.1f} weeks (promised: {promised:.1f})", flush=True)
    for price in (("physical",) if "rule" in wanted else ()) + (PRICES if "prices" in wanted else ()):
        print(f"\nmoving: {price}")
        for line in rule_rows(movement=price):
            kept["rule"] += [line] if price == "physical" else []
            print(line, flush=True)
    if given.json:
        given.json.write_text(json.dumps(kept | {"trials": total, "held": held}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
