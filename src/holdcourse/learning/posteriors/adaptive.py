"""A posterior that is exact first and flat later, for contexts that nobody has declared.

While there are few measurements the exact posterior is cheap, and nothing is known of where contexts lie. At 256
measurements, and at every doubling after that, the contexts seen are tried as a basis (their list if it is short, else
the box around them). As soon as that basis is small enough, everything learned moves into it. If it is not by
measurement 512, what was learned moves into a capped basis, which says what it leaves out; and so it does later, should
contexts leave the box and need more weights than are allowed. The choice depends on counts and measurements only, so a
run that is stopped and resumed makes the same ones. The same holds for contexts that were declared and need too many
weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import require_arrays
from holdcourse.learning.history import History, check_context
from holdcourse.learning.posteriors.basis import MAX_WEIGHTS, Layout
from holdcourse.learning.posteriors.capped import KEPT, CappedPosterior, Kept
from holdcourse.learning.posteriors.exact import ExactPosterior, Prior, check_tolerance
from holdcourse.learning.posteriors.fitted import DelegatingPosterior
from holdcourse.learning.posteriors.flat import FlatPosterior

Array: TypeAlias = NDArray[np.float64]


FIRST_TRY = 256
LAST_TRY = 512  # the exact posterior is not kept beyond
MAX_LISTED = 64  # as many distinct contexts are taken as a list
MARGIN = 0.25  # of its width: how much wider than the contexts seen a box is made


class AdaptivePosterior(DelegatingPosterior):
    """Starts exact and becomes flat once the contexts seen allow it, or capped. See `Posterior`.

    Parameters
    ----------
    dimension, beginning
        Length of a context where it is known, and why it is exact until then: for contexts that were declared.
    """

    def __init__(
        self,
        prior: Prior,
        *,
        tolerance: float | None = None,
        dimension: int | None = None,
        beginning: str = "no contexts are declared",
    ) -> None:
        check_tolerance(tolerance)  # it will be needed only much later
        self.prior = prior
        self.tolerance = tolerance
        self._dimension, self._beginning = dimension, beginning
        self._inner: ExactPosterior | FlatPosterior | CappedPosterior = self._exact(FIRST_TRY)
        self._next_try = FIRST_TRY
        self._kept: Kept | None = None  # while it is flat, in case that this does not last

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
        if isinstance(self._inner, FlatPosterior):
            self._keep(History([action], check_context(context, None)[None], [y]))
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
            some = slice(done, upto)
            block = History(history.actions[some], history.contexts[some], history.measurements[some])
            self._inner.condition_on(block)
            if isinstance(self._inner, FlatPosterior):
                self._keep(block)
            if exact and self.observations >= self._next_try:
                self._try_flat()
            done = upto
        return self

    def copy(self) -> Self:
        """Make an independent twin."""
        twin = type(self)(self.prior, tolerance=self.tolerance, dimension=self._dimension, beginning=self._beginning)
        twin._inner, twin._next_try = self._inner.copy(), self._next_try
        twin._kept = None if self._kept is None else Kept(self._kept.observations, self._kept.state())
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        kept = {} if self._kept is None else self._kept.state()
        return self._inner.state() | kept | {"next_try": np.array(self._next_try)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` of a posterior made with the same arguments gave; returns itself."""
        require_arrays(arrays, ("next_try",), "an adaptive posterior")
        inner: ExactPosterior | FlatPosterior | CappedPosterior
        if "pending" in arrays:
            inner = CappedPosterior(self.prior, reason="restored")
        elif "candidates" in arrays:
            layout = Layout(self.prior, tolerance=self.tolerance, most=MAX_WEIGHTS)
            inner = FlatPosterior(self.prior, layout, reason="restored")
        else:
            inner = self._exact(int(arrays["next_try"]))
        self._inner = inner.restore(arrays)
        self._next_try = int(arrays["next_try"])
        flat = isinstance(inner, FlatPosterior)
        self._kept = Kept(inner.observations, arrays) if flat and all(name in arrays for name in KEPT) else None
        return self

    def describe(self) -> dict[str, Any]:
        """What it was made with, in JSON values; equal posteriors give equal descriptions."""
        return {"method": "adaptive", **self.prior.describe()}

    def __repr__(self) -> str:
        return f"AdaptivePosterior(now {self._inner!r})"

    def _exact(self, next_try: int) -> ExactPosterior:
        reason = f"{self._beginning}; those seen by measurement {next_try} may allow the flat method"
        return ExactPosterior(self.prior, dimension=self._dimension, reason=reason)

    def _try_flat(self) -> None:
        if not isinstance(self._inner, ExactPosterior):
            return
        history = self._inner.history
        distinct = np.unique(history.contexts, axis=0)
        if len(distinct) <= MAX_LISTED:
            layout = Layout(self.prior, contexts=distinct, tolerance=self.tolerance, most=MAX_WEIGHTS)
        else:
            low, high = distinct.min(axis=0), distinct.max(axis=0)
            margin = MARGIN * (high - low)
            bounds = np.stack([low - margin, high + margin], axis=1)
            layout = Layout(self.prior, context_bounds=bounds, tolerance=self.tolerance, most=MAX_WEIGHTS)
        self._next_try *= 2
        kept = Kept()
        kept.add(history.actions, history.contexts, history.measurements)
        if layout.complete:
            seen = f"{layout.size} weights cover the contexts of the first {len(history)} measurements"
            self._inner, self._kept = FlatPosterior(self.prior, layout, reason=seen).condition_on(history), kept
        elif self._next_try <= LAST_TRY:
            self._inner.reason = f"{_discarded(layout)}; tried again at measurement {self._next_try}"
        else:
            self._cap(kept, layout)

    def _keep(self, block: History) -> None:
        """Take note of what the flat posterior has learned; it is given up if it had to grow too much for that."""
        if self._kept is None:
            return
        self._kept.add(block.actions, block.contexts, block.measurements)
        if isinstance(self._inner, FlatPosterior) and not self._inner.layout.complete:
            self._cap(self._kept, self._inner.layout)

    def _cap(self, kept: Kept, layout: Layout) -> None:
        reason = f"{_discarded(layout)}, so the basis is capped and what it leaves out counts as unknown"
        self._inner, self._kept = CappedPosterior.of(self.prior, kept, reason), None


def _discarded(layout: Layout) -> str:
    return f"{layout.size} weights would still discard {layout.discarded:.1e} of the prior variance"
