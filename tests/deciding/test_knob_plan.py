"""Very many knobs: settings by groups, a cost that is a sum over them, a plan for each, all beside a controller."""

import json

import numpy as np
import pytest
from helpers.driving import state_of

import holdcourse as hc
from holdcourse.errors import InvalidInput, NoActionLeft, TooLarge
from holdcourse.learning.additive import MOST_WEIGHTS, AdditiveCosts
from holdcourse.movement.problem import Problem

CODECS = ["lz4", "zstd", "none"]


def three(**options):
    """A small one, whose combinations can be listed too."""
    return hc.knobs(
        a=hc.knob(range(4), per_unit=0.5),
        codec=hc.knob(CODECS, change=1.0, together="reload"),
        b=hc.knob([10, 20], change=2.0, together="reload"),
        **options,
    )


def test_ten_knobs_of_ten_values():
    many = hc.knobs(**{f"k{i}": hc.knob(range(10), change=1.0) for i in range(10)})
    assert (many.n, many.entries, len(many.parts)) == (10**10, 100, 10)
    value = {f"k{i}": float(i) for i in range(10)}
    action = many.index(value)
    assert many.value(action) == value
    assert many.text(action).startswith("k0 0, k1 1, k2 2")
    assert many.distance(action, many.index(value | {"k3": 7, "k9": 0})) == 2.0
    with pytest.raises(TooLarge, match=r"10,000,000,000 settings of hc.knobs\(...\) are not listed, which this needs"):
        _ = hc.planner(many)
    assert "not seen" in many.describe_in_words()


def test_groups_are_those_asked_for_and_those_turned_together():
    assert [group.axis_names for group in three().groups] == [("a",), ("codec", "b")]
    assert [group.axis_names for group in three(groups=[("a", "b")]).groups] == [("a", "codec", "b")]
    assert Problem.from_data(json.loads(json.dumps(three().describe()))).fingerprint == three().fingerprint
    with pytest.raises(InvalidInput, match="names 'x', which is not a knob"):
        three(groups=[("x",)])
    with pytest.raises(TooLarge, match="at most 1,000 can be planned together"):
        hc.knobs(groups=[("a", "b")], a=range(40), b=range(40))


def test_costs_and_settings_are_those_of_the_whole_grid():
    """What groups say of moves, masks and nearest settings, against the grid of all combinations."""
    many = three()
    whole = hc.Problem(
        hc.grid(
            a=hc.knob(range(4), per_unit=0.5),
            codec=hc.knob(CODECS, change=1.0, together="reload"),
            b=hc.knob([10, 20], change=2.0, together="reload"),
        )
    )
    rng = np.random.default_rng(0)
    for _ in range(40):
        i, j = (int(k) for k in rng.integers(whole.n, size=2))
        x, y = many.index(whole.value(i)), many.index(whole.value(j))
        assert many.distance(x, y) == whole.distance(i, j)
        mask = rng.random(many.entries) < 0.6
        if many.any_permitted(mask):
            permitted = np.array([many.permits(mask, many.index(whole.value(k))) for k in range(whole.n)])
            assert whole.distance(whole.nearest(i, permitted), i) == many.distance(many.nearest(x, mask), x)
        costs = rng.random(many.entries)
        assert many.read(costs, x) == pytest.approx(sum(costs[entry] for entry in many.entries_of(x)))


def test_the_posterior_is_that_of_one_gaussian_process_over_all_combinations():
    """Against a dense solve with the summed kernel, with beliefs that are given."""
    many = three()
    model = AdditiveCosts(many, context_bounds=(0.0, 1.0), noise_std=0.2, prior_mean=1.0, spread=0.7)
    rng = np.random.default_rng(1)
    told = [(int(rng.integers(many.n)), float(rng.random()), float(rng.normal())) for _ in range(7)]
    for action, context, y in told:
        model.learn(action, context, y)
    psi = model._psi(np.array([[c] for _, c, _ in told]))  # private, as _phi: nobody else needs the features
    level = model.beliefs.level**2 * psi @ psi.T
    places = np.array([many.within_groups(action) for action, _, _ in told])
    phis = model._phi  # as above
    K = level + sum((phi[p] @ phi[p].T) * (psi @ psi.T) for phi, p in zip(phis, places.T, strict=True))
    probe = model._psi(np.array([[0.4]]))  # as above
    alpha = np.linalg.solve(K + 0.04 * np.eye(7), np.array([y for *_, y in told]) - 1.0)
    expected = model.estimate(0.4).expected
    for action in range(many.n):
        own = np.array(many.within_groups(action))
        k = model.beliefs.level**2 * psi @ probe[0]
        k = k + sum((phi[p] @ phi[o]) * (psi @ probe[0]) for phi, p, o in zip(phis, places.T, own, strict=True))
        assert many.read(expected, action) == pytest.approx(1.0 + k @ alpha, abs=1e-9)


