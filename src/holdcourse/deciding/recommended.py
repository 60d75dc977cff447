"""The policy that we would run ourselves: `recommended` looks at its arguments, fits what it needs, plans, and hedges.

==============================  ======================================================================================
given                           chosen
==============================  ======================================================================================
the problem alone               the planner; kernel, noise and prior mean are fitted as measurements come in
kernel, noise, prior mean       the planner with these
history                         the planner, which learns it; what is not given is fitted to it, and again as
                                measurements come in; the best fixed action in it becomes an expert
``time=True``                   contexts are times: plan over what the model predicts for the next rounds
==============================  ======================================================================================

The planner (or the plan over time) is the first expert of a hedge, and GP-MD with width 1 the second. Both use one
model, so that nothing is learned twice. If the kernel is fitted, the plan is less optimistic than with a kernel that is
given, because the model may be wrong by more than it says; the promise is as cautious as with a given kernel. If
`max_step` is given, the plan runs alone, because a change of experts might be a larger step. Unless ``at_most=None``,
the policy keeps a promise against a baseline; see `holdcourse.deciding.promise`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from holdcourse.checks import flag, is_finite
from holdcourse.deciding.hedge import HedgedMaker, Panel
from holdcourse.deciding.planning.beliefs import Closeness
from holdcourse.deciding.planning.lookahead import Lookahead
from holdcourse.deciding.planning.plan import Plan, planner
from holdcourse.deciding.policy import Learning, OnTree, Policy, fixed_at, lower_bound, named, stationary
from holdcourse.deciding.promise import promised
from holdcourse.deciding.registry import label_of
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.confidence import TheoryWidth
from holdcourse.learning.costs import LowerBound
from holdcourse.learning.fitting.search import FitWarning, fit_kernel
from holdcourse.learning.history import History, best_measured
from holdcourse.learning.kernels import Kernel, KernelSum
from holdcourse.learning.posteriors.fitted import FIRST_FIT
from holdcourse.learning.posteriors.temporal import why_not_temporal
from holdcourse.movement.offline import best_fixed
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import chosen
from holdcourse.movement.steps import LongestStep, longest_step

PATIENCE = 8.0  # of the hedge: larger than its default, as the plan is nearly always better; see docs/beyond.md
GP_MD_WIDTH = 1.0  # better than the paper's 2 in nearly every cell; see docs/beyond.md
# Of the plan's bounds where the kernel is fitted, where moves are expensive and where they are cheap; the promise's are
# wider. See decisions 48 and 58.
LEARNED_WIDTH, CHEAP_WIDTH = 1.25, 0.75
ENOUGH_TO_FIT = 30  # measurements; with fewer, the kernel is fitted again and again as more come in
AT_MOST = 0.02  # of the baseline's bill
TRIALS = 35.0  # moves that are paid for in advance where moves are dear
JUDGED_CONTEXTS = 200  # of the history, in which the fixed action is chosen


def recommended(
    problem: Problem,
    history: History | Iterable[tuple[int, Any, float]] | None = None,
    *,
    time: bool = False,
    interval: float = 1.0,
    context_scale: Any = None,
    period: Any = None,
    max_step: Any = None,
    fixed_setting: Any = None,
    baseline: Any = None,
    at_most: float | str | None = "auto",
    budget: float | None = None,
    fixed_setting_index: int | None = None,
    baseline_index: int | None = None,
    max_step_cost: float | None = None,
    **learning: Any,
) -> Policy:
    """Make the policy that we would run ourselves; its `explanation` says what it chose.

    Parameters
    ----------
    problem
        The actions, and what moving between them costs.
    history
        Past measurements: a `History` or (action, context, measurement) triples.
    time
        Whether contexts are times, which never return. Needs a kernel, or a history to fit one to. The model then
        predicts future rounds itself, and `ask` refuses a forecast. To use a forecast, describe the round by contexts
        that return (the hour of day with ``period=24``) and forecast these, or write a cost model that has
        `costs_at_outlook`.
    interval
        Time between two rounds, if contexts are times.
    context_scale, period, max_step, max_step_cost
        As in `planner`; `context_scale` and `period` are not for contexts that are times.
    fixed_setting
        A setting whose constant use is one of the experts; by default the best setting in the history, if there is one.
    baseline
        What would run without us: a fixed setting, "history" for the best fixed setting of the history, or a policy
        such as the operators' own rule; None: staying at the start of the run, or of the episode.
    at_most
        Largest share of the baseline's bill by which the bill, movement included, may exceed it. "auto": 0.02, plus
        the cost of 35 moves in advance if a move costs more than half a round. None: no promise. How the promise is
        kept: `holdcourse.deciding.promise`.
    budget
        Amount that may be spent in advance, in the unit of costs; by default the share of a few hundred rounds.
    fixed_setting_index, baseline_index
        Index of the setting, instead of `fixed_setting` or `baseline`.
    learning
        Options of the model, see `Learning`; options that you leave out are fitted.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.recommended(hc.Problem([0.0, 0.5, 1.0]))
    Policy(Recommended: the planner, with GP-MD as an alternative, Problem(3 actions, metric='euclidean'))
    """
    known = cast(Learning, dict(learning))  # which options there are is checked where they are used
    past = _checked(history, problem)
    time = flag(time, "time") or bool(known.get("method") == "temporal")
    if not (is_finite(interval) and interval > 0):
        raise InvalidInput(f"interval must be positive, got {shown(interval)}")
    fixed_action = chosen(problem, fixed_setting, fixed_setting_index, "fixed_setting")
    longest = longest_step(problem, max_step, max_step_cost)
    without, kept = _baseline_given(problem, baseline, baseline_index)
    if time and not (context_scale is None and period is None):
        raise InvalidInput(
            "context_scale and period are for contexts that come back, which times never do; leave them out"
        )
    notes = _fitted(problem, past, known, time)
    kernel = known.get("kernel", "auto")
    if time and known.get("method", "auto") == "auto":
        assert not isinstance(kernel, str)  # a plan over time was given one, or has fitted one
        known["method"] = "auto" if why_not_temporal(kernel) else "temporal"
    if past is not None:
        known["history"] = past
    if time:
        lead = _over_time(longest, interval, known)
    else:
        steps: Any = {"max_step": longest.size, "max_step_cost": longest.cost}
        lead = planner(problem, context_scale=context_scale, period=period, **steps, **known)
    model = lead.costs
    assert isinstance(model, LowerBound)
    if fixed_action is None and past is not None and len(past):
        fixed_action = _best_in_past(problem, past, model, time)
    # Who gives a width means it; a kernel that is given is believed.
    hope = LEARNED_WIDTH if isinstance(kernel, str) and "width" not in known else None
    if hope is not None and isinstance(lead.rule, Plan):
        lead = replace(lead, rule=replace(lead.rule, cheap_hope=CHEAP_WIDTH / LEARNED_WIDTH))
    experts = [Expert(lead, 1.0 if hope is None else _share(model, hope))]
    if longest.is_any:
        experts.append(Expert(Policy(label_of("gp-md"), OnTree(problem), model, problem), _share(model, GP_MD_WIDTH)))
        if fixed_action is not None:
            experts.append(Expert(fixed_at(problem, setting_index=fixed_action), 1.0))
    options = {"time": time, "interval": interval, "context_scale": context_scale, "period": period}
    options |= {**longest.describe(), "fixed_setting_index": fixed_action, **known}
    if without == "history":
        kept = _best_measured(problem, past, model.maximise)
    options |= {"baseline": without if isinstance(without, Policy) else None, "baseline_index": kept}
    options |= {"at_most": at_most, "budget": budget}
    trials = 0.0
    if isinstance(at_most, str):
        if at_most != "auto":
            raise InvalidInput(
                f"at_most must be a share such as 0.02, 'auto', or None for no promise, got {shown(at_most)}"
            )
        at_most, trials = AT_MOST, TRIALS
    hedge: tuple[Any, Any] = (
        HedgedMaker(tuple(expert.policy for expert in experts), PATIENCE),
        Panel([model], [(0, expert.share) for expert in experts]),
    )
    words = _explanation(experts, notes, time, longest)
    if at_most is not None:
        against = without if isinstance(without, Policy) else _kept_at(problem, kept, model.maximise)
        inner = Policy(label_of("recommended"), *hedge, problem)
        alike = Closeness.of(context_scale, period)
        past_can_be_asked = known.get("method") != "temporal"
        hedge = promised(
            inner,
            against,
            at_most,
            budget=budget,
            trials=trials,
            closeness=alike,
            asks_again=past_can_be_asked,
            longest=None if longest.is_any else longest,
            caution=1.0 / experts[0].share,  # its doubts are as wide as the model says
        )
        words = f"{words} {_promise_in_words(against, kept, at_most, budget, trials)}"
    return named("recommended", *hedge, problem, options, words)


def _best_measured(problem: Problem, past: History | None, maximise: bool) -> int:
    best = None if past is None else best_measured(past, problem, maximise=maximise)
    if best is None:
        raise InvalidInput("baseline='history' is the best fixed setting of the history; give history= too")
    return best


def _baseline_given(
    problem: Problem, baseline: Any, index: int | None
) -> tuple[Policy | Literal["history"] | None, int | None]:
    """Return what would happen without us as far as it is given: a policy or the history, or an action."""
    if isinstance(baseline, Policy):
        if index is not None:
            raise InvalidInput("give baseline or baseline_index, not both")
        return baseline, None
    if isinstance(baseline, str) and baseline == "history":
        if index is not None:
            raise InvalidInput("give baseline or baseline_index, not both")
        if problem.labels is not None and baseline in problem.labels:
            where = problem.labels.index(baseline)
            raise InvalidInput(
                "baseline='history' means the best fixed setting of the history, but a setting has that label too; for "
                f"the setting write baseline_index={where}"
            )
        return "history", None
    try:
        return None, chosen(problem, baseline, index, "baseline")
    except InvalidInput as error:
        raise InvalidInput(f"{error}; a baseline may also be 'history' or a Policy") from None


def _kept_at(problem: Problem, action: int | None, maximise: bool) -> Policy:
    """Return what would happen without us as a policy: one action for ever, or staying."""
    if action is None:
        return stationary(problem, maximise=maximise)
    return fixed_at(problem, setting_index=action, maximise=maximise)


def _promise_in_words(without: Policy, kept: int | None, at_most: float, budget: float | None, trials: float) -> str:
    stays = kept is None and without.made_by is not None and without.made_by[0] == "stationary"
    what = "staying where it begins" if stays else without.name
    advance = ""
    if budget is not None:
        advance = f", apart from {budget:.3g} that it may spend in advance"
    elif trials:
        advance = f". If a move costs more than half a round, it may spend the cost of {trials:.0f} moves in advance"
    return (
        "It explores only with what it has saved: according to the model's calibrated bounds, the bill including moves "
        f"stays within {100 * at_most:.3g} % of the bill of {what}{advance}."
    )


@dataclass(frozen=True, eq=False)
class Expert:
    """A policy of the hedge, and how much of the common model's optimism it shares."""

    policy: Policy
    share: float


