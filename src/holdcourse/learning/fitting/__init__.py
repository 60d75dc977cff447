"""Kernel, noise and prior mean from measurements, by marginal likelihood.

`fit_kernel` fits once; a `Refitter` fits again and again beside a running posterior, with bounded work.
"""

from __future__ import annotations

from holdcourse.learning.fitting.refitter import Refitter
from holdcourse.learning.fitting.search import Fit, FitWarning, fit_from_json, fit_kernel, fit_to_json

__all__ = ["Fit", "FitWarning", "Refitter", "fit_from_json", "fit_kernel", "fit_to_json"]
