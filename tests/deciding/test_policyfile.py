"""A policy as a file: saved, read back, and never misread."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse import archive
from holdcourse.deciding import registry
from holdcourse.deciding.policyfile import FORMAT, Evidence, PolicyFile
from holdcourse.errors import DamagedFile, HoldcourseError, InvalidInput
from holdcourse.wakes.learning import wake_learner
from holdcourse.wakes.planning import wake_planner
from holdcourse.wind.physics import table_curve, wind_world
from holdcourse.wind.policy.policies import Past, Setting, policy_of

GOLDEN = Path(__file__).parents[1] / "data" / "site.policy"
GOLDEN_DECISIONS = GOLDEN.with_suffix(".decisions.json")

LINE = hc.Problem([0.0, 1.0, 3.0, 4.5], scale=2.0, fixed_cost=0.5, labels=["off", "low", "mid", "high"])
GRID = hc.Problem(hc.grid(workers=[1, 2], cache=[64, 256]), metric="cityblock", scale=[1.0, 0.01])
KNOBS = hc.knobs(workers=hc.knob([1, 2, 4], change=1.0), codec=hc.knob(["lz4", "zstd"], change=0.2))
KERNEL = hc.Kernel(RBF(0.9), RBF(0.5))
RANDOM = np.random.default_rng(5)
PAST = [
    (int(action), float(context), float(2.0 + action * context + 0.1 * RANDOM.standard_normal()))
    for action, context in zip(RANDOM.integers(0, 4, 60), RANDOM.random(60), strict=True)
]
ALTITUDES = np.array([50.0, 120.0, 200.0, 320.0])
EVIDENCE = Evidence(
    "plant.csv", {"plant.csv": "ab" * 32}, "cd" * 32, "60 readings", "40 readings", False, "yes", "Pays."
)


def wind(hours, seed):
    random = np.random.default_rng(seed)
    tilt = np.zeros(hours)
    for t in range(1, hours):
        tilt[t] = 0.9 * tilt[t - 1] + 1.5 * random.standard_normal()
    return np.maximum(8.0 + tilt[:, None] * np.linspace(-1, 1, 4) + 0.1 * random.standard_normal((hours, 4)), 0.1)


def setting(past_hours=400, **world):
    time = np.datetime64("2021-03-01T00", "s") + np.arange(80) * np.timedelta64(3600, "s")
    made = wind_world(time, ALTITUDES, wind(80, 1), **({"movement": "physical"} | world))
    before = 440000.0 + np.arange(past_hours)
    past = Past(before % 24, wind(past_hours, 2), before) if past_hours else None
    return Setting(made, past)


TABLE = {"curve": table_curve([3.0, 8.0, 12.0, 25.0], [0.0, 40.0, 100.0, 90.0]), "movement": (0.02, 0.005), "rho": 2.0}


def farm(make):
    """A policy of the bundled wind farm, from a few days of its wind."""
    table = hc.wakes.bundled_table()
    rounds = hc.wakes.bundled_record().between("2014-01-03", "2014-01-09").rounds()
    return make(table, hc.wakes.learn_drift(rounds, table.directions, table.speeds), 0.1)


POLICIES = {
    "gp-md": lambda: hc.gp_md(LINE, kernel=KERNEL, history=PAST, tree_seed=3),
    "gp-md fitted": lambda: hc.gp_md(LINE, history=PAST),
    "cgp-lcb": lambda: hc.cgp_lcb(LINE, kernel=KERNEL, history=PAST, maximise=True, guard=hc.OutlierGuard(3.0)),
    "gp-md on a grid": lambda: hc.gp_md(GRID, kernel=hc.Kernel(RBF([1.0, 100.0]), RBF(0.5))),
    "proximal-lcb": lambda: hc.proximal_lcb(LINE, kernel=KERNEL, every="episode", method="exact"),
    "planner": lambda: hc.planner(LINE, kernel=KERNEL, history=PAST, period=24.0),
    "planner fitted": lambda: hc.planner(LINE, history=PAST),
    "planner-known": lambda: hc.planner_known(LINE),
    "md-known": lambda: hc.md_known(LINE, kappa=2.0),
    "minc-known": lambda: hc.minc_known(LINE),
    "stationary": lambda: hc.stationary(LINE),
    "fixed": lambda: hc.fixed(LINE, PAST),
    "fixed-at": lambda: hc.fixed_at(LINE, "mid"),
    "recommended": lambda: hc.recommended(LINE),
    "recommended with history": lambda: hc.recommended(LINE, PAST, baseline="history"),
    "recommended with baseline": lambda: hc.recommended(
        LINE, PAST, kernel=KERNEL, baseline=hc.gp_md(LINE, kernel=KERNEL, history=PAST[:20]), at_most=0.1, budget=2.0
    ),
    "recommended without promise": lambda: hc.recommended(LINE, PAST, at_most=None, max_step=4.0),
    "hedged": lambda: hc.hedged([hc.planner(LINE, history=PAST), hc.gp_md(LINE, kernel=KERNEL), hc.stationary(LINE)]),
    "operators": lambda: registry.entry_of("operators").maker("plants")(LINE, 1),
    "table": lambda: registry.entry_of("table").maker("plants")(LINE, [[0.3, 0.6]], hc.History.from_triples(PAST)),
    "stay": lambda: registry.entry_of("stationary").maker("plants")(LINE, 1),
    "gp-md-1": lambda: registry.entry_of("gp-md-1").maker("cells")(LINE, history=PAST),
    **{f"wind {name}": (lambda name=name: policy_of(name)(setting())) for name in registry.names("wind")},
    "wind wind-planner, other machine": lambda: policy_of("wind-planner")(setting(**TABLE)),
    "wind wind-planner, no history": lambda: policy_of("wind-planner")(setting(0)),
    "wind wind-planner, short history": lambda: policy_of("wind-planner")(setting(48)),
    "wind gp-md fitted": lambda: policy_of("gp-md")(setting().fitted()),
    "wake-planner": lambda: farm(wake_planner),
    "wake-learner": lambda: farm(wake_learner),
    "knob-planner": lambda: hc.knob_planner(KNOBS, context_bounds=(0.0, 30.0)),
    "trial": lambda: hc.trial(hc.gp_md(LINE, history=PAST), hc.planner(LINE, history=PAST), block=3),
    "trial of wind": lambda: hc.trial(policy_of("wind-planner")(setting()), block=2, blocks=4),
    "hedged wind": lambda: hc.hedged([policy_of("wind-planner")(setting()), policy_of("stationary")(setting())]),
}


def decisions(policy, rounds=40, seed=3):
    """Actions, probabilities and expected costs of a scripted run, to the last bit."""
    random, found = np.random.default_rng(seed), []
    in_time = "Lookahead" in json.dumps(policy.rule.describe())
    controller = hc.Controller(policy, start_index=1, seed=7)
    for t in range(rounds):
        context = 440500.0 + t if in_time else float(random.random())
        if policy.name.startswith("Wake"):  # direction in degrees, speed in m/s, day of the year
            context = [360.0 * context, 8.0, 20.0]
        given = {"costs": random.normal(size=policy.problem.n)} if policy.costs.needs_costs else {}
        decision = controller.ask(context, **given)
        found.append((decision.action, decision.probabilities.tobytes().hex(), repr(decision.expected_cost)))
        controller.tell(decision.id, float(8.0 + random.normal()) if random.random() < 0.9 else None)
    return found


def test_every_policy_of_the_table_is_tried():
    made = {name.removeprefix("wind ").split(",")[0].split(" ")[0] for name in POLICIES}
    of_cells = {"planner-forecast", "planner-shuffled"}  # made by the same function as planner
    knowing = set(registry.names(shown=("hindsight",)))  # no policies: known only afterwards
    assert set(registry.names()) - of_cells - knowing <= made


@pytest.mark.parametrize("name", POLICIES)
def test_a_saved_policy_is_the_same_policy(name, tmp_path):
    policy = POLICIES[name]()
    policy.save(tmp_path / "site.policy", limits=hc.Limits(min_dwell=2), units={"action": "m"}, evidence=EVIDENCE)
    again = hc.load_policy(tmp_path / "site.policy")
    assert (again.name, again.explanation, again.fingerprint) == (policy.name, policy.explanation, policy.fingerprint)
    assert (again.limits, again.units) == (hc.Limits(min_dwell=2).describe(), {"action": "m"})
    assert again.evidence == EVIDENCE
    assert again.problem.labels == policy.problem.labels
    assert decisions(again) == decisions(replace(policy, limits=again.limits))
    again.save(tmp_path / "again.policy")
    assert (tmp_path / "again.policy").read_bytes() == (tmp_path / "site.policy").read_bytes()


def test_what_was_learned_while_running_is_not_lost(tmp_path):
    policy = hc.planner(LINE)
    for action, context, y in PAST:
        policy.costs.learn(action, context, y)
    policy.save(tmp_path / "mill.policy")
    assert decisions(hc.load_policy(tmp_path / "mill.policy")) == decisions(policy)


def test_a_controller_begins_with_the_limits_of_the_file(tmp_path):
    hc.gp_md(LINE).save(tmp_path / "a.policy", limits=hc.Limits(max_step=2.0, max_moves=1, window=5))
    policy = hc.load_policy(tmp_path / "a.policy")
    assert hc.Controller(policy).limits == hc.Limits(max_step=2.0, max_moves=1, window=5)
    assert hc.Controller(policy, limits=hc.Limits()).limits == hc.Limits()


# -- files that are not whole ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "mill.policy"
    hc.gp_md(LINE, kernel=KERNEL, history=PAST).save(path, evidence=EVIDENCE)
    return path.read_bytes()


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_file_cut_short_at_any_byte_is_refused(content, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "mill.policy"
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(DamagedFile, match=r"mill\.policy"):
        hc.load_policy(path)


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_noticed_or_changes_nothing(content, place, mask):
    changed = bytearray(content)
    changed[int(place * len(content))] ^= mask
    try:
        read = PolicyFile.read(bytes(changed), "mill.policy")
    except HoldcourseError:
        with pytest.raises((DamagedFile, InvalidInput), match=r"mill\.policy"):
            PolicyFile.read(bytes(changed), "mill.policy")
    else:  # a date or an attribute of the container
        assert read.to_bytes() == content


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_anything_else_is_refused(noise):
    with pytest.raises(DamagedFile):
        PolicyFile.read(noise, "noise")


def changed(content, **parts):
    state, arrays = archive.unpack(content, "x")
    return archive.pack(state | parts, arrays)


def test_another_format_is_refused(content):
    for number in (FORMAT + 1, 0, "1", None):
        with pytest.raises(InvalidInput, match=r"old\.policy is a policy in format .*reads format 1; use the version"):
            PolicyFile.read(changed(content, format=number), "old.policy")


@pytest.mark.parametrize(
    "parts",
    [
        {"recipe": {}},
        {"recipe": {"policy": 3, "options": {}, "problem": {}}},
        {"name": None},
        {"limits": 3},
        {"evidence": {"source": "x"}},
        {"evidence": Evidence().to_data() | {"files": []}},
        {"other": 1},
        {"versions": None},
        {"units": {"action": 3}},
        {"units": {"magic": "m"}},
        {"evidence": Evidence().to_data() | {"figures": {"saved": []}}},
    ],
    ids=str,
)
def test_parts_that_are_wrong_are_refused(content, parts):
    with pytest.raises(DamagedFile, match=r"mill\.policy"):
        PolicyFile.read(changed(content, **parts), "mill.policy")


@pytest.mark.parametrize("method", ["exact", "flat", "capped"])
def test_what_was_learned_must_fit_together(method, tmp_path):
    """Arrays that somebody has changed, with a checksum of their own, are refused when the file is read."""
    options = {"method": method if method != "capped" else "flat"}
    if method == "flat":
        options["context_bounds"] = [[0.0, 1.0]]
    hc.gp_md(LINE, kernel=KERNEL, noise_std=0.1, history=PAST, **options).save(tmp_path / "mill.policy")
    state, arrays = archive.unpack((tmp_path / "mill.policy").read_bytes(), "x")
    large = [name for name, array in arrays.items() if array.size > 3 and name.startswith("posterior.")]
    assert len(large) > 4
    for name in large:
        array = arrays[name]
        for wrong in (
            array[:-1],
            array[None],
            np.full_like(array, 10**9) if array.dtype.kind == "i" else array * np.nan,
        ):
            content = archive.pack(state, arrays | {name: wrong})
            try:
                policy = PolicyFile.read(content, "mill.policy").policy()
            except HoldcourseError:
                continue
            controller = hc.Controller(policy)  # nothing that matters: it goes on
            controller.tell(controller.ask(context=0.4).id, 2.0)
            assert np.isfinite(controller.ask(context=0.9).expected_cost)


@pytest.mark.parametrize(
    "recipe",
    [
        {"policy": "magic"},
        {"policy": "gp-md", "options": {"kernel": "auto"}},
        {"policy": "gp-md", "options": {"kernel": 3}},
        {"policy": "gp-md", "options": {"kernel": "{}"}},
        {"policy": "gp-md", "options": {"magic": 1}},
        {"policy": "gp-md", "options": {"interval_map": {"map": "os"}}},
        {"policy": "hedged", "options": {"policies": 3, "patience": 1.0}},
        {"policy": "hedged", "options": {"policies": [{"policy": "gp-md"}], "patience": 1.0}},
        {"policy": "wind-planner"},
        {"policy": "wind-planner", "options": {"wind": {"altitudes": [1.0, 2.0, 3.0, 4.0]}}},
        {"problem": {}},
        {"problem": {"actions": "x"}},
        {"policy": "fixed-at", "options": {"action": 99}},
    ],
    ids=str,
)
def test_recipes_of_somebody_else_are_refused_in_a_sentence(content, recipe):
    state, _ = archive.unpack(content, "x")
    file = PolicyFile.read(changed(content, recipe=state["recipe"] | recipe), "mill.policy")
    with pytest.raises(InvalidInput, match=r"mill\.policy"):
        file.policy()


def test_a_controllers_state_is_no_policy(tmp_path, content):
    controller = hc.Controller(hc.gp_md(LINE))
    controller.save(tmp_path / "state")
    with pytest.raises(InvalidInput, match="contains the state of a controller, not a policy"):
        hc.load_policy(tmp_path / "state")
    (tmp_path / "mill.policy").write_bytes(content)
    with pytest.raises(InvalidInput, match="contains a policy, not the state of a controller"):
        hc.Controller.load(tmp_path / "mill.policy", hc.gp_md(LINE))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot read .*none\.policy"):
        hc.load_policy(tmp_path / "none.policy")


# -- code that is not ours ---------------------------------------------------------------------------------------------

MINE = '''
import numpy as np
import holdcourse as hc

print("mine.py was run")


class Stubborn:
    """Remembers how often it was told something, and moves on after so many."""

    needs_costs = False

    def __init__(self, problem, every):
        self.problem, self.every, self.told = problem, every, 0

    def estimate(self, context, shown=None):
        costs = np.roll(np.arange(float(self.problem.n)), self.told // self.every)
        return hc.costs.Estimate(costs, costs)

    def costs_at(self, contexts):
        return np.array([self.estimate(context).costs for context in np.atleast_2d(contexts)])

    def learn(self, action, context, measurement):
        self.told += 1
        return 1.0

    def new_episode(self):
        pass

    def copy(self):
        twin = Stubborn(self.problem, self.every)
        twin.told = self.told
        return twin

    def state(self):
        return {"told": np.array([self.told])}

    def restore(self, arrays):
        self.told = int(arrays["told"][0])
        return self

    def describe(self):
        return {"model": "Stubborn", "every": self.every}


def mine(problem, every=3):
    return hc.Policy("mine", hc.rules.Greedy(problem), Stubborn(problem, every), problem)


def wrapped(problem):
    return hc.gp_md(problem, tau=6.0)
'''


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:mine"


def test_a_policy_of_ones_own_is_kept_by_its_import_path(own, tmp_path):
    policy = registry.make(own, LINE, every=2)
    for _ in range(3):
        policy.costs.learn(0, 0.0, 1.0)
    policy.save(tmp_path / "mine.policy")
    file = PolicyFile.read(tmp_path / "mine.policy")
    assert file.code == (own,)
    again = hc.load_policy(tmp_path / "mine.policy", trust=own)
    assert again.fingerprint == policy.fingerprint
    assert again.costs.told == 3
    assert decisions(again) == decisions(policy)


@pytest.mark.parametrize("trust", [(), "other.py:mine", ["os:system"]])
def test_code_of_a_file_is_run_only_where_it_is_trusted(own, tmp_path, trust):
    registry.make(own, LINE).save(tmp_path / "mine.policy")
    with pytest.raises(
        InvalidInput, match=r"mine\.py:mine', code that is not part of holdcourse and would be run.*trust='"
    ):
        hc.load_policy(tmp_path / "mine.policy", trust=trust)


@pytest.mark.parametrize("trust", [True, None, [3]])
def test_trust_is_given_by_name(own, tmp_path, trust):
    registry.make(own, LINE).save(tmp_path / "mine.policy")
    with pytest.raises(InvalidInput, match=r"trust must name import paths, such as trust='mine\.py:mine', got "):
        hc.load_policy(tmp_path / "mine.policy", trust=trust)


def test_reading_a_file_runs_nothing(own, tmp_path):
    registry.make(own, LINE).save(tmp_path / "mine.policy")
    code = f"""