def _checked(history: Any, problem: Problem) -> History | None:
    if history is None:
        return None
    past = history if isinstance(history, History) else History.from_triples(history)
    past.check(problem, None)
    return past


def _fitted(problem: Problem, past: History | None, known: Learning, time: bool) -> list[str]:
    """Fill in kernel, noise and prior mean as far as the history tells them; return what was done, in sentences."""
    count = 0 if past is None else len(past)
    words = [f"It was given: {', '.join(['the problem', *_given(known, count, time)])}."]
    fits = isinstance(known.get("kernel", "auto"), str)
    if fits and past is not None and count >= ENOUGH_TO_FIT and time:
        guess = _process_in_time(problem, past)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # told in the explanation instead
            fit = fit_kernel(
                problem,
                past.actions,
                past.contexts,
                past.measurements,
                kernel=guess,
                noise_std=known.get("noise_std"),
                prior_mean=known.get("prior_mean"),
            )
        known |= {"kernel": fit.kernel, "noise_std": fit.noise_std, "prior_mean": fit.prior_mean}
        found = ", ".join(f"{name} {value:.3g}" for name, value in fit.parameters.items())
        words.append(f"The kernel was fitted to the history: {found}.")
        if fit.on_bounds:
            words.append(f"The history does not determine {', '.join(fit.on_bounds)}.")
    elif fits and time:
        raise InvalidInput(
            f"time=True needs a kernel such as Kernel(RBF(1.0), Matern(10.0, nu=0.5)), or a history of at least "
            f"{ENOUGH_TO_FIT} measurements to fit one to; got {count}"
        )
    elif fits and count >= FIRST_FIT:
        words.append("It has fitted its model to the history, and refits it as measurements come in.")
    elif fits:
        words.append("It refits its model (kernel, noise and prior mean) as measurements come in.")
    elif past is not None and count and known.get("prior_mean") is None:
        known["prior_mean"] = float(past.measurements.mean())
        words.append("The prior mean is the mean of the history.")
    return words


