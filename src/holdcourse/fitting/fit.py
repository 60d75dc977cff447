"""The result of a fit, and its way to text and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdcourse.fitting.points import PriorMean
from holdcourse.kernels import AnyKernel, Kernel


class FitWarning(UserWarning):
    """A fitted parameter sits on its bound: the measurements do not determine it.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import warnings
    >>> problem, actions, contexts = hc.Problem([0.0, 1.0, 2.0]), [0, 1, 2] * 4, [k / 12 for k in range(12)]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", hc.FitWarning)
    ...     fit = hc.fit_kernel(problem, actions, contexts, [1.0, 2.0, 3.0] * 4, restarts=0)  # no noise, no trend
    >>> caught[0].category.__name__, "noise_std" in fit.on_bounds
    ('FitWarning', True)
    """


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """What measurements say about kernel, noise and prior mean.

    Attributes
    ----------
    kernel, noise_std, prior_mean
        Ready for a posterior, in the units of the inputs and the measurements.
    log_marginal_likelihood
        Log density of the measurements used, without the weak priors on the parameters.
    parameters
        Every parameter by name. Length scales are as the kernel sees its inputs: in the user's units unless the
        kernel was given with a scaling of its own.
    on_bounds
        Names of the parameters that sit on a bound, and which: "lower" or "upper".
    points_used, points_given
        How many measurements the likelihood saw, and how many there were.
    evaluations
        How often the likelihood was evaluated.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> actions, contexts = np.repeat([0, 1, 2], 8), np.tile(np.linspace(0.0, 1.0, 8), 3)
    >>> measured = (actions / 2 - contexts) ** 2 + 0.01 * np.cos(37.0 * np.arange(24))
    >>> fit = hc.fit_kernel(hc.Problem([0.0, 0.5, 1.0]), actions, contexts, measured, restarts=0)
    >>> sorted(fit.parameters)
    ['action length scale', 'context length scale', 'noise_std', 'variance']
    >>> fit.noise_std < 0.05
    True
    """

    kernel: AnyKernel
    noise_std: float
    prior_mean: PriorMean
    log_marginal_likelihood: float
    parameters: Mapping[str, float]
    on_bounds: Mapping[str, str]
    points_used: int
    points_given: int
    evaluations: int

    def __repr__(self) -> str:
        words = [f"{name} = {value:.4g}" for name, value in self.parameters.items()]
        words += [f"prior mean = {self.prior_mean:.4g}"] if isinstance(self.prior_mean, float) else ["prior mean given"]
        words += [f"{name} on its {end} bound" for name, end in self.on_bounds.items()]
        some = "" if self.points_used == self.points_given else f" of {self.points_given}"
        words.append(f"log likelihood {self.log_marginal_likelihood:.4g} of {self.points_used}{some} points")
        return f"Fit({', '.join(words)})"


def fit_to_json(fit: Fit | None) -> str:
    """Write a fit as text; a prior mean that was given is left out."""
    if fit is None:
        return "null"
    fields = {name: getattr(fit, name) for name in Fit.__dataclass_fields__}
    fields["kernel"] = fit.kernel.to_json()
    if not isinstance(fit.prior_mean, float):
        fields["prior_mean"] = None
    return json.dumps(fields, allow_nan=False)


def fit_from_json(text: str, prior_mean: PriorMean | None) -> Fit | None:
    """Read what `fit_to_json` wrote; `prior_mean` is the one that was given, if any."""
    fields: dict[str, Any] | None = json.loads(text)
    if fields is None:
        return None
    fields["kernel"] = Kernel.from_json(fields["kernel"])
    if prior_mean is not None:
        fields["prior_mean"] = prior_mean
    return Fit(**fields)