import holdcourse as hc
from holdcourse.deciding.policyfile import PolicyFile
file = PolicyFile.read({str(tmp_path / "mine.policy")!r})
assert file.code and file.problem.n == 4
try:
    file.policy()
except hc.errors.InvalidInput:
    print("refused")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout == "refused\n"


def test_code_hidden_in_an_expert_or_a_baseline_is_code_too(own, content):
    state, _ = archive.unpack(content, "x")
    expert = {"policy": own, "options": {}}
    for options in ({"policies": [expert], "patience": 1.0}, {"baseline": expert}):
        name = "hedged" if "policies" in options else "recommended"
        file = PolicyFile.read(changed(content, recipe=state["recipe"] | {"policy": name, "options": options}), "evil")
        assert file.code == (own,)
        with pytest.raises(InvalidInput, match="code that is not part of holdcourse"):
            file.policy()


def test_a_function_that_makes_another_policy_by_now_is_noticed(own, tmp_path):
    registry.make(own, LINE).save(tmp_path / "mine.policy")
    other = tmp_path / "later.py"
    other.write_text(MINE.replace('"model": "Stubborn"', '"model": "Stubborn, second edition"'))
    state, arrays = archive.unpack((tmp_path / "mine.policy").read_bytes(), "x")
    state["recipe"]["policy"] = f"{other}:mine"
    (tmp_path / "later.policy").write_bytes(archive.pack(state, arrays))
    with pytest.raises(InvalidInput, match="is not the policy that was saved"):
        hc.load_policy(tmp_path / "later.policy", trust=f"{other}:mine")