def _given(known: Learning, count: int, time: bool) -> list[str]:
    names = {"kernel": "a kernel", "noise_std": "the noise", "prior_mean": "the prior mean"}
    words = [text for name, text in names.items() if not isinstance(known.get(name, "auto"), str | None)]
    return words + [f"{count:,} past measurements"] * (count > 0) + ["contexts that are times"] * time


def _process_in_time(problem: Problem, past: History) -> KernelSum:
    """Return a profile over the actions that stays, and a process around it that forgets: a first guess for the fit."""
    from sklearn.gaussian_process.kernels import RBF, Matern

    axes = problem.features.shape[1]
    extent = float(np.ptp(past.contexts)) or 1.0

    def along_actions() -> RBF:
        return RBF(np.ones(axes) if axes > 1 else 1.0)

    return Kernel(along_actions()) + Kernel(along_actions(), Matern(extent / 10, nu=0.5))


def _over_time(longest: LongestStep, interval: float, known: Learning) -> Policy:
    problem, size, cost = longest.problem, longest.size, longest.cost
    rule = Lookahead(problem, interval=interval, max_step=size, max_step_cost=cost, optimism=0.0)
    return Policy("Lookahead", rule, lower_bound(problem, {"width": GP_MD_WIDTH, **known}), problem)


