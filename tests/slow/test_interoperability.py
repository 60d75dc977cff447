"""With other people's libraries as they are: Xopt and Optimas drive, Stable-Baselines3 learns, BoTorch models.

``make test-interop`` installs them; where one is missing, its tests skip. The versions tried and what came of it are
in docs/how-to/other-libraries.md.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from helpers.pages import DOCS
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.worlds import plants

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning")]  # theirs, not ours

ROUNDS, FAILED = 80, 4  # in one round the machine does not answer


def library(name):
    return pytest.importorskip(name, reason=f'needs {name}: pip install "holdcourse[interop]"')


# -- a magnet that should follow the temperature -----------------------------------------------------------------------


def temperature(t):
    return 0.5 + 0.4 * math.sin(t / 5)


def measured(t, k1, heat):
    noise = 0.05 * np.random.default_rng(t).standard_normal()
    return math.nan if t == FAILED else (k1 - heat) ** 2 + noise


def valley():
    vocs = library("gest_api.vocs")
    return vocs.VOCS(variables={"k1": [0.0, 1.0], "temperature": "CONTEXTUAL"}, objectives={"size": "MINIMIZE"})


def generator(**options):
    """It reads the temperature of the next round whenever it is asked."""
    from holdcourse.ext.gest import CourseGenerator

    rounds = itertools.count()
    given = {"policy": hc.gp_md, "kernel": hc.Kernel(RBF(0.3), RBF(0.3)), "noise_std": 0.05, "scale": 0.02, "points": 5}
    return CourseGenerator(valley(), context=lambda: {"temperature": temperature(next(rounds))}, **(given | options))


def plain_course(later=0.0, rounds=ROUNDS):
    """The settings in a loop of our own; when it is measured, the temperature is `later` higher."""
    found, course = generator(), []
    for t in range(rounds):
        (point,) = found.suggest(1)
        heat = temperature(t) + later
        found.ingest([point | {"temperature": heat, "size": measured(t, point["k1"], heat)}])
        course.append(point["k1"])
    return course


def test_xopt_drives_the_generator(record_property):
    """The same course as in a plain loop, through a failed evaluation; the evaluator reports the temperature itself."""
    xopt, conditions = library("xopt"), library("xopt.stopping_conditions")
    rounds = itertools.count()

    def evaluate(inputs):
        t = next(rounds)
        if t == FAILED:
            raise RuntimeError("the machine is down")
        heat = temperature(t) + 0.01
        return {"temperature": heat, "size": measured(t, inputs["k1"], heat)}

    run = xopt.Xopt(
        generator=generator(suggest_context=False),
        evaluator=xopt.Evaluator(function=evaluate),
        strict=False,  # a failed evaluation is a row, not the end
        stopping_condition=conditions.MaxEvaluationsCondition(max_evaluations=ROUNDS),
    )
    run.run()
    assert list(np.flatnonzero(run.data["xopt_error"])) == [FAILED]
    assert run.data["k1"].tolist() == plain_course(later=0.01)
    late = run.data[ROUNDS // 2 :]
    followed, held = (float(((k1 - late["temperature"]) ** 2).mean()) for k1 in (late["k1"], 0.5))
    record_property("Xopt: mean size over that of the best held magnet", f"{followed / held:.2f}")
    assert followed < 0.5 * held


def test_rows_of_an_earlier_run_of_xopt_are_learned_without_their_ids():
    xopt = library("xopt")
    rounds = itertools.count()
    evaluator = xopt.Evaluator(function=lambda point: {"size": measured(next(rounds), point["k1"], 0.5)})
    earlier = xopt.Xopt(generator=generator(), evaluator=evaluator)
    for _ in range(FAILED):
        earlier.step()
    fresh, taught = generator(), generator()
    with pytest.raises(ValueError, match="ingested without _id"):
        taught.ingest(earlier.data.to_dict("records"))
    taught.ingest(earlier.data.drop(columns="_id").to_dict("records"))
    guesses, knows = (one.explain(one.suggest(1)[0]["_id"]).std for one in (fresh, taught))
    assert knows.min() < guesses.min() / 2


@pytest.mark.parametrize("workers", ["threads", "local"])
def test_optimas_drives_the_generator(workers, tmp_path, monkeypatch):
    """The same course as in a plain loop, with its worker as a thread and as a process."""
    generators, evaluators = library("optimas.generators"), library("optimas.evaluators")
    explorations = library("optimas.explorations")
    monkeypatch.chdir(tmp_path)
    when = {temperature(t): t for t in range(ROUNDS)}

    def evaluate(inputs, outputs):
        heat = float(inputs["temperature"])
        outputs["size"] = measured(when[heat], float(inputs["k1"]), heat)

    outer = generators.ExternalGenerator(ext_gen=generator(), vocs=valley())
    run = explorations.Exploration(
        generator=outer, evaluator=evaluators.FunctionEvaluator(function=evaluate), max_evals=ROUNDS, libe_comms=workers
    )
    run.run()
    assert list(np.flatnonzero(run.history["trial_status"] == "FAILED")) == [FAILED]
    assert run.history["k1"].tolist() == plain_course()
    assert outer.gen.pending == []


# -- an agent of reinforcement learning --------------------------------------------------------------------------------


def test_an_agent_of_stable_baselines_learns_in_our_environment(record_property):
    """6,000 rounds of DQN, then ten days that it has not seen: cheaper than the best setting that is held."""
    torch, stable = library("torch"), library("stable_baselines3")
    checker = library("stable_baselines3.common.env_checker")
    from holdcourse.ext.gymnasium import PolicyAgent, WorldEnv

    torch.set_num_threads(1)
    world = hc.SyntheticWorld.sample(seed=3, grid=[5], contexts=6)
    env = WorldEnv(world, lambda seed: world.context_sequence("daily", rounds=96, seed=seed), context_bounds=(0.0, 1.0))
    checker.check_env(env)

    def bill(act, end=lambda info: None):
        paid = 0.0
        for seed in range(1000, 1010):
            observation, info = env.reset(seed=seed)
            done = False
            while not done:
                observation, _, _, done, info = env.step(act(observation, info))
                paid += info["service"] + info["movement"]
            end(info)
        return paid / 10

    agent = stable.DQN(
        "MultiInputPolicy",
        env,
        learning_rate=1e-3,
        learning_starts=500,
        target_update_interval=250,
        exploration_fraction=0.5,
        gamma=0.9,
        device="cpu",
        seed=0,
    )
    agent.learn(6000)
    learned = bill(lambda observation, info: int(agent.predict(observation, deterministic=True)[0]))
    held = min(bill(lambda observation, info, k=k: k) for k in range(world.problem.n))
    ours = PolicyAgent(hc.recommended(world.problem))
    untrained = bill(ours.act, ours.end)
    for name, figure in (("DQN after 6,000 rounds", learned), ("best held", held), ("recommended, from 0", untrained)):
        record_property(f"daily world, mean bill of an episode: {name}", f"{figure:.2f}")
    assert learned < 0.97 * held
    assert untrained < held


# -- a model of BoTorch ------------------------------------------------------------------------------------------------


def test_a_model_of_botorch_decides_on_a_plant(record_property):
    """Fitted to the operators' two weeks, conditioned on every reading of the week after: it saves."""
    torch, models, fit = library("torch"), library("botorch.models"), library("botorch.fit")
    transforms, mlls = library("botorch.models.transforms"), library("gpytorch.mlls")
    from holdcourse.ext.botorch import BotorchCosts

    torch.manual_seed(0)
    case = plants.PLANTS["chiller"].case(seed=1000, rounds=168)
    past = case.history
    inputs = np.hstack([case.problem.actions[past.actions], past.contexts])
    model = models.SingleTaskGP(
        torch.as_tensor(inputs),
        torch.as_tensor(past.measurements[:, None]),
        input_transform=transforms.Normalize(inputs.shape[1]),
        outcome_transform=transforms.Standardize(1),
    )
    fit.fit_gpytorch_mll(mlls.ExactMarginalLogLikelihood(model.likelihood, model))
    costs = BotorchCosts(case.problem, model, width=0.0)
    policy = hc.Policy("botorch", hc.rules.Greedy(case.problem), costs, case.problem)
    run = plants.operate(policy, case)
    saved = 1 - run.bill / case.stay.total
    record_property("chiller, first week: BoTorch's model saves against staying", f"{100 * saved:.1f} %")
    assert saved > 0.02
    assert len(np.unique(run.actions)) > 3


# -- the page ----------------------------------------------------------------------------------------------------------


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    """Its blocks that need these libraries; the others run with every page, in tests/test_docs.py."""
    for name in ("xopt", "optimas", "stable_baselines3", "botorch"):
        library(name)
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "how-to" / "other-libraries.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names = {"__name__": "__main__"}
    exec(compile("\n".join(blocks), "other-libraries.md", "exec"), names)
    assert len(names["run"].data) == len(names["exploration"].history) == 20