def test_a_function_that_wraps_one_of_ours_needs_no_trust(own, tmp_path):
    registry.make(own.replace(":mine", ":wrapped"), LINE).save(tmp_path / "wrapped.policy")
    assert hc.load_policy(tmp_path / "wrapped.policy").made_by[0] == "gp-md"


# -- what cannot be saved ----------------------------------------------------------------------------------------------


def test_what_only_python_knows_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "mine.policy"
    nameless = hc.Policy("mine", hc.rules.Greedy(LINE), hc.costs.KnownCosts(LINE), LINE)
    with pytest.raises(InvalidInput, match=r"not known what made mine.*registry\.make"):
        nameless.save(path)
    with pytest.raises(InvalidInput, match="prior_mean is a function"):
        hc.gp_md(LINE, prior_mean=lambda actions, context: 0.0).save(path)
    with pytest.raises(InvalidInput, match="not the policy that was saved"):
        replace(hc.gp_md(LINE), rule=hc.rules.Greedy(LINE)).save(path)
    with pytest.raises(InvalidInput, match="no unit of 'speed'"):
        hc.gp_md(LINE).save(path, units={"speed": "m/s"})
    with pytest.raises(InvalidInput, match="cannot be written to a file; give labels"):
        hc.gp_md(hc.Problem([0.0, 1.0], labels=[object(), object()])).save(path)
    assert not path.exists()


