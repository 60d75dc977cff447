"""A fitted BoTorch or GPyTorch model as a cost model (extra ``[botorch]``).

For models that holdcourse does not have: multi-fidelity, mixed, deep or transformed models. They grow with each
measurement, so a round takes longer the longer they run; with `holdcourse.posterior` it does not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.errors import InvalidInput, MissingExtra, shown
from holdcourse.learning.costs import Estimate
from holdcourse.learning.history import History, check_context, check_contexts, check_measurement
from holdcourse.movement.problem import Problem

try:
    import gpytorch
    import torch
except ImportError as error:
    raise MissingExtra(
        f'holdcourse.ext.botorch needs BoTorch ({error}); install it with: pip install "holdcourse[botorch]"'
    ) from error

Array: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = dict[str, NDArray[Any]]

STATE = ("actions", "contexts", "measurements")


class BotorchCosts:
    """Lower confidence bounds of a fitted BoTorch or GPyTorch model; see `holdcourse.learning.costs.CostModel`.

    The model's inputs are rows of action coordinates and context; its single output is what is measured. `learn`
    conditions it on each measurement (`condition_on_observations`, in GPyTorch `get_fantasy_model`). The data grow;
    hyperparameters and transforms stay as they were fitted. Do not train the model any further while it is in use here.

    Parameters
    ----------
    problem
        The actions; their coordinates are the first inputs of the model.
    model
        Fitted model, which is put into evaluation mode.
    width
        Width of the bound, which is mean - width * standard deviation, without measurement noise.
    maximise
        Whether the model's output is a gain; then its negative upper bound is the cost.
    frozen
        Whether measurements leave the model unchanged; needed for models that cannot be conditioned.
    noise_std
        Standard deviation of a new measurement, in its units. Needed for models fitted with known noise
        (``train_Yvar``); other models know their noise.
    context_dimension
        Length of a context. Default: the number of the model's inputs that are not action coordinates.

    Attributes
    ----------
    model
        The model with the measurements so far.

    Examples
    --------
    ::

        model = SingleTaskGP(inputs, outputs)  # inputs: (t, action coordinates + context)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        policy = hc.Policy("mine", hc.rules.Greedy(problem), BotorchCosts(problem, model), problem)
    """

    needs_costs = False

    def __init__(
        self,
        problem: Problem,
        model: Any,
        width: float = 2.0,
        *,
        maximise: bool = False,
        frozen: bool = False,
        noise_std: float | None = None,
        context_dimension: int | None = None,
    ) -> None:
        if not (math.isfinite(width) and width >= 0):
            raise InvalidInput(f"width must be 0 or more, got {shown(width)}")
        if noise_std is not None and not (math.isfinite(noise_std) and noise_std > 0):
            raise InvalidInput(f"noise_std must be positive, got {shown(noise_std)}")
        name = type(model).__name__
        outputs = getattr(model, "num_outputs", 1)
        if outputs != 1:
            raise InvalidInput(
                f"the model {name} has {outputs} outputs, but a cost model needs one; give model.subset_output([0])"
            )
        if not frozen and (noise_std is not None) != _has_known_noise(model):
            remedy = (
                "has fitted its noise; leave out noise_std" if noise_std else "was given its noise; give noise_std too"
            )
            raise InvalidInput(f"the model {name} {remedy}")
        self.problem = problem
        self.model = model.eval()
        self.width = float(width)
        self.maximise = bool(maximise)
        self.frozen = bool(frozen)
        self.noise_std = None if noise_std is None else float(noise_std)
        self.dimension = _context_dimension(problem, model) if context_dimension is None else int(context_dimension)
        self._fitted = self.model  # what `restore` starts from
        self._fingerprint = _fingerprint(self.model)
        self._like = [*_training_data(self.model), *self.model.parameters()][0]  # for its precision and device
        self._measured: list[tuple[int, Array, float]] = []

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """Lower bounds of every action's cost in this context."""
        mean, std = self._predict(check_context(context, self.dimension))
        sign = -1.0 if self.maximise else 1.0
        return Estimate(sign * mean - self.width * std, sign * mean, mean, std)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Lower bounds in each of k contexts, shape (k, n)."""
        rows = check_contexts(contexts, self.dimension)
        return np.array([self.estimate(row).costs for row in rows]).reshape(len(rows), self.problem.n)

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Condition the model on a measurement; its weight is always 1."""
        self.problem.check_action(action)
        measured = int(action), check_context(context, self.dimension), check_measurement(measurement)
        if not self.frozen:
            self.model = self._conditioned(self.model, *measured)
            self._measured.append(measured)
        return 1.0

    def new_episode(self) -> None:
        """Do nothing, because bounds follow every measurement."""

    def copy(self) -> BotorchCosts:
        """Return an independent copy; it shares the model, which conditioning replaces and never changes."""
        twin = BotorchCosts(
            self.problem,
            self._fitted,
            self.width,
            maximise=self.maximise,
            frozen=self.frozen,
            noise_std=self.noise_std,
            context_dimension=self.dimension,
        )
        twin.model, twin._measured = self.model, list(self._measured)
        return twin

    def state(self) -> Arrays:
        """Return the measurements told; the fitted model is not part of the state."""
        past = History.from_triples(self._measured)
        return {"actions": past.actions, "contexts": past.contexts, "measurements": past.measurements}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> BotorchCosts:
        """Tell the fitted model the measurements of a `state`, one by one, which gives the same bits."""
        missing = [name for name in STATE if name not in arrays]
        if missing:
            raise InvalidInput(
                f"this is not a saved state of BotorchCosts: it lacks {missing} and contains {sorted(arrays)}"
            )
        past = History(*(arrays[name] for name in STATE))
        past.check(self.problem, self.dimension)
        history = [
            (int(action), np.array(context), float(y))
            for action, context, y in zip(past.actions, past.contexts, past.measurements, strict=True)
        ]
        model = self._fitted
        for measured in history:
            model = self._conditioned(model, *measured)
        self.model, self._measured = model, history
        return self

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values; the fingerprint covers hyperparameters and training data."""
        return {
            "model": "BotorchCosts",
            "class": type(self._fitted).__qualname__,
            "fitted": self._fingerprint,
            "width": self.width,
            "maximise": self.maximise,
            "frozen": self.frozen,
            "noise_std": self.noise_std,
        }

    # -- inside --------------------------------------------------------------------------------------------------------

    def _rows(self, coordinates: Array, context: Array) -> Any:
        """Inputs of the model: action coordinates (k, d) and one context."""
        rows = np.hstack([coordinates, np.tile(context, (len(coordinates), 1))])
        return torch.as_tensor(rows).to(self._like)

    def _predict(self, context: Array) -> tuple[Array, Array]:
        posterior = _posterior(self.model, self._rows(self.problem.actions, context))
        mean, variance = (_to_numpy(moment).reshape(-1) for moment in (posterior.mean, posterior.variance))
        if len(mean) != self.problem.n:
            raise InvalidInput(
                f"the model gives means of shape {tuple(posterior.mean.shape)} for {self.problem.n} actions; "
                "batches of models are not supported, so give a single model"
            )
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _conditioned(self, model: Any, action: int, context: Array, y: float) -> Any:
        X = self._rows(self.problem.actions[[action]], context)  # noqa: N806 - BoTorch's names
        Y = torch.as_tensor([[y]]).to(self._like)  # noqa: N806
        noise = None if self.noise_std is None else torch.full_like(Y, self.noise_std**2)
        _posterior(model, X)  # conditioning needs the caches that a prediction fills
        try:
            with torch.no_grad():
                if hasattr(model, "condition_on_observations"):
                    options = {} if noise is None else {"noise": _in_model_units(model, X, Y, noise)}
                    return model.condition_on_observations(X=X, Y=Y, **options)
                options = {} if noise is None else {"noise": noise[:, 0]}
                return model.get_fantasy_model(X, Y[:, 0], **options)
        except (AttributeError, NotImplementedError) as error:  # what BoTorch raises where it cannot be done
            raise InvalidInput(
                f"{type(model).__name__} cannot be conditioned on measurements ({error}); use it with frozen=True"
            ) from error


def _posterior(model: Any, inputs: Any) -> Any:
    # Not debugging: asking about a point of the training data is no mistake here.
    with torch.no_grad(), gpytorch.settings.debug(False):
        return model.posterior(inputs) if hasattr(model, "posterior") else model(inputs)


def _has_known_noise(model: Any) -> bool:
    return isinstance(getattr(model, "likelihood", None), gpytorch.likelihoods.FixedNoiseGaussianLikelihood)


def _in_model_units(model: Any, inputs: Any, outputs: Any, noise: Any) -> Any:
    """BoTorch transforms new outputs itself, but expects their noise variance transformed."""
    transform = getattr(model, "outcome_transform", None)
    return noise if transform is None else transform(outputs, Yvar=noise, X=inputs)[1]


def _training_data(model: Any) -> list[Any]:
    inputs = getattr(model, "_original_train_inputs", None)  # BoTorch's, before an input transform
    if inputs is None:
        inputs = getattr(model, "train_inputs", None)
    targets = getattr(model, "train_targets", None)
    tensors = [*(inputs if isinstance(inputs, tuple | list) else [inputs]), targets]
    return [tensor for tensor in tensors if tensor is not None]


def _context_dimension(problem: Problem, model: Any) -> int:
    data = _training_data(model)
    if not data:
        raise InvalidInput(f"{type(model).__name__} does not show its training inputs; give context_dimension")
    inputs, own = int(data[0].shape[-1]), int(problem.actions.shape[1])
    if inputs < own:
        raise InvalidInput(
            f"the model has {inputs} inputs, but the actions alone have {own} coordinates; fit it to actions and "
            "contexts"
        )
    return inputs - own


def _fingerprint(model: Any) -> str:
    digest = hashlib.sha256()
    named = [(key, value) for key, value in sorted(model.state_dict().items()) if isinstance(value, torch.Tensor)]
    named += [("data", tensor) for tensor in _training_data(model)]
    for key, tensor in named:
        digest.update(f"{key} {tuple(tensor.shape)}".encode() + _to_numpy(tensor).tobytes())
    return digest.hexdigest()[:32]


def _to_numpy(tensor: Any) -> Array:
    array: Array = tensor.detach().cpu().double().numpy()
    return array