def planner():
    return hc.knob_planner(three(), context_bounds=(0.0, 1.0))


def test_it_is_fit_for_a_controller():
    hc.testing.check_policy(planner, np.random.default_rng(0).random(20), start=5)


def test_a_record_resumes_and_verifies(tmp_path):
    log, start = tmp_path / "knobs.log", {"a": 2, "codec": "lz4", "b": 10}
    played = {}
    for path, cut in ((log, 9), (tmp_path / "whole.log", None)):
        controller = hc.Controller(planner(), start=start, log=path)
        rng, played[path] = np.random.default_rng(3), []
        for t in range(20):
            if t == cut:
                controller.close()
                controller = hc.Controller(planner(), start=start, log=path)
            context, noise = rng.random(), rng.normal()
            decision = controller.ask(context, allowed={"codec": ["lz4", "zstd"]} if t % 4 == 3 else None)
            controller.tell(decision.id, (decision.value["a"] / 3 - context) ** 2 + 0.1 * noise)
            played[path].append(decision.action)
            assert t % 4 != 3 or decision.value["codec"] != "none"
        controller.close()
    assert played[log] == played[tmp_path / "whole.log"]
    found = hc.audit.verify(log)
    assert (found.decisions, found.differences) == (20, ())


def test_rounds_without_a_measurement_resume_to_the_last_bit(tmp_path):
    """What one round computed must not change the last digits of the next: another process does not know it."""
    alone = saved = hc.Controller(planner(), start={"a": 2, "codec": "lz4", "b": 10})
    for t, context in enumerate([0.5, 0.25, 0.5, 0.75, 0.25, 0.5, 1.0]):
        saved.save(tmp_path / "state")
        saved = hc.Controller.load(tmp_path / "state", planner())
        for each in (alone, saved):
            each.tell(each.ask(context, watching=True).id, 1.0 if t == 0 else None)
        assert state_of(saved) == state_of(alone)


def test_limits_by_knob_and_words():
    controller = hc.Controller(planner(), start={"a": 0, "codec": "lz4", "b": 10}, limits=hc.Limits(max_step={"a": 1}))
    before = 0.0
    for context in np.linspace(0.0, 1.0, 25):
        decision = controller.ask(context)
        assert abs(decision.value["a"] - before) <= 1.0
        before = decision.value["a"]
        controller.tell(decision.id, 4.0 * (3.0 - decision.value["a"]))
        words = controller.explain(decision.id).words
        assert "knobs as they are" in words or "turn " in words
    assert before > 0.0
    with pytest.raises(InvalidInput, match="context_bounds"):
        hc.Controller(hc.knob_planner(three()), start={"a": 0, "codec": "lz4", "b": 10}).ask(0.3)
    with pytest.raises(InvalidInput, match="max_step_cost does not apply to knobs in groups"):
        hc.Controller(planner(), start={"a": 0, "codec": "lz4", "b": 10}, limits=hc.Limits(max_step_cost=1.0))
    with pytest.raises(InvalidInput, match="allowed codec="):
        controller.ask(0.5, allowed={"codec": ["lzma"]})
    with pytest.raises(NoActionLeft):
        three().nearest(0, np.zeros(10, dtype=bool))


def test_a_saved_policy_has_what_was_learned(tmp_path):
    policy = planner()
    policy.costs.learn(3, 0.5, 2.0)
    policy.save(tmp_path / "knobs.policy")
    found = hc.load_policy(tmp_path / "knobs.policy")
    assert found.fingerprint == policy.fingerprint
    assert np.array_equal(found.costs.estimate(0.5).expected, policy.costs.estimate(0.5).expected)


def test_it_finds_which_knob_matters():
    """Six knobs, one of which matters: it is turned to where it is cheap, and the others seldom."""
    many = hc.knobs(**{f"k{i}": hc.knob(range(5), change=0.3) for i in range(6)})
    controller = hc.Controller(hc.knob_planner(many), start={f"k{i}": 0 for i in range(6)})
    rng = np.random.default_rng(0)
    for _ in range(80):
        decision = controller.ask()
        controller.tell(decision.id, 10.0 - decision.value["k2"] + 0.1 * rng.normal())
    assert decision.value["k2"] == 4.0
    assert max(controller.policy.costs.beliefs.groups) > 0  # that of the policy, which a run does not change