def test_the_old_file_stays_where_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "mill.policy"
    hc.gp_md(LINE).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(HoldcourseError, match="No space left"):
        hc.gp_md(LINE, history=PAST).save(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["mill.policy"]


# -- a file of an earlier day ------------------------------------------------------------------------------------------


def test_the_file_of_an_earlier_day_is_read_right_or_refused(tmp_path):
    """Written once by `write_golden` below; a version that cannot read it must say so."""
    shutil.copy(GOLDEN, tmp_path / "site.policy")
    if FORMAT != 1:
        with pytest.raises(InvalidInput, match="is a policy in format 1, but this version"):
            hc.load_policy(tmp_path / "site.policy")
        return
    policy = hc.load_policy(tmp_path / "site.policy")
    expected = json.loads(GOLDEN_DECISIONS.read_text())
    assert policy.name == expected["name"]
    assert policy.evidence == EVIDENCE
    found = decisions(policy)
    assert [action for action, _, _ in found] == expected["actions"]
    costs = [float(cost) for _, _, cost in found]
    np.testing.assert_allclose(costs, expected["costs"], rtol=1e-6)


def write_golden():
    """Write the golden file: only where the number of the format goes up."""
    policy = policy_of("wind-planner")(setting())
    policy.save(GOLDEN, limits=hc.Limits(min_dwell=2), units={"action": "m"}, evidence=EVIDENCE)
    found = decisions(hc.load_policy(GOLDEN))
    expected = {"name": policy.name, "actions": [a for a, _, _ in found], "costs": [float(c) for _, _, c in found]}
    GOLDEN_DECISIONS.write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    write_golden()
