"""Exact first, flat later: for contexts that nobody has declared.

While there are few measurements the exact posterior is cheap, and nothing is known of where contexts lie. At 256
measurements, and at every doubling after that, the contexts seen are tried as a basis (their list if it is short, else
the box around them). As soon as that basis is small enough, everything learned moves into it. The choice depends on
counts only, so a run that is stopped and resumed makes the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.gp.around import DelegatingPosterior
from holdcourse.gp.exact import ExactPosterior
from holdcourse.gp.flat import FlatPosterior
from holdcourse.gp.layout import Layout
from holdcourse.gp.prior import Prior, check_tolerance
from holdcourse.history import History
from holdcourse.named_arrays import require_arrays

Array: TypeAlias = NDArray[np.float64]

FIRST_TRY = 256
MAX_LISTED = 64  # as many distinct contexts are taken as a list
MARGIN = 0.25  # of its width: how much wider than the contexts seen a box is made


class AdaptivePosterior(DelegatingPosterior):
    """Starts exact and becomes flat once the contexts seen allow it. See `Posterior`."""

    def __init__(self, prior: Prior, *, tolerance: float | None = None) -> None:
        check_tolerance(tolerance)  # it will be needed only much later
        self.prior = prior
        self.tolerance = tolerance
        self._inner: ExactPosterior | FlatPosterior = ExactPosterior(prior, reason=self._waiting(FIRST_TRY))
        self._next_try = FIRST_TRY

    @property
    def reason(self) -> str:
        """Why it computes in that way at present."""
        return self._inner.reason

    @property
    def observations(self) -> int:
        """How many measurements have been told."""
        return self._inner.observations

    def condition(self, action: int, context: Any, y: float) -> Self:
        """Learn one measurement, in place; returns itself."""
        self._inner.condition(action, context, y)
        if self.observations >= self._next_try:
            self._try_flat()
        return self

    def condition_on(self, history: History) -> Self:
        """Learn many measurements at once, in place."""
        history.check(self.prior.problem, None)
        done = 0
        while done < len(history):
            exact = isinstance(self._inner, ExactPosterior)
            upto = min(len(history), done + self._next_try - self.observations) if exact else len(history)
            block = slice(done, upto)
            self._inner.condition_on(
                History(history.actions[block], history.contexts[block], history.measurements[block])
            )
            if exact and self.observations >= self._next_try:
                self._try_flat()
            done = upto
        return self

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = type(self)(self.prior, tolerance=self.tolerance)
        twin._inner, twin._next_try = self._inner.copy(), self._next_try
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        return self._inner.state() | {"next_try": np.array(self._next_try)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ("next_try",), "an adaptive posterior")
        inner: ExactPosterior | FlatPosterior
        if "candidates" in arrays:
            inner = FlatPosterior(self.prior, Layout(self.prior, tolerance=self.tolerance), reason="restored")
        else:
            inner = ExactPosterior(self.prior, reason=self._waiting(int(arrays["next_try"])))
        self._inner = inner.restore(arrays)
        self._next_try = int(arrays["next_try"])
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "adaptive", **self.prior.describe()}

    def __repr__(self) -> str:
        return f"AdaptivePosterior(now {self._inner!r})"

    def _waiting(self, at: int) -> str:
        return f"no contexts are declared; those seen by measurement {at} may allow the flat method"

    def _try_flat(self) -> None:
        if not isinstance(self._inner, ExactPosterior):
            return
        history = self._inner.history
        distinct = np.unique(history.contexts, axis=0)
        if len(distinct) <= MAX_LISTED:
            layout = Layout(self.prior, contexts=distinct, tolerance=self.tolerance)
        else:
            low, high = distinct.min(axis=0), distinct.max(axis=0)
            margin = MARGIN * (high - low)
            bounds = np.stack([low - margin, high + margin], axis=1)
            layout = Layout(self.prior, context_bounds=bounds, tolerance=self.tolerance)
        self._next_try *= 2
        if not layout.complete:
            self._inner.reason = (
                f"{layout.size} weights would still discard {layout.discarded:.1e} of the prior variance; "
                f"tried again at measurement {self._next_try}"
            )
            return
        seen = f"{layout.size} weights cover the contexts of the first {len(history)} measurements"
        self._inner = FlatPosterior(self.prior, layout, reason=seen).condition_on(history)
