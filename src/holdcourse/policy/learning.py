"""The options of every policy that learns, and the cost model that they describe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict

from numpy.typing import ArrayLike

from holdcourse.confidence import OutlierGuard, TheoryWidth
from holdcourse.costs import Every, IntervalMap, LowerBound
from holdcourse.errors import InvalidInput
from holdcourse.gp import Method, posterior
from holdcourse.history import History
from holdcourse.kernels import AnyKernel
from holdcourse.problem import Problem


class Learning(TypedDict, total=False):
    """Options of every policy that learns, with the paper's defaults.

    kernel: what is believed about the cost, or "auto" to fit it as data comes in (default); noise_std: deviation of a
    measurement (0.1); prior_mean: a number, one per action or a function (0.0); width: of the bounds, in deviations
    (2.0), or `TheoryWidth`; every: "round" or "episode", when bounds follow the data ("round"); history: past
    measurements to start from; maximise: measurements are gains (False); method, contexts, context_bounds, forgetting:
    as in `posterior`; guard: `OutlierGuard` against measurements far off (none); interval_map: where the cost is a
    function of what is measured, see `costs.Mapped` (none).
    """

    kernel: AnyKernel | str
    noise_std: float
    prior_mean: Any
    width: float | TheoryWidth
    every: Every
    history: History | Iterable[tuple[int, Any, float]] | None
    maximise: bool
    method: Method
    contexts: ArrayLike | None
    context_bounds: ArrayLike | None
    forgetting: float
    guard: OutlierGuard | None
    interval_map: IntervalMap | None


def lower_bound(problem: Problem, learning: Learning) -> LowerBound:
    """The cost model that the options of `Learning` describe."""
    options = dict(learning)
    unknown = set(options) - set(Learning.__annotations__)
    if unknown:
        raise InvalidInput(
            f"option {sorted(unknown)[0]!r} is not known; a learning policy takes {sorted(Learning.__annotations__)}"
        )
    bounds = {
        name: options.pop(name) for name in ("width", "every", "maximise", "guard", "interval_map") if name in options
    }
    return LowerBound(posterior(problem, options.pop("kernel", "auto"), **options), **bounds)  # type: ignore[arg-type]
