"""What we recommend: each branch, what it says of itself, and a recipe that makes it again without the history."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.driving import operation_of
from sklearn.gaussian_process.kernels import RBF, Matern

import holdcourse as hc
from holdcourse.deciding import recipe
from holdcourse.deciding.pilot import Pilot
from holdcourse.deciding.planning.plan import WIDTH
from holdcourse.deciding.recommended import ENOUGH_TO_FIT, LEARNED_WIDTH, recommended
from holdcourse.errors import InvalidInput

LINE = hc.Problem(np.linspace(0.0, 1.0, 9))
KERNEL = hc.Kernel(RBF(0.3), RBF(0.5))
IN_TIME = hc.Kernel(RBF(0.3)) + hc.Kernel(RBF(0.3), Matern(10.0, nu=0.5))


def cost(action, context):
    return 4.0 * (LINE.actions[action, 0] - context) ** 2


def past(count, *, times=False, seed=0):
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(9, size=count), rng.random(count)
    y = cost(actions, contexts) + 0.05 * rng.standard_normal(count)
    return hc.History(actions, np.arange(count) if times else contexts, y)


BRANCHES = {
    "nothing but the problem": lambda: recommended(LINE),
    "a kernel": lambda: recommended(LINE, kernel=KERNEL, noise_std=0.1, prior_mean=1.0),
    "history": lambda: recommended(LINE, past(60)),
    "little history": lambda: recommended(LINE, past(10)),
    "kernel and history": lambda: recommended(LINE, past(60), kernel=KERNEL, noise_std=0.1),
    "a largest step": lambda: recommended(LINE, kernel=KERNEL, max_step=0.3),
    "a period": lambda: recommended(LINE, period=24.0),
    "gains": lambda: recommended(LINE, past(60), maximise=True),
    "a theoretical width": lambda: recommended(LINE, kernel=KERNEL, width=hc.TheoryWidth(1.0)),
    "time": lambda: recommended(LINE, kernel=IN_TIME, noise_std=0.1, time=True),
    "time and history": lambda: recommended(LINE, past(60, times=True), time=True, interval=2.0),
}


def followed(policy):
    """The rule that is followed under the promise: the hedge."""
    return policy.rule_for(0).followed


def model_of(policy):
    """The model that all experts look at: first on the hedge's panel, which is first on the promise's."""
    return policy.costs.models[0].models[0]


def test_what_has_a_period_is_a_circle_for_the_plan_and_for_the_model():
    policy = recommended(LINE, period=24.0)
    pilot = Pilot(policy, 0, 0)
    for t in range(40):
        _, view = pilot.look(np.array([t % 24.0]))
        choice = pilot.decide(view)
        pilot.accept(choice)
        pilot.learn(choice.action, np.array([t % 24.0]), cost(choice.action, (t % 24) / 24), choice.turn)
    model = pilot.model.models[0].models[0]
    assert model.posterior.prior.kernel.context_period == (24.0,)
    assert policy.fingerprint != recommended(LINE).fingerprint


def contexts_for(name, rounds=30):
    return 100.0 + np.arange(rounds) if "time" in name else np.linspace(0.0, 2.0, rounds)


SLOW = "history", "time and history"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in BRANCHES])
def test_every_branch_passes_the_conformance_check(name):
    if name == "a largest step":
        pytest.skip("the masks of the check may leave no action within the step; see the test below")
    hc.testing.check_policy(BRANCHES[name], contexts_for(name), start=4, seed=3)


@pytest.mark.parametrize("name", BRANCHES)
def test_a_recipe_makes_an_equal_policy_without_the_history(name):
    policy = BRANCHES[name]()
    text = json.dumps(recipe.describe(policy))
    assert "history" not in json.loads(text)["options"]
    again = recipe.make(json.loads(text))
    assert again.fingerprint == policy.fingerprint
    assert again.name == policy.name == "Recommended"
    assert repr(again) == repr(policy)


def test_a_record_of_it_can_be_verified_by_anybody(tmp_path):
    path = tmp_path / "plant.log"
    controller = hc.Controller(recommended(LINE, past(60)), start_index=4, seed=1, log=path)
    for context in np.linspace(0.1, 0.9, 8):
        decision = controller.ask(float(context))
        controller.tell(decision.id, float(cost(decision.action, context)))
    controller.close()
    assert hc.audit.verify(path).verified
    assert hc.replay(path, "gp-md").rounds == 8


def test_history_is_learned_and_fitted():
    policy = recommended(LINE, past(60))
    assert "kernel" not in policy.made_by[1]  # it goes on being fitted
    model = model_of(policy)
    assert model.noise_variance == pytest.approx(0.05**2, rel=1.25)
    assert model.posterior.observations == 60
    expected = model.costs_at_optimism([[0.25]], 0.0)[0]
    np.testing.assert_allclose(expected, cost(np.arange(9), 0.25), atol=0.15)
    begun = Pilot(policy, 8, 0)
    assert begun.decide(begun.look(0.25)[1]).action == 2  # nothing left to explore


def test_little_history_is_learned_and_the_kernel_goes_on_being_fitted():
    policy = recommended(LINE, past(ENOUGH_TO_FIT - 1))
    assert "kernel" not in policy.made_by[1]
    assert model_of(policy).posterior.observations == ENOUGH_TO_FIT - 1
    assert "refits it as measurements come in" in policy.explanation


def test_what_is_given_is_used():
    policy = recommended(LINE, past(60), kernel=KERNEL, noise_std=0.2)
    options = policy.made_by[1]
    assert (options["kernel"], options["noise_std"]) == (KERNEL, 0.2)
    assert options["prior_mean"] == pytest.approx(past(60).measurements.mean())
    assert recommended(LINE, past(60), kernel=KERNEL, prior_mean=3.0).made_by[1]["prior_mean"] == 3.0
    assert recommended(LINE, past(60), noise_std=0.2).made_by[1]["noise_std"] == 0.2


@pytest.mark.parametrize(
    ("options", "width"),
    [({}, LEARNED_WIDTH), ({"width": 2.0}, 2.0), ({"width": 0.5}, 0.5), ({"kernel": KERNEL}, WIDTH)],
    ids=["fitted", "a width", "a narrow width", "a kernel"],
)
def test_a_plan_hopes_for_less_where_its_kernel_is_fitted_and_the_promise_doubts_as_before(options, width):
    policy = recommended(LINE, past(20), **options)
    hedge, model = policy.costs.models[0], model_of(policy)
    assert hedge.seats[0][1] * model.width == pytest.approx(width)
    assert model.width == options.get("width", WIDTH)
    at = np.array([[0.3]])
    doubt = policy.costs.costs_at_optimism(at, 0.0) - policy.costs.costs_at_optimism(at, policy.rule_for(0).caution)
    whole = model.costs_at_optimism(at, 0.0) - model.costs_at_optimism(at, 1.0)
    np.testing.assert_allclose(doubt, whole, rtol=1e-12)


def test_the_fixed_action_is_the_best_one_in_the_contexts_of_the_history():
    """Judged by the model, not by plain means: here the best action was mostly tried when everything was dear."""
    rng = np.random.default_rng(1)
    contexts = np.repeat([0.0, 1.0], 60)
    actions = np.where((contexts > 0) ^ (rng.random(120) < 0.1), 4, rng.choice([0, 8], 120))
    y = np.abs(LINE.actions[actions, 0] - 0.5) + 3.0 * contexts + 0.01 * rng.standard_normal(120)
    kernel = hc.Kernel(RBF(0.5), RBF(2.0), variance=4.0)
    policy = recommended(LINE, hc.History(actions, contexts, y), kernel=kernel, noise_std=0.01)
    assert hc.fixed(LINE, hc.History(actions, contexts, y)).rule.home in (0, 8)
    assert policy.made_by[1]["fixed_setting_index"] == 4
    assert "fixed at 0.5" in policy.explanation


def test_time_plans_over_predictions_and_needs_a_kernel_or_history():
    policy = BRANCHES["time and history"]()
    assert policy.made_by[1]["method"] == "temporal"
    assert followed(policy).experts[0].describe()["interval"] == 2.0
    assert "plan over predicted costs" in repr(policy)
    with pytest.raises(
        InvalidInput, match=r"time=True needs a kernel .* at least 30 measurements to fit one to; got 0"
    ):
        recommended(LINE, time=True)
    assert recommended(LINE, kernel=IN_TIME, method="temporal").made_by[1]["time"] is True
    assert "It plans 12 rounds ahead" in policy.explanation
    for option in ({"period": 24.0}, {"context_scale": 0.2}):
        with pytest.raises(InvalidInput, match="for contexts that come back"):
            recommended(LINE, kernel=IN_TIME, time=True, **option)


def test_a_largest_step_is_never_exceeded():
    policy = BRANCHES["a largest step"]()
    assert len(followed(policy).experts) == 1
    assert "has no alternatives, because switching" in policy.explanation
    pilot, here = Pilot(policy, 0, 0), 0
    for context in np.random.default_rng(0).random(40):
        choice = pilot.decide(pilot.look(context)[1])
        pilot.accept(choice)
        assert LINE.distance(here, choice.action) <= 0.3
        here = choice.action
        pilot.learn(here, context, float(cost(here, context)))


def test_forecasts_are_heard_and_scored():
    controller = hc.Controller(recommended(LINE), start_index=4, seed=0)
    for t in range(12):
        decision = controller.ask(t % 3 / 3, forecast=[(t + k) % 3 / 3 for k in range(1, 5)])
        controller.tell(decision.id, float(cost(decision.action, t % 3 / 3)))
    state = operation_of(controller).session.pilot.state
    weight, forecast, chain = state.arrays["0.0.closeness"][0]  # the planner's, one round ahead
    assert forecast == pytest.approx(weight)  # they were all true
    assert chain < forecast
    with pytest.raises(InvalidInput, match="forecast must have 1 number per round"):
        controller.ask(0.0, forecast=[[0.1, 0.2, 0.3]])


def test_time_takes_no_forecast_and_says_so():
    controller = hc.Controller(BRANCHES["time"](), start_index=4, seed=0)
    with pytest.raises(InvalidInput, match="takes no forecast; leave out"):
        controller.ask(0.0, forecast=np.ones((3, 9)))
    assert not controller.pending
    assert controller.ask(0.0).round == 0
    assert "neither needs nor takes forecasts" in controller.policy.explanation


def test_it_says_what_it_was_given_what_it_chose_and_what_it_promises():
    words = recommended(LINE, past(60)).explanation
    for part in ("60 past measurements", "refits it as measurements come in", "nothing is promised about the true"):
        assert part in words
    assert "stays within 2 % of the bill of staying where it begins. If a move costs" in words
    assert "stays within" not in recommended(LINE, past(60), at_most=None).explanation
    in_time = BRANCHES["time and history"]().explanation
    assert "The kernel was fitted to the history: " in in_time
    assert ", noise_std " in in_time
    assert repr(recommended(LINE)) == f"Policy(Recommended: the planner, with GP-MD as an alternative, {LINE!r})"
    known = past(60, times=True)
    exact = hc.History(known.actions, known.contexts, np.sin(5 * LINE.actions[known.actions, 0]))
    assert (
        "The history does not determine part 2 variance, part 2 context length scale"
        in recommended(LINE, exact, time=True).explanation
    )
    assert "fixed at 0.5 as alternatives, Problem" in repr(recommended(LINE, past(60)))


def test_decisions_say_which_expert_was_followed(tmp_path):
    controller = hc.Controller(recommended(LINE, kernel=KERNEL), start_index=4, seed=0)
    decision = controller.ask(0.3)
    assert "It follows Planner (weights: Planner 100 %, GP-MD 0 %)." in controller.explain(decision.id).words
    controller.save(tmp_path / "state.zip")
    again = hc.Controller.load(tmp_path / "state.zip", recommended(LINE, kernel=KERNEL))
    assert again.explain(decision.id).words == controller.explain(decision.id).words


def test_errors():
    with pytest.raises(InvalidInput, match="option 'colour' is not known"):
        recommended(LINE, colour="red")
    with pytest.raises(InvalidInput, match="measurement 0 of the history belongs to action 9"):
        recommended(LINE, [(9, 0.0, 1.0)])
    with pytest.raises(InvalidInput, match="fixed_setting_index=9 is not an index"):
        recommended(LINE, fixed_setting_index=9)


def test_one_action_is_legal():
    pilot = Pilot(recommended(hc.Problem([3.0])), 0, 0)
    assert pilot.decide(pilot.look(0.1)[1]).action == 0


def test_a_prior_mean_per_action_or_of_zero_counts_as_given():
    problem = hc.Problem([0.0, 1.0, 2.0])
    for mean in (np.zeros(3), 0.0):
        policy = hc.recommended(problem, prior_mean=mean)
        assert "the prior mean" in policy.explanation
