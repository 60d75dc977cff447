"""Kernel, noise and prior mean from measurements, by marginal likelihood.

`fit_kernel` fits once; a `Refitter` fits again and again beside a running posterior, with bounded work.
"""

from holdcourse.fitting.fit import Fit, FitWarning, fit_from_json, fit_to_json
from holdcourse.fitting.refitter import Refitter
from holdcourse.fitting.search import fit_kernel

__all__ = ["Fit", "FitWarning", "Refitter", "fit_from_json", "fit_kernel", "fit_to_json"]
