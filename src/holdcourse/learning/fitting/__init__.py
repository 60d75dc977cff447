"""Kernel, noise and prior mean from measurements, by marginal likelihood.

`fit_kernel` fits once; `holdcourse.learning.posteriors.fitted` again and again, beside a running posterior.
"""

from __future__ import annotations

from holdcourse.learning.fitting.search import Fit, FitWarning, fit_from_json, fit_kernel, fit_to_json

__all__ = ["Fit", "FitWarning", "fit_from_json", "fit_kernel", "fit_to_json"]