def test_one_group_is_enough():
    """All that is done with several groups: settings, steps, masks, limits and words."""
    both = hc.knobs(groups=[("a", "b")], a=hc.knob([1, 2, 3], change=1.0), b=hc.knob(["x", "y"], change=1.0))
    assert both.in_groups
    assert len(both.parts) == 1
    policy = hc.knob_planner(both, max_step={"a": 1})
    controller = hc.Controller(policy, start={"a": 1, "b": "x"}, limits=hc.Limits(max_step={"a": 1}))
    for _ in range(12):
        before = controller.setting
        decision = controller.ask(allowed={"b": ["x"]})
        assert abs(decision.value["a"] - before["a"]) <= 1
        assert decision.value["b"] == "x"
        controller.tell(decision.id, 10.0 - 3.0 * decision.value["a"])
    assert "knobs as they are" in controller.explain(decision.id).words


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        ({"a": ["z"]}, r"allowed a=\['z'\] must be a list of some of its values, \[0.0, 1.0, 2.0, 3.0\]"),
        ({"a": 5}, "allowed a=5 must be a list"),
        ({"a": None}, "allowed a=None must be a list"),
        ({"a": [[1]]}, r"allowed a=\[\[1\]\] must be a list"),
        ({"a": [float("nan")]}, "must be a list of some"),
        ({"a": [True]}, "must be a list of some"),
        ({"codec": "lz4"}, "allowed codec='lz4' must be a list"),
        ([[True], [True, False]], "allowed must list the values that may be chosen under the name of each knob, or"),
        ([True], "allowed must list the values that may be chosen under the name of each knob, or"),
    ],
)
def test_what_may_not_be_allowed(allowed, words):
    controller = hc.Controller(planner())
    with pytest.raises(InvalidInput, match=words):
        controller.ask(context=0.5, allowed=allowed)
    assert controller.round == 0


def test_allowed_numbers_are_the_same_within_rounding():
    tenths = hc.knobs(a=hc.knob([0.1, 0.2, 0.1 + 0.2], change=1.0))
    assert tenths.entries_allowed({"a": [0.3]}).tolist() == [False, False, True]


@pytest.mark.parametrize("groups", ["ab", ["a", "b"], [5], 5])
def test_groups_are_lists_of_names(groups):
    with pytest.raises(InvalidInput, match="groups must be lists of knobs that act on each other"):
        hc.knobs(groups=groups, a=hc.knob([1, 2], change=1.0), b=hc.knob([1, 2], change=1.0))


def test_what_needs_a_list_of_all_settings_is_refused_in_words():
    few = hc.knobs(a=hc.knob([1, 2], change=1.0), b=hc.knob([1, 2], change=1.0))
    for name in ("actions", "distances", "points", "blocks", "features", "diameter"):
        with pytest.raises(TooLarge, match=r"the 4 settings of hc.knobs\(...\) are not listed"):
            getattr(few, name)
    with pytest.raises(InvalidInput, match=r"a fleet does not support hc.knobs\(...\)"):
        hc.fleet(hc.knob_planner(few), 3)
    with pytest.raises(
        InvalidInput, match="max_step does not apply to 'codec', because its values have no order; leave it out"
    ):
        hc.knob_planner(three(), max_step={"codec": 1})
    with pytest.raises(InvalidInput, match="max_step does not apply to 'codec'"):
        hc.knob_planner(three(), max_step=[1.0] * 3)


def test_words_speak_of_gains_where_gains_are_told():
    controller = hc.Controller(hc.knob_planner(three(), context_bounds=(0.0, 1.0), maximise=True))
    for _ in range(3):
        decision = controller.ask(context=0.5)
        controller.tell(decision.id, 40.0)
    decision = controller.ask(context=0.5)
    controller.redirect({"a": 0, "codec": "lz4", "b": 20})
    words = controller.explain(decision.id).words
    assert "A round is then expected to gain 4" in words
    assert "Later in the round it was sent to a 0, codec lz4, b 20." in words


def test_with_many_contexts_a_knob_keeps_more_than_one_feature():
    """One feature of ten values can only rise or fall, and would never do better than the better end of each knob."""
    many = hc.knobs(**{f"k{i}": hc.knob(range(10), change=0.3) for i in range(10)})
    rng = np.random.default_rng(0)

    def best(context):
        return 4.5 + 3.0 * np.sin(9.0 * context[0]) * np.cos(7.0 * context[1] + np.arange(10))

    def cost(values, context):
        return float(((values - best(context)) ** 2).sum() / 20)

    model = AdditiveCosts(many, context_bounds=[(0.0, 1.0)] * 3)
    for _ in range(256):
        values, context = rng.integers(10, size=10), rng.random(3)
        model.learn(many.together(values.tolist()), context, cost(values, context) + 0.05 * rng.normal())
    lost, ends = [], []
    for context in rng.random((40, 3)):
        expected = model.estimate(context).expected
        lost.append(cost(np.array([np.argmin(expected[part]) for part in many.parts]), context))
        ends.append(cost(np.where(best(context) < 4.5, 0, 9), context))
    assert np.mean(lost) < np.mean(ends)


def test_there_are_at_most_so_many_weights():
    many = hc.knobs(**{f"k{i}": hc.knob(range(10), change=0.3) for i in range(10)})
    model = AdditiveCosts(many, context_bounds=[(0.0, 1.0)] * 4)
    assert model.state()["weights"].size <= MOST_WEIGHTS