def _share(model: LowerBound, width: float) -> float:
    """Return the width of an expert's bounds in units of the model's; no more than that."""
    if isinstance(model.width, TheoryWidth) or model.width <= width:
        return 1.0
    return width / model.width


def _best_in_past(problem: Problem, past: History, model: LowerBound, time: bool) -> int | None:
    """Return the action of least cost in the history's contexts: by the model, or as measured where these are past.

    None if a cost follows from measurements of all actions at once, which the history does not hold.
    """
    if not time:
        rows = np.unique(np.linspace(0, len(past) - 1, JUDGED_CONTEXTS).astype(int))
        return best_fixed(model.costs_at_optimism(past.contexts[rows], 0.0), problem)
    if model.interval_map is not None:
        return None
    return best_measured(past, problem, maximise=model.maximise)


def _explanation(experts: Sequence[Expert], notes: list[str], time: bool, longest: LongestStep) -> str:
    problem = experts[0].policy.problem
    beside = [expert.policy.name for expert in experts[1:]]
    role = "an alternative" if len(beside) == 1 else "alternatives"
    company = f"with {' and '.join(beside)} as {role}" if beside else "alone"
    if time:
        head = f"Recommended: a plan over predicted costs, {company}."
        ahead = experts[0].policy.rule.describe()["horizon"]
        body = [f"It plans {ahead} rounds ahead with the model's predictions, so it neither needs nor takes forecasts."]
    else:
        head = f"Recommended: the planner, {company}."
        body = [
            "It learns what each setting costs in which conditions and how conditions follow each other, and plans the "
            "moves that pay. If you give it forecasts, it relies on them as far as earlier forecasts were right."
        ]
        rule = experts[0].policy.rule
        if isinstance(rule, Plan) and rule.weighed is not None:
            body.append(rule.gives_up)
    if beside:
        edge = PATIENCE * problem.diameter
        lead, most = (problem.cost(f"{sum_:,.0f}" if sum_ >= 1000 else f"{sum_:.3g}") for sum_ in (edge, 2 * edge))
        body.append(
            f"It follows the plan until the model estimates that an alternative is ahead by about {lead}. By these "
            "estimates it never expects to pay more than the plan alone would, and at most "
            f"{most} more than any alternative alone, apart from the cost of switching between them. If the "
            "model is wrong, nothing is promised about the true costs."
        )
    elif not longest.is_any:
        body.append("It has no alternatives, because switching to one might need a larger step than max_step.")
    return " ".join([head, *notes, *body])
