"""Planning a trial: how long blocks should be, and how long it takes until a gain can be told from none.

Both arms are run throughout in a world of ours. Their paths, cut into blocks and dealt out by many coins, are as many
trials; what differs between these is what a real one will not know. This leaves out that the arms learn from each
other's blocks. So the trial with the best length is rehearsed: the very rule is run, and each arm's blocks are held
against the same rounds of the arm alone. Where hearing everything makes the answer too large by more than the
rehearsal's own error, three shares are rehearsed, a parabola through them says where the answer comes out even, and
that share is rehearsed with other coins. How much that differs between stretches of the rehearsal says how sure it is,
and by how much a single trial may be off all the same.

| symbol | meaning |
|---|---|
| s | deviation of a pair's adjusted gain, in % of the baseline's bill |
| g | gain to be seen, in % |
| n | pairs until it is seen, in four of five trials: g √n = (c_n + `LUCK`) s |
| c_n | critical value of the sequence after n pairs |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import array_of, checked_seed, float_array, is_finite, require_finite, whole_number
from holdcourse.deciding.policy import Policy, require_policy
from holdcourse.deciding.trial import BASELINE, POLICY, trial
from holdcourse.errors import InvalidInput, counted, shown
from holdcourse.learning.history import check_contexts
from holdcourse.trials.adjustment import Known, cycle_features
from holdcourse.trials.answer import adjusted_pairs
from holdcourse.trials.blocks import Blocks
from holdcourse.trials.intervals import FIRST_ANSWER, critical_values, pairs_needed
from holdcourse.trials.simulated import simulate_trial
from holdcourse.worlds.logged import LoggedWorld
from holdcourse.worlds.simulation import Run, World, measurement_noise, simulate, true_costs

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Rehearse: TypeAlias = Callable[[int, float, int, Callable[[int, int], None]], Blocks]
Progress: TypeAlias = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

LENGTHS = (2, 3, 4, 6, 8, 12, 24, 48, 84, 168)  # rounds of a block; one round alone could not be checked for carry-over
DEALT_PAIRS = (
    60_000  # coins that are thrown for every length, in 6 to 48 trials: enough for a deviation, light on memory
)
FEWEST_PAIRS = 20  # a length that leaves fewer in the world's rounds is not judged
LUCK = 0.5  # deviations; found by simulation: the sequence has then excluded zero in four of five trials
NOTABLE = 0.1  # of the gain to be seen: what learning from each other's blocks may change without a word
SHARES = (0.0, 0.5, 1.0)  # of the other arm's rounds: rehearsed to find the one with which the answer is right
STEP = 0.05  # of a share: finer ones could not be told apart by a rehearsal
COINS_PART = 0.5  # of a rehearsal's error: what its coins may make of it; until then there are more of them
STRETCHES = 20  # of a rehearsal, whose scatter says how sure its mean is
GAINS = (1.0, 2.0, 3.0, 5.0, 10.0)  # % shown in tables
SMALL_BILL = 0.25  # of a round's mean size: a bill in which costs and gains nearly cancel
HOURS_PER_WEEK = 168.0
LIFETIME = 100 * 8766 / HOURS_PER_WEEK  # weeks; what takes longer is called never


@dataclass(frozen=True, eq=False)
class Paths:
    """Costs of both arms, each as if it had run throughout; arrays have one entry per round.

    Parameters
    ----------
    policy, baseline
        Measured costs, or rewards if `maximise`.
    policy_movement, baseline_movement
        Movement cost of each arm along its own path.
    to_policy, to_baseline
        Cost of switching to an arm in a round, in addition to the arm's own movement.
    reference
        Signal that neither arm can change. Default: the cost of the baseline, as a twin machine would show it.
    """

    policy: Array
    baseline: Array
    policy_movement: Array
    baseline_movement: Array
    to_policy: Array = None  # type: ignore[assignment]
    to_baseline: Array = None  # type: ignore[assignment]
    reference: Array = None  # type: ignore[assignment]
    maximise: bool = False

    def __post_init__(self) -> None:
        rounds = len(self.policy)
        absent = {"to_policy": np.zeros(rounds), "to_baseline": np.zeros(rounds), "reference": self.baseline}
        for name in ("policy", "baseline", "policy_movement", "baseline_movement", *absent):
            given = getattr(self, name)
            column = float_array(absent[name] if given is None else given, name)
            if column.shape != (rounds,):
                raise InvalidInput(f"{name} must have one entry per round, {rounds}, got shape {column.shape}")
            require_finite(column, name)
            object.__setattr__(self, name, column)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.policy)

    @cached_property
    def nets(self) -> tuple[Array, Array]:
        """Net cost of each round, of the baseline and of the policy; rewards count as negative costs."""
        sign = -1.0 if self.maximise else 1.0
        return sign * self.baseline + self.baseline_movement, sign * self.policy + self.policy_movement

    @property
    def bill(self) -> float:
        """Net cost per round of the baseline, or its net reward."""
        return float(self.nets[0].mean()) * (-1.0 if self.maximise else 1.0)

    @property
    def gain(self) -> float:
        """Net gain of the policy throughout over the baseline throughout, in % of the baseline's bill."""
        return 100 * float(self.nets[0].mean() - self.nets[1].mean()) / abs(self.bill)

    def pairs(self, block: int) -> tuple[Array, Array]:
        """Return the net cost per round of both blocks of every pair, under the baseline and under the policy.

        Each array has the shape (pairs, 2).
        """
        baseline, policy = (_cut(net, block) for net in self.nets)
        return baseline, policy

    def switching(self, block: int) -> float:
        """Return the expected cost per round of changing arms at the borders of blocks.

        Within a pair the arm always changes, between two pairs every other time.
        """
        borders = np.arange(block, self.rounds, block)
        chance = np.where(borders // block % 2 == 1, 1.0, 0.5)
        return float((chance * (self.to_policy[borders] + self.to_baseline[borders]) / 2).sum() / self.rounds)


def _cut(values: Array, block: int) -> Array:
    pairs = len(values) // (2 * block)
    return np.asarray(values[: 2 * block * pairs].reshape(pairs, 2, block).mean(axis=2))


def dealt(
    paths: Paths, block: int, draws: int, seed: int = 0, *, reference: bool = False, cycle: int | None = None
) -> tuple[Array, Array]:
    """Deal the blocks out by many coins: gain and bill of every pair, adjusted as in an answer; (draws, pairs) each."""
    baseline, policy = paths.pairs(block)
    coins = np.random.default_rng([checked_seed(seed), block]).choice([-1.0, 1.0], (draws, len(baseline)))
    first = np.where(coins > 0, policy[:, 0], baseline[:, 0])
    second = np.where(coins > 0, baseline[:, 1], policy[:, 1])
    net = np.stack([first, second], axis=-1)
    others = {}
    if reference:
        others["reference"] = -np.diff(_cut(paths.reference, block), axis=1)
    if cycle is not None:
        others["cycle"] = cycle_features(2 * block * np.arange(len(baseline)), cycle)
    gains, bills = adjusted_pairs(net, coins, Known.of(net, others))
    return gains, -bills if paths.maximise else bills


@dataclass(frozen=True)
class Design:
    """A block length, and properties of a trial with it. Percentages are of the baseline's bill.

    Attributes
    ----------
    block
        Length of a block in rounds.
    deviation, with_reference
        Standard deviation of a pair's gain in %, without and with a reference signal.
    switching
        Cost of changing between the arms during the trial, in %.
    hours
        Length of a round in hours.
    """

    block: int
    deviation: float
    with_reference: float
    switching: float
    hours: float

    def weeks(self, gain: float, *, reference: bool = False) -> float:
        """Return the weeks until four of five trials detect a gain of `gain` %; infinite if that takes too long."""
        deviation = self.with_reference if reference else self.deviation
        pairs = pairs_needed(gain / deviation, LUCK) if deviation > 0 else float(FIRST_ANSWER)
        return 2 * self.block * pairs * self.hours / HOURS_PER_WEEK

    def visible(self, weeks: float, *, reference: bool = False) -> float:
        """Return the smallest gain in % that four of five trials detect within `weeks` weeks."""
        pairs = int(weeks * HOURS_PER_WEEK / (2 * self.block * self.hours))
        if pairs < 1:
            return math.inf
        deviation = self.with_reference if reference else self.deviation
        return float(deviation * (critical_values(pairs, "sequence")[-1] + LUCK) / math.sqrt(pairs))

    def price(self, gain: float) -> float:
        """Return the cost of a trial until it is decided, in weeks of the baseline's bill, for a gain of `gain` %.

        It consists of the changes between the arms, and the gain forgone in the baseline's blocks.
        """
        return self.weeks(gain) * (max(self.switching, 0.0) + gain / 2) / 100


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """Trials with several block lengths, and which of them is best. Made by `plan_trial`.

    Attributes
    ----------
    designs
        A design for each block length, in ascending order.
    target
        Gain in % that the trial must detect.
    expected
        Gain of the policy in the world of the plan, in %: an estimate, which the trial will replace.
    bill
        Net cost (or reward) per round of the baseline in that world.
    rounds
        Number of rounds simulated.
    size
        Mean absolute net cost per round of the baseline. If costs and gains nearly cancel in the bill, a percentage of
        the bill says little.
    heard
        Share of the other arm's rounds from which an arm should learn, as `holdcourse.trial` takes it.
    learning
        Bias of the answer with this share, in % of the bill, because the arms learn from each other's blocks: the
        advantage of the policy in its own blocks over running alone in the same rounds, less that of the baseline. NaN
        without simulated trials.
    learning_error
        Standard error of `learning`, from the scatter over the simulated trials.
    rehearsed
        The other shares that were tried, and the bias of the answer with each.
    coins
        Number of simulated trials behind `learning`, each with a coin of its own.

    Examples
    --------
    >>> import numpy as np
    >>> import holdcourse as hc
    >>> noise = np.random.default_rng(0).normal(size=(2, 2000))
    >>> paths = hc.trials.Paths(9.5 + noise[0], 10 + noise[1], np.zeros(2000), np.zeros(2000))
    >>> plan = hc.trials.plan_of(paths, gain=5, blocks=[2, 6, 12])
    >>> isinstance(plan, hc.TrialPlan), round(plan.best.weeks(5), 1), plan.best.weeks(2) > 5
    (True, 1.2, True)
    """

    designs: tuple[Design, ...]
    target: float
    expected: float
    bill: float
    rounds: int
    size: float = 0.0
    heard: float = 1.0
    learning: float = math.nan
    learning_error: float = math.nan
    rehearsed: tuple[tuple[float, float], ...] = ()
    coins: int = 0

    @property
    def best(self) -> Design:
        """Design whose trial costs least until it is decided, in switches between the arms and in gain forgone."""
        return min(self.designs, key=lambda design: (design.price(self.target), design.weeks(self.target)))

    @property
    def words(self) -> list[str]:
        """The plan in sentences."""
        best, target = self.best, f"{percent(self.target)} %"
        weeks, shorter = best.weeks(self.target), best.weeks(self.target, reference=True)
        if weeks > LIFETIME:
            return [f"No block length detects a gain of {target} within a lifetime: the scatter is too large."]
        said = [
            f"Use blocks of {counted(best.block, 'round')} ({_duration(best.block * best.hours)}). A gain of {target} "
            f"is then detected within {_weeks(weeks)}, in four of five trials.",
            f"During the trial, switching between the arms costs {percent(best.switching)} % of the baseline's bill.",
        ]
        if _weeks(shorter) != _weeks(weeks) and shorter < 0.95 * weeks:
            said.append(f"A reference signal as good as a twin machine would shorten the trial to {_weeks(shorter)}.")
        if best.deviation == 0:
            said.append("In the simulation costs do not scatter at all, so a real trial takes longer.")
        if abs(self.bill) < SMALL_BILL * self.size:
            said.append(
                f"Costs above and below zero nearly cancel in the baseline's bill of {self.bill:.2g} a round, so a "
                f"percentage of it says little: {target} is {abs(self.bill) * self.target / 100:.2g} a round."
            )
        said.append(
            f"In the simulation the policy gained {self.expected:+.1f} %. The trial will replace this estimate by a "
            "measurement."
        )
        return said + self._words_of_learning()

    def _words_of_learning(self) -> list[str]:
        """What the rehearsals showed."""
        if not math.isfinite(self.learning):
            return []
        said, effect = [], f"{self.learning:+.1f} ± {self.learning_error:.1f} points"
        if self.heard < 1:
            everything = dict(self.rehearsed)[1.0]
            even = min(off for _, off in self.rehearsed) <= 0  # with everything it is above
            then = (
                "it does as well in its blocks as it would alone"
                if even
                else "it comes closest to what it would do alone"
            )
            said.append(
                f"Let each arm learn from {100 * self.heard:.0f} % of the other's rounds (heard={self.heard:g}, with "
                f"an uncertainty of ± {100 * self.share_error:.0f} %): then {then}. With this share the answer of a "
                f"rehearsed trial was off by {effect}. If each arm learned from every round it would be off by "
                f"{everything:+.1f}, because a machine that spends time at both settings shows an arm more than it "
                "would see alone."
            )
        if abs(self.learning) > max(NOTABLE * self.target, self.learning_error):
            less = "more" if self.learning > 0 else "less"
            said.append(
                f"In the trial the policy would gain {abs(self.learning):.1f} points {less} than alone, because of "
                "what the arms learn or miss in each other's blocks; the trial's answer is off by that much. Longer "
                "blocks make this error smaller, and so does a policy that has learned what it can before the trial "
                "begins."
            )
        elif self.learning_error > NOTABLE * self.target:
            said.append(
                f"In rehearsal, what the arms learn from each other's blocks changes the answer by {effect}. More data "
                "or more rehearsals would make this figure more precise."
            )
        weeks = self.best.weeks(self.target)
        if self.luck(weeks) > NOTABLE * self.target:
            said.append(
                f"That is the mean over {_weeks(self.rounds * self.best.hours / HOURS_PER_WEEK)} of rehearsal. In a "
                f"single trial of {_weeks(weeks)} the weather moves it up or down by {self.luck(weeks):.1f} points, "
                "which no plan can foresee. The longer the trial, the smaller this effect."
            )
        return said

    @property
    def share_error(self) -> float:
        """Standard error of the share, from the remaining bias and how fast the bias changes with the share."""
        if not self.rehearsed:
            return math.nan
        shares, effects = zip(*self.rehearsed, strict=True)
        slope = abs(float(np.polyval(np.polyder(np.polyfit(shares, effects, 2)), self.heard)))
        return min(1.0, self.learning_error / slope) if slope > 0 else 1.0

    def luck(self, weeks: float) -> float:
        """Return the error of a trial of `weeks` weeks, in % of the bill, that comes from what the arms learn in it.

        It is the standard deviation between such trials, from the scatter between parts of the simulated trial.
        """
        if not (math.isfinite(self.learning_error) and 0 < weeks < math.inf):
            return math.nan
        return self.learning_error * math.sqrt(self.rounds * self.best.hours / (weeks * HOURS_PER_WEEK))

    def table(self) -> list[dict[str, float]]:
        """Return a row for each block length: weeks until gains are detected, and the cost of switching."""
        return [
            {
                "block": design.block,
                "hours": design.block * design.hours,
                "switching_percent": design.switching,
                **{f"weeks_for_{gain:g}_percent": design.weeks(gain) for gain in self.gains},
                "weeks_for_target": design.weeks(self.target),
                "weeks_for_target_with_reference": design.weeks(self.target, reference=True),
            }
            for design in self.designs
        ]

    @property
    def gains(self) -> tuple[float, ...]:
        """Gains in % that tables show."""
        return GAINS

    def to_data(self) -> dict[str, Any]:
        """Return the plan in JSON values; None for trials that would never end."""
        rows = [{name: value if math.isfinite(value) else None for name, value in row.items()} for row in self.table()]
        return {
            "block": self.best.block,
            "target_percent": self.target,
            "expected_percent": self.expected,
            "bill": self.bill,
            "rounds": self.rounds,
            "heard": self.heard,
            "learning_percent": self.learning if math.isfinite(self.learning) else None,
            "learning_error_percent": self.learning_error if math.isfinite(self.learning_error) else None,
            "designs": rows,
            "words": self.words,
        }


def plan_trial(
    policy: Policy,
    baseline: Policy,
    world: World,
    contexts: ArrayLike | None = None,
    *,
    start: int = 0,
    gain: float | None = None,
    hours: float = 1.0,
    blocks: Sequence[int] | None = None,
    noise: float | ArrayLike | None = None,
    rehearsals: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrialPlan:
    """Plan a trial of a policy against a baseline by simulation, before you change anything.

    Parameters
    ----------
    policy, baseline
        The two arms, made for the world's problem.
    world
        World that stands for the machine: fitted to readings (`LoggedWorld`), or any other.
    contexts
        Context of every round; default: the contexts of the readings, for a world that was fitted to readings.
    start
        Action (index) before the first round.
    gain
        Gain in % of the baseline's bill that the trial must detect. Default: the gain in the simulation, or 5 if there
        is none.
    hours
        Length of a round in hours.
    blocks
        Block lengths to compare, in rounds; default: lengths from 2 on.
    noise
        Noise of a measured cost: its standard deviation, or one number per round. Default for a world fitted to
        readings: the part of them that the model does not explain, in their order; for other worlds their own noise, if
        they have any.
    rehearsals
        Largest number of simulated trials with different coins. They show how learning from each other's blocks changes
        the answer, and with which share of these blocks it does not. At least two are run if that many are allowed, and
        more while the coins cause half of the error. Each takes as long as running the policy, and up to four shares
        are tried. 0: no simulated trials, and both arms learn from everything.
    seed
        Seed of the simulation.
    progress
        Function that is called with what is being done, the amount done and the total.

    Examples
    --------
    >>> import holdcourse as hc
    >>> world = hc.SyntheticWorld.sample(seed=7, grid=5, contexts=3)
    >>> contexts = world.context_sequence("iid", rounds=600)
    >>> arms = hc.gp_md(world.problem), hc.stationary(world.problem)
    >>> plan = hc.plan_trial(*arms, world, contexts, gain=5, rehearsals=0)
    >>> plan.best.weeks(5) > plan.best.weeks(10)
    True
    """
    for name, given in (("policy", policy), ("baseline", baseline)):
        require_policy(given, name)
    check_terms(gain, hours)  # before both arms are run, which takes a while
    _lengths(blocks)
    rehearsals = whole_number(rehearsals, "rehearsals", 0)
    rows = _contexts(world, contexts)
    paths = run_both(policy, baseline, world, rows, start=start, noise=noise, seed=seed, progress=progress)
    return plan_of(
        paths,
        gain=gain,
        hours=hours,
        blocks=blocks,
        rehearse=rehearsal_of(policy, baseline, world, rows, start=start, noise=noise, seed=seed)
        if rehearsals
        else None,
        rehearsals=rehearsals,
        seed=seed,
        progress=progress,
    )


def plan_of(
    paths: Paths,
    *,
    gain: float | None = None,
    hours: float = 1.0,
    blocks: Sequence[int] | None = None,
    rehearse: Rehearse | None = None,
    rehearsals: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrialPlan:
    """Plan a trial from both arms' paths; parameters as in `plan_trial`.

    `rehearse` simulates a trial and returns its table. Its arguments are a block length, the share of the other arm's
    rounds from which an arm learns, the seed of the coin, and a function for the progress.
    """
    check_terms(gain, hours)
    most = paths.rounds // (2 * FEWEST_PAIRS)
    wanted = _lengths(blocks)
    lengths = [block for block in wanted if block <= most]
    if not lengths:
        raise InvalidInput(
            f"a plan needs {FEWEST_PAIRS} pairs of blocks or more, which with blocks of {counted(wanted[0], 'round')} "
            f"takes {counted(2 * FEWEST_PAIRS * wanted[0], 'round')}, but the data have {paths.rounds:,}. Give more "
            f"data{', or judge shorter blocks' * (blocks is not None)}"
        )
    if paths.bill == 0:
        raise InvalidInput("the baseline's bill is zero, so a gain in % of it is not defined; choose another baseline")
    cycle = day_of(hours)
    designs = []
    for done, block in enumerate(lengths):
        if progress is not None:
            progress(f"trials with blocks of {block}", done, len(lengths))
        draws = min(48, max(6, DEALT_PAIRS // (paths.rounds // (2 * block))))
        plain, helped = (
            _deviation(dealt(paths, block, draws, seed, reference=reference, cycle=cycle)[0])
            for reference in (False, True)
        )
        percent = 100 / abs(paths.bill)
        designs.append(Design(block, percent * plain, percent * helped, percent * paths.switching(block), hours))
    target = gain if gain is not None else (round(paths.gain, 1) if paths.gain >= 0.1 else 5.0)
    size = float(np.abs(paths.nets[BASELINE]).mean())
    plan = TrialPlan(tuple(designs), float(target), paths.gain, paths.bill, paths.rounds, size)
    if rehearse is None or whole_number(rehearsals, "rehearsals", 0) == 0:
        return plan
    return _rehearsed(plan, paths, rehearse, rehearsals, seed, progress)


def _lengths(blocks: Sequence[int] | None) -> Sequence[int]:
    """The lengths of blocks that are compared, in rounds, ascending."""
    if blocks is None:
        return LENGTHS
    if not isinstance(blocks, Iterable) or isinstance(blocks, str):
        raise InvalidInput(f"blocks must be a list of lengths in rounds, such as [4, 8], got {shown(blocks)}")
    wanted = sorted({whole_number(block, "blocks", 1) for block in blocks})
    if not wanted:
        raise InvalidInput("blocks is empty; give at least one length in rounds, such as blocks=[4, 8]")
    return wanted


def check_terms(gain: float | None, hours: float | None) -> None:
    """Raise where a plan could not be made for such a gain in %, or such rounds."""
    if hours is not None and not (is_finite(hours) and hours > 0):
        raise InvalidInput(f"hours must be above 0, got {shown(hours)}")
    if gain is not None and not (is_finite(gain) and gain > 0):
        raise InvalidInput(f"gain must be above 0, in % of the baseline's bill, got {shown(gain)}")


def _rehearsed(
    plan: TrialPlan, paths: Paths, rehearse: Rehearse, rehearsals: int, seed: int, progress: Progress | None
) -> TrialPlan:
    """The plan with the share of the other arm's rounds that makes the answer right, as far as rehearsals can tell."""
    runs = len(SHARES) + 1  # at most

    def effect(heard: float, run: int, seed: int) -> tuple[float, float, int]:
        """By how much the answer is too large with a share, its standard error, and how many coins that took."""
        found: list[Array] = []
        for coin in range(rehearsals):

            def tell(done: int, total: int, before: int = run * rehearsals + coin) -> None:
                if progress is not None:
                    progress("rehearsing the trial", before * total + done, runs * rehearsals * total)

            found.append(_learning(paths, rehearse(plan.best.block, heard, seed + coin, tell)))
            error = _standard_error(np.mean(found, axis=0))
            if coin and _standard_error(np.mean(found, axis=1)) <= COINS_PART * error:
                break
        return float(np.mean(found)), error, len(found)

    everything, error, coins = effect(1.0, 0, seed)
    plan = replace(plan, learning=everything, learning_error=error, coins=coins)
    if everything <= error:  # nothing to be seen, or the arms miss more than they hear: then nothing is kept from them
        return plan
    effects = [effect(share, run, seed)[0] for run, share in enumerate(SHARES[:-1], 1)] + [everything]
    heard = even_share(effects)
    left, error, coins = effect(heard, runs - 1, seed + rehearsals)
    rehearsed = tuple(zip(SHARES, effects, strict=True))
    return replace(plan, heard=heard, learning=left, learning_error=error, rehearsed=rehearsed, coins=coins)


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def even_share(effects: Sequence[float]) -> float:
    """The share at which the parabola through the effects of `SHARES` crosses zero; to the next `STEP`.

    Where it does not cross it within the shares, the one with the smallest effect.

    Examples
    --------
    >>> even_share([-1.8, 0.1, 0.9]), even_share([0.2, 0.5, 0.9]), even_share([-3.0, -2.0, 0.5])
    (0.45, 0.0, 0.9)
    """
    fine = np.linspace(0.0, 1.0, round(1 / STEP) + 1)
    there = np.polyval(np.polyfit(SHARES, effects, 2), fine)
    return float(fine[np.argmin(np.abs(there))].round(2))


def rehearsal_of(
    policy: Policy,
    baseline: Policy,
    world: World,
    contexts: Array,
    *,
    start: int = 0,
    noise: float | ArrayLike | None = None,
    seed: int = 0,
) -> Rehearse:
    """What runs the trial itself in a world, for `plan_of`; parameters as in `plan_trial`."""

    def run(block: int, heard: float, coin: int, tell: Callable[[int, int], None]) -> Blocks:
        costs = np.array([true_costs(world, t, context) for t, context in enumerate(contexts)])
        measured = costs + _noise(world, len(contexts), noise, seed)[:, None]
        on_trial = trial(policy, baseline, block=block, heard=heard)
        return simulate_trial(on_trial, world, contexts, start=start, seed=coin, measured=measured, progress=tell)

    return run


def _learning(paths: Paths, table: Blocks) -> Array:
    """How much better each arm was in its blocks than alone in the same rounds, the policy's less the baseline's.

    In % of the baseline's bill, in each of `STRETCHES` of the rehearsal.
    """
    sign = -1.0 if table.maximise else 1.0
    alone = np.where(table.arm == POLICY, paths.nets[POLICY], paths.nets[BASELINE])
    better = alone - (sign * table.cost + table.movement)
    pairs = table.means(np.where(table.arm == POLICY, better, -better)).sum(axis=1)
    return np.array([100 * part.mean() / abs(paths.bill) for part in np.array_split(pairs, STRETCHES)])


def day_of(hours: float) -> int | None:
    """Rounds of a day; None if they are no whole number, or fewer than four: then no cycle can be seen in them."""
    rounds = 24 / hours
    return round(rounds) if abs(rounds - round(rounds)) < 1e-9 and rounds >= 4 else None


def _deviation(gains: Array) -> float:
    return float(np.sqrt(gains.var(axis=1, ddof=1).mean()))


def run_both(
    policy: Policy,
    baseline: Policy,
    world: World,
    contexts: ArrayLike | None = None,
    *,
    start: int = 0,
    noise: float | ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Paths:
    """Run both arms throughout in a world; parameters as in `plan_trial`."""
    contexts = _contexts(world, contexts)
    runs: list[Run] = []
    for arm, name in ((policy, "the policy"), (baseline, "the baseline")):

        def tell(done: int, total: int, name: str = name, before: int = len(runs)) -> None:
            if progress is not None:
                progress(f"running {name}", before * total + done, 2 * total)

        runs.append(simulate(arm, world, contexts, start, seed, progress=tell))
    ours, theirs = runs
    added = _noise(world, len(ours.actions), noise, seed)
    before = [np.append(start, run.actions[:-1]) for run in runs]
    move = world.problem.move_costs
    return Paths(
        policy=ours.service_costs + added,
        baseline=theirs.service_costs + added,
        policy_movement=ours.movement_costs,
        baseline_movement=theirs.movement_costs,
        to_policy=move(before[1], ours.actions) - ours.movement_costs,
        to_baseline=move(before[0], theirs.actions) - theirs.movement_costs,
        reference=theirs.service_costs,
    )


def _contexts(world: World, given: ArrayLike | None) -> Array:
    if given is not None:
        return check_contexts(given, None)
    if not isinstance(world, LoggedWorld):
        raise InvalidInput("give contexts=, one for each round; only a world that was fitted to readings has its own")
    return world.contexts


def _noise(world: World, rounds: int, given: float | ArrayLike | None, seed: int) -> Array:
    """What is added to the cost of every round, whichever arm has it."""
    if given is None and isinstance(world, LoggedWorld) and rounds == len(world.readings):
        readings = world.readings
        expected = np.array([world.costs(t, context) for t, context in enumerate(readings.contexts)])
        return np.asarray(world.rho * readings.measurements - expected[np.arange(rounds), readings.actions])
    level = getattr(world, "noise_std", 0.0) if given is None else given
    if array_of(level, "noise").ndim == 0:
        if not (is_finite(level) and float(level) >= 0):  # type: ignore[arg-type]
            raise InvalidInput(f"noise must be 0 or more, got {shown(level)}")
        return float(level) * np.array([measurement_noise(seed, t) for t in range(rounds)])  # type: ignore[arg-type]
    column = float_array(level, "noise")
    if column.shape != (rounds,):
        raise InvalidInput(f"noise must be one number, or one for each of the {rounds} rounds, got {column.shape}")
    require_finite(column, "noise")
    return column


def percent(value: float) -> str:
    """A percentage with two digits, or all before the point."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:,.0f}"


def _duration(hours: float) -> str:
    if hours < 2:
        return f"{60 * hours:.0f} min"
    return f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.3g} days"


def _weeks(weeks: float) -> str:
    if weeks < 2:
        return counted(max(1, math.ceil(7 * weeks)), "day")
    return f"{weeks:.0f} weeks"
