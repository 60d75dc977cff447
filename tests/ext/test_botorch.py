"""BoTorch models as cost models. All but the first tests need the extra, and skip without it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import InvalidInput, MissingExtra
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.testing.parts import check_cost_model

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch says about its own use by GPyTorch
        import botorch
        import gpytorch
        import torch

        from holdcourse.ext.botorch import BotorchCosts
except ImportError:
    botorch = None

needs_botorch = pytest.mark.skipif(botorch is None, reason='needs BoTorch: pip install "holdcourse[botorch]"')

LINE = hc.Problem(np.linspace(0.0, 5.0, 7))
CONTEXTS = np.linspace(0.2, 4.8, 8)
NOISE = 0.05


@pytest.mark.parametrize("missing", ["torch", "gpytorch"])
def test_importing_without_the_extra_names_the_command(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "holdcourse.ext.botorch", raising=False)
    with pytest.raises(MissingExtra, match=re.escape('pip install "holdcourse[botorch]"')) as caught:
        importlib.import_module("holdcourse.ext.botorch")
    assert isinstance(caught.value, ImportError)


def test_nothing_else_imports_torch():
    code = "import sys, holdcourse.ext, holdcourse.learning.costs, holdcourse.testing; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def data(t=20, seed=0):
    rng = np.random.default_rng(seed)
    actions, contexts = rng.integers(LINE.n, size=t), rng.uniform(0.0, 5.0, size=t)
    y = 7.0 + 3.0 * np.sin(LINE.actions[actions, 0] + contexts) + NOISE * rng.normal(size=t)
    return actions, contexts, y


def tensors(actions, contexts, y):
    inputs = np.stack([LINE.actions[actions, 0], contexts], axis=1)
    return torch.as_tensor(inputs), torch.as_tensor(y)[:, None]


def single_task(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # inputs are not scaled to the unit cube, on purpose
        return botorch.models.SingleTaskGP(*tensors(*data()), **options)


def plain():
    """The same prior as ours: squared exponential, variance 9, mean 7, noise 0.05."""
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    model = single_task(covar_module=kernel, mean_module=gpytorch.means.ConstantMean(), outcome_transform=None)
    return ours(model)


def ours(model):
    model.covar_module.outputscale = 9.0
    model.covar_module.base_kernel.lengthscale = 1.3
    model.likelihood.noise = NOISE**2
    model.mean_module.constant.data.fill_(7.0)
    return model.to(torch.float64)


def transformed():
    transforms = botorch.models.transforms
    return single_task(input_transform=transforms.Normalize(2), outcome_transform=transforms.Standardize(1))


def known_noise():
    _, outputs = tensors(*data())
    return single_task(train_Yvar=torch.full_like(outputs, NOISE**2))


def gpytorch_only():
    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self, inputs, targets):
            super().__init__(inputs, targets, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, inputs):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    inputs, outputs = tensors(*data())
    return ours(ExactGP(inputs, outputs[:, 0]))


def our_posterior(more=()):
    kernel = Kernel(RBF(1.3), RBF(1.3), 9.0)
    past = list(zip(*(column.tolist() for column in data()), strict=True)) + list(more)
    return posterior(LINE, kernel, NOISE, 7.0, method="exact", history=past)


def some_records(t=12):
    return list(zip(*(column.tolist() for column in data(t, seed=1)), strict=True))


@needs_botorch
@pytest.mark.parametrize("make", [lambda: plain(), lambda: gpytorch_only()], ids=["botorch", "gpytorch"])
def test_equals_our_own_posterior_before_and_after_learning(make):
    costs, records = BotorchCosts(LINE, make(), width=1.5), some_records()
    for told in ([], records):
        for record in told:
            assert costs.learn(*record) == 1.0
        for context in (0.3, *data()[1][:2]):  # also where it was measured
            mean, std = our_posterior(told).predict(context)
            estimate = costs.estimate(context)
            np.testing.assert_allclose(estimate.mean, mean, atol=1e-6)
            np.testing.assert_allclose(estimate.std, std, atol=1e-6)
            np.testing.assert_allclose(estimate.costs, mean - 1.5 * std, atol=1e-6)
            np.testing.assert_array_equal(estimate.expected, estimate.mean)


@needs_botorch
def test_maximise_turns_gains_into_costs():
    model = plain()
    gain = BotorchCosts(LINE, model, maximise=True).estimate(0.3)
    np.testing.assert_allclose(gain.costs, -(gain.mean + 2.0 * gain.std))
    np.testing.assert_array_equal(gain.expected, -gain.mean)


@needs_botorch
@pytest.mark.parametrize("name", ["plain", "transformed", "known_noise", "gpytorch_only"])
def test_conforms(name):
    options = {"noise_std": NOISE} if name == "known_noise" else {}
    check_cost_model(lambda: BotorchCosts(LINE, globals()[name](), **options), LINE, CONTEXTS)


@needs_botorch
def test_conforms_when_frozen_and_then_learns_nothing():
    check_cost_model(lambda: BotorchCosts(LINE, plain(), frozen=True), LINE, CONTEXTS)
    costs = BotorchCosts(LINE, plain(), frozen=True)
    before = costs.estimate(0.3).costs
    costs.learn(0, 0.3, 100.0)
    np.testing.assert_array_equal(costs.estimate(0.3).costs, before)


@needs_botorch
def test_known_noise_counts_in_units_of_the_measurement():
    """A noisy measurement moves the mean less, by the factor that its variance says, under a Standardize transform."""
    variance = BotorchCosts(LINE, known_noise(), frozen=True).estimate(0.3).std[2] ** 2
    moves = []
    for noise_std in (0.5, 2.0):
        costs = BotorchCosts(LINE, known_noise(), noise_std=noise_std)
        before = costs.estimate(0.3).mean[2]
        costs.learn(2, 0.3, before + 1.0)
        moves.append(costs.estimate(0.3).mean[2] - before)
    np.testing.assert_allclose(moves, [variance / (variance + 0.25), variance / (variance + 4.0)], rtol=1e-6)


@needs_botorch
def test_hyperparameters_and_the_given_model_stay_as_they_are():
    model = plain()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    costs = BotorchCosts(LINE, model)
    for record in some_records():
        costs.learn(*record)
    assert len(costs.model.train_targets) == 32
    assert len(model.train_targets) == 20
    for one in (model, costs.model):
        assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())


@needs_botorch
def test_state_is_the_data_and_travels_without_pickle(tmp_path):
    costs = BotorchCosts(LINE, transformed())
    for record in some_records():
        costs.learn(*record)
    np.savez(tmp_path / "state.npz", **costs.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as arrays:
        resumed = BotorchCosts(LINE, transformed()).restore(dict(arrays))
    np.testing.assert_array_equal(resumed.estimate(0.3).costs, costs.estimate(0.3).costs)
    with pytest.raises(InvalidInput, match="not a saved state of BotorchCosts"):
        resumed.restore({})
    with pytest.raises(InvalidInput, match="action 9"):
        resumed.restore(costs.state() | {"actions": np.full(12, 9)})
    np.testing.assert_array_equal(resumed.estimate(0.3).costs, costs.estimate(0.3).costs)


@needs_botorch
def test_descriptions_tell_models_apart():
    described = [BotorchCosts(LINE, make()).describe() for make in (plain, plain, transformed)]
    assert described[0] == described[1]
    longer = plain()
    longer.covar_module.base_kernel.lengthscale = 1.4
    assert BotorchCosts(LINE, longer).describe()["fitted"] != described[0]["fitted"]
    assert described[2]["fitted"] != described[0]["fitted"]


@needs_botorch
def test_single_precision_models_and_models_without_context():
    inputs = torch.linspace(0.0, 5.0, 9, dtype=torch.float32)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = botorch.models.SingleTaskGP(inputs, torch.sin(inputs))
    costs = BotorchCosts(LINE, model)
    assert costs.dimension == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        costs.learn(3, None, 0.5)
        estimate = costs.estimate(None)
    assert estimate.costs.dtype == np.float64
    assert np.isfinite(estimate.costs).all()


@needs_botorch
def test_variational_models_work_frozen():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = botorch.models.SingleTaskVariationalGP(*tensors(*data()), inducing_points=8).to(torch.float64)
        with pytest.raises(InvalidInput, match="give context_dimension"):
            BotorchCosts(LINE, model)
        learning = BotorchCosts(LINE, model, context_dimension=1)
        before = learning.estimate(0.3).costs
        with pytest.raises(InvalidInput, match="frozen=True"):
            learning.learn(0, 0.3, 1.0)
        np.testing.assert_array_equal(learning.estimate(0.3).costs, before)
        check_cost_model(lambda: BotorchCosts(LINE, model, frozen=True, context_dimension=1), LINE, CONTEXTS)


@needs_botorch
def test_wrong_settings_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inputs, outputs = tensors(*data())
        two_outputs = botorch.models.SingleTaskGP(inputs, torch.cat([outputs, outputs], dim=1))
    for model, options, complaint in [
        (plain(), {"width": -1.0}, "width must be 0 or more"),
        (plain(), {"noise_std": 0.0}, "noise_std must be positive"),
        (plain(), {"noise_std": 0.1}, "leave out noise_std"),
        (known_noise(), {}, "give noise_std"),
        (two_outputs, {}, "has 2 outputs"),
    ]:
        with pytest.raises(InvalidInput, match=complaint):
            BotorchCosts(LINE, model, **options)
    with pytest.raises(InvalidInput, match="2 inputs, but the actions alone have 3"):
        BotorchCosts(hc.Problem(np.eye(3)), plain())


@needs_botorch
def test_drives_a_rule():
    """A policy over a BoTorch model finds the cheapest action of each context."""
    from holdcourse.deciding.pilot import Pilot
    from holdcourse.deciding.policy import Policy
    from holdcourse.deciding.rules import Greedy

    pilot = Pilot(Policy("BoTorch", Greedy(LINE), BotorchCosts(LINE, plain(), width=0.0), LINE), start=0, seed=0)
    for context in CONTEXTS:
        _, view = pilot.look(context)
        choice = pilot.decide(view)
        pilot.accept(choice)
        truth = 7.0 + 3.0 * np.sin(LINE.actions[:, 0] + context)
        pilot.learn(choice.action, context, truth[choice.action])
    assert truth[choice.action] < truth.min() + 0.5
