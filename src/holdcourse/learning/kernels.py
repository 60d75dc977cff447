"""What we believe about the cost before measuring: how alike two actions are, and two contexts.

A `Kernel` is a product, ``variance * action(x, x') * context(e, e')``, over scikit-learn's kernels, with the
scaling of the inputs declared once. Sums of such products describe costs with several causes: ``slow + fast``.

>>> from sklearn.gaussian_process.kernels import RBF, ExpSineSquared
>>> import holdcourse as hc
>>> daily = hc.Kernel(action=RBF(0.2), context=ExpSineSquared(1.0, periodicity=24.0), variance=2.0)
>>> hc.Kernel.from_json(daily.to_json()) == daily
True

Noise is no part of a kernel: it is declared where the posterior is made. scikit-learn is imported only when a kernel
is read back from JSON; until then we hold what the user has built with it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array, is_finite, require_finite
from holdcourse.errors import InvalidInput, TooLarge, shown
from holdcourse.movement.problem import Problem

__all__ = ["AnyKernel", "Kernel", "KernelSum", "check_kernel", "summed", "zscore"]


Array: TypeAlias = NDArray[np.float64]

MATRIX_ACTIONS = 5_000  # with coordinates, up to which the covariance of all pairs is written down
SYMMETRY_TOLERANCE = 1e-9  # relative; rounding in a user's own covariance matrix is not an error
MOST_CHECKED = 300  # contexts, or actions without a matrix, whose covariance is looked at: 20 ms
SHOWN_CONTEXTS = 4  # in a message


def checked_covariance(matrix: Any) -> Array:
    """An (n, n) covariance matrix of the actions, exactly symmetric and read-only."""
    try:
        square = float_array(matrix, "action")
    except InvalidInput:
        raise InvalidInput(
            "action must be a scikit-learn kernel such as RBF(0.2), or an (n, n) covariance matrix, got "
            f"{shown(matrix)}"
        ) from None
    if square.ndim != 2 or square.shape[0] != square.shape[1] or square.size == 0:
        raise InvalidInput(f"the action covariance must be an (n, n) matrix, got shape {square.shape}")
    require_finite(square, "the action covariance")
    scale = float(np.abs(square).max())
    if scale == 0 or np.diag(square).min() < 0:
        raise InvalidInput("the action covariance must have variances on its diagonal: not negative, and not all 0")
    _require_symmetry(square, "the action covariance")
    square = (square + square.T) / 2
    lowest = float(np.linalg.eigvalsh(square)[0])
    if lowest < -SYMMETRY_TOLERANCE * scale * len(square):
        raise InvalidInput(f"the action covariance must be positive semidefinite, but has the eigenvalue {lowest:.3g}")
    square.setflags(write=False)
    return square


def _require_symmetry(square: Array, what: str) -> None:
    pair = _uneven(square)
    if pair is not None:
        i, j = pair
        raise InvalidInput(
            f"{what} must be symmetric, but entry ({i}, {j}) is {square[i, j]:.6g} and entry ({j}, {i}) is "
            f"{square[j, i]:.6g}"
        )


def _uneven(square: Array) -> tuple[int, int] | None:
    """The entry that differs most from its mirror image; None where the matrix is symmetric."""
    apart = np.abs(square - square.T)
    if apart.max() <= SYMMETRY_TOLERANCE * np.abs(square).max():
        return None
    i, j = (int(k) for k in np.unravel_index(int(apart.argmax()), square.shape))
    return i, j


def checked_axis_numbers(values: Any, name: str, *, positive: bool) -> float | Array:
    """A shift or a scale: one number, or one per axis."""
    numbers = float_array(values, name)
    if numbers.ndim > 1 or numbers.size == 0 or not np.isfinite(numbers).all() or (positive and (numbers <= 0).any()):
        raise InvalidInput(
            f"{name} must be a finite{' positive' * positive} number, or one per axis, got {shown(values)}"
        )
    if numbers.size == 1:
        return float(numbers.reshape(-1)[0])
    numbers.setflags(write=False)
    return numbers


Periods: TypeAlias = tuple[float | None, ...]
Entry = TypeVar("Entry")


def checked_period(values: Any, name: str) -> Periods | None:
    """The period of each axis that is a circle, None for the others; None where there is no circle at all."""
    if values is None:
        return None
    entries = list(values) if isinstance(values, list | tuple | np.ndarray) else [values]
    for entry in entries:
        if entry is not None and (isinstance(entry, bool) or not (is_finite(entry) and entry > 0)):
            raise InvalidInput(
                f"{name} must be positive and finite, got {shown(entry)}; give None for an axis that is not periodic"
            )
    periods = tuple(None if entry is None else float(entry) for entry in entries)
    return periods if any(entry is not None for entry in periods) else None


def per_axis(given: tuple[Entry, ...], dimension: int, name: str) -> tuple[Entry, ...]:
    """One entry for each number of a context; a single one serves all."""
    if len(given) not in (1, dimension):
        raise InvalidInput(f"{name} must have {_one_or(dimension, 'entry', 'number of a context')}, got {len(given)}")
    return given * dimension if len(given) == 1 else given


SERIALISABLE = (
    "RBF",
    "Matern",
    "RationalQuadratic",
    "ExpSineSquared",
    "ConstantKernel",
    "DotProduct",
    "Sum",
    "Product",
    "Exponentiation",
)


def _is_listed(value: Any) -> bool:
    return type(value).__name__ in SERIALISABLE and type(value).__module__.startswith("sklearn.")


def encoded(value: Any) -> Any:
    """A field of a kernel, or a scikit-learn kernel, in JSON values; kernel classes of the user's own are refused."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}  # Matern's nu may be infinite
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    kind = type(value).__name__
    if not _is_listed(value):
        raise InvalidInput(
            f"a {kind} cannot be written to a file; use {', '.join(SERIALISABLE)} of scikit-learn, or for actions give "
            "its matrix: Kernel(kernel(problem.actions))"
        )
    return {"kernel": kind, "with": {name: encoded(item) for name, item in value.get_params(deep=False).items()}}


def described(value: Any) -> Any:
    """As `encoded`, but of any class: enough to tell kernels apart, not to make them again.

    What scikit-learn prints of a kernel will not do: it rounds, and leaves out what is no hyperparameter.
    """
    if is_sklearn_kernel(value):
        parameters = {name: described(item) for name, item in value.get_params(deep=False).items()}
        return {"kernel" if _is_listed(value) else "class": type(value).__name__, "with": parameters}
    try:
        return encoded(value)
    except InvalidInput:
        return getattr(value, "__qualname__", None) or repr(value)  # a function's address differs each time


def decoded(data: Any) -> Any:
    """Read what `encoded` gave."""
    if isinstance(data, list):
        return [decoded(item) for item in data]
    if not isinstance(data, Mapping):
        return data
    if "float" in data:
        return float(data["float"])
    if "array" in data:
        return np.array(data["array"], dtype=np.float64)
    if "tuple" in data:
        return tuple(decoded(item) for item in data["tuple"])
    kind = data["kernel"]
    if kind not in SERIALISABLE:
        raise InvalidInput(f"kernel {kind!r} is not known; the kernels that can be read are {list(SERIALISABLE)}")
    # Not `from sklearn.gaussian_process import kernels`: the package imports that module, and a thread that begins with
    # the package and one that begins with the module, as all others here do, would wait for each other.
    import sklearn.gaussian_process.kernels as sklearn_kernels

    return getattr(sklearn_kernels, kind)(**{name: decoded(item) for name, item in data["with"].items()})


OPERANDS = ("k1", "k2", "kernel")
# What each number of scikit-learn's kernels must be above, whether it may be equal, and how many axes it may have.
NUMBERS = {
    "length_scale": (0.0, False, 1),
    "nu": (0.0, False, 0),
    "alpha": (0.0, False, 0),
    "periodicity": (0.0, False, 0),
    "constant_value": (0.0, False, 0),
    "sigma_0": (0.0, True, 0),
    "exponent": (0.0, False, 0),
}


def is_sklearn_kernel(value: Any) -> bool:
    """Whether it has what we ask of one; a class of the user's own may have it too."""
    return callable(value) and hasattr(value, "diag") and hasattr(value, "get_params") and not isinstance(value, type)


def _children(kernel: Any) -> list[Any]:
    return [value for value in kernel.get_params(deep=False).values() if is_sklearn_kernel(value)]


def refuse_noise(kernel: Any, name: str) -> None:
    """Raise where a kernel holds noise, or is no single covariance, however deep; `name` says whose part it is."""
    if not is_sklearn_kernel(kernel):
        return
    if type(kernel).__name__ == "WhiteKernel":
        raise InvalidInput(
            f"{name} contains a WhiteKernel, but noise is not part of a kernel here; give it as noise_std instead"
        )
    if type(kernel).__name__ == "CompoundKernel":
        raise InvalidInput(
            f"{name} contains a CompoundKernel, which is several covariances instead of one; add or multiply its "
            "kernels"
        )
    for child in _children(kernel):
        refuse_noise(child, name)


def check_parameters(kernel: Any, name: str) -> None:
    """Raise where a number in a kernel makes no sense, however deep; `name` says whose part it is.

    scikit-learn takes any value, and a NaN would only be found in a decision. Of a class of the user's own we know just
    that NaN is no parameter.
    """
    if not is_sklearn_kernel(kernel):
        return
    kind, ours = type(kernel).__name__, type(kernel).__module__.startswith("sklearn.")
    for option, value in kernel.get_params(deep=False).items():
        where = f"{option} of {kind} in {name}"
        if is_sklearn_kernel(value):
            check_parameters(value, name)
        elif ours and option in OPERANDS:
            raise InvalidInput(f"{where} must be a kernel, got {shown(value)}")
        elif ours and option in NUMBERS:
            _check_numbers(value, where, *NUMBERS[option])
        elif ours and option.endswith("_bounds") and not isinstance(value, str):
            _check_numbers(value, where, 0.0, False, 2)
        elif isinstance(value, float | np.floating | np.ndarray) and np.isnan(value).any():
            raise InvalidInput(f"{where} is {value!r}, which is not a number")


def _check_numbers(value: Any, where: str, least: float, or_equal: bool, axes: int) -> None:
    numbers = float_array(value, where)
    fits = numbers >= least if or_equal else numbers > least
    finite = np.isfinite(numbers) | (np.isposinf(numbers) & where.startswith("nu "))  # an infinite nu is the RBF kernel
    if numbers.ndim > axes or numbers.size == 0 or not (fits & finite).all():
        beyond = f"{least:g} or more" if or_equal else f"above {least:g}"
        raise InvalidInput(f"{where} must be finite and {beyond}, got {shown(value)}")


def axis_counts(kernel: Any) -> list[int]:
    """Sizes of the per-axis length scales in a kernel, 1 where there is one for all."""
    own = [int(np.size(kernel.get_params(deep=False).get("length_scale", 1.0)))]
    return own + [count for child in _children(kernel) for count in axis_counts(child)]


Indices: TypeAlias = NDArray[np.int64]
AnyKernel: TypeAlias = "Kernel | KernelSum"

FIELDS = ("action", "context", "variance", "action_shift", "action_scale", "context_shift", "context_scale")
OPTIONAL_FIELDS = ("context_period",)  # written only where they are given


def zscore(values: ArrayLike) -> tuple[Array, Array]:
    """Shift and scale that give `values` (one row per point) mean 0 and standard deviation 1 along each axis.

    An axis that never changes gets scale 1.

    Examples
    --------
    >>> import holdcourse as hc
    >>> shift, scale = hc.zscore([1.0, 2.0, 3.0])
    >>> shift.tolist(), scale.round(3).tolist()
    ([2.0], [0.816])
    """
    points = float_array(values, "values")
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or len(points) == 0 or not np.isfinite(points).all():
        raise InvalidInput(f"zscore needs one or more rows of finite numbers, got {shown(values)}")
    spread = points.std(axis=0)
    return points.mean(axis=0), np.where(spread > 0, spread, 1.0)


class _Summable(ABC):
    """What a product kernel and a sum of them have in common."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Kernel, ...]:
        """The product kernels whose sum this is."""

    def __add__(self, other: AnyKernel) -> KernelSum:
        if not isinstance(other, _Summable):
            return NotImplemented
        return KernelSum(self.parts + other.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Summable):
            return NotImplemented
        return len(self.parts) == len(other.parts) and all(map(_same, self.parts, other.parts))

    def __hash__(self) -> int:
        return hash(tuple(part.variance for part in self.parts))

    @property
    def context_dimension(self) -> int | None:
        """Length of a context vector as far as the kernel fixes it; None when any length will do."""
        return next((d for part in self.parts if (d := part._own_context_dimension()) is not None), None)

    @property
    def uses_context(self) -> bool:
        """Whether the cost may depend on the context at all."""
        return any(part.context is not None for part in self.parts)

    def scaled(self, factor: float) -> AnyKernel:
        """The kernel of the cost times ``sqrt(factor)``: every variance times `factor`."""
        return summed([replace(part, variance=factor * part.variance) for part in self.parts])

    def covariance(
        self,
        problem: Problem,
        actions: Indices,  # (t,)
        contexts: Array,  # (t, d)
        other_actions: Indices | None = None,  # (s,)
        other_contexts: Array | None = None,  # (s, d)
    ) -> Array:
        """Prior covariance between two lists of (action, context) pairs, (t, s); by default of one with itself."""
        columns = actions if other_actions is None else other_actions
        rows = contexts if other_contexts is None else other_contexts
        total = np.zeros((len(actions), len(columns)))
        for part in self.parts:
            among_actions = part.covariance_among(problem, actions, columns)
            total += part.variance * among_actions * part.context_covariance(contexts, rows)
        return total

    def variances(self, problem: Problem, contexts: Array) -> Array:
        """Prior variance of every action in each of the contexts (k, d); shape (k, n)."""
        total = np.zeros((len(contexts), problem.n))
        for part in self.parts:
            own = part.action_variances(problem)
            total += part.variance * part.context_variances(contexts)[:, None] * own
        return total

    def to_json(self) -> str:
        """Write the kernel as text that `from_json` reads back to the last bit; your own kernel classes are refused."""
        parts = [{name: encoded(value) for name, value in part.fields().items()} for part in self.parts]
        return json.dumps({"parts": parts}, allow_nan=False)

    def describe(self) -> str:
        """What tells this kernel from others, in one line: as `to_json`, and for your own kernel classes too."""
        parts = [{name: described(value) for name, value in part.fields().items()} for part in self.parts]
        return json.dumps({"parts": parts}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> AnyKernel:
        """Read what `to_json` wrote: a `Kernel`, or a `KernelSum` if it was a sum."""
        try:
            parts = [
                Kernel(**{name: decoded(value) for name, value in fields.items()})
                for fields in json.loads(text)["parts"]
            ]
        except InvalidInput:
            raise  # it says what is wrong with which part
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"this is not a kernel written by to_json: {str(text)[:80]!r} ({error})") from None
        return summed(parts)


@dataclass(frozen=True, eq=False)
class Kernel(_Summable):
    """Covariance of the cost: ``variance * action(x, x') * context(e, e')``.

    Parameters
    ----------
    action
        A scikit-learn kernel over `Problem.features`, which are the coordinates in `Problem.actions` and, for a knob of
        names, a column for each name; or the (n, n) covariance matrix of the actions.
    context
        A scikit-learn kernel over contexts; None: the cost does not depend on the context.
    variance
        Prior variance of the cost, in squared units of the measurement, if both parts have 1 on the diagonal.
    action_shift, action_scale, context_shift, context_scale
        The kernels see ``(coordinate - shift) / scale``: one number, or one per axis. `zscore` gives both.
    context_period
        Period of each axis of the context that is a circle, such as the hour of day (24) or a direction (360), and None
        for each other axis; one entry serves all axes. The context kernel sees a circle of that length as two
        coordinates, so it takes one length scale for all axes, or two for every circle and one for any other.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> kernel = hc.Kernel(action=RBF(0.5), context=RBF(0.2), variance=4.0)
    >>> mean, std = hc.posterior(hc.Problem([0.0, 0.5, 1.0]), kernel).predict(0.3)  # before any measurement
    >>> std.tolist()
    [2.0, 2.0, 2.0]
    """

    action: Any
    context: Any = None
    variance: float = 1.0
    action_shift: ArrayLike = 0.0
    action_scale: ArrayLike = 1.0
    context_shift: ArrayLike = 0.0
    context_scale: ArrayLike = 1.0
    context_period: Any = None
    # Asking a scikit-learn kernel for its parameters takes longer than evaluating it, so we ask once.
    _action_axes: tuple[int, ...] = field(init=False, repr=False)
    _context_axes: tuple[int, ...] = field(init=False, repr=False)
    _listed: frozenset[str] = field(init=False, repr=False)  # those of action and context that need no check

    def __post_init__(self) -> None:
        def store(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)  # frozen for everybody else

        if not is_sklearn_kernel(self.action):
            store("action", checked_covariance(self.action))
        for name in ("action", "context"):
            refuse_noise(getattr(self, name), name)
            check_parameters(getattr(self, name), name)
        if self.context is not None and not is_sklearn_kernel(self.context):
            raise InvalidInput(
                f"context must be a scikit-learn kernel such as RBF(0.2), or None, got {shown(self.context)}"
            )
        if not (is_finite(self.variance) and self.variance > 0):
            raise InvalidInput(f"variance must be a positive number, got {shown(self.variance)}")
        store("variance", float(self.variance))
        for name in ("action_shift", "context_shift"):
            store(name, checked_axis_numbers(getattr(self, name), name, positive=False))
        for name in ("action_scale", "context_scale"):
            store(name, checked_axis_numbers(getattr(self, name), name, positive=True))
        store("context_period", checked_period(self.context_period, "context_period"))
        for name in ("action", "context"):
            part = getattr(self, name)
            store(f"_{name}_axes", tuple(axis_counts(part)) if is_sklearn_kernel(part) else ())
        ours = [name for name in ("action", "context") if is_sklearn_kernel(getattr(self, name))]
        store("_listed", frozenset(name for name in ours if all_listed(getattr(self, name))))

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernel itself, as the only part of a sum."""
        return (self,)

    def action_covariance(self, problem: Problem) -> Array:
        """Covariance between the actions of `problem`, without `variance`; shape (n, n), exactly symmetric."""
        if isinstance(self.action, np.ndarray):
            if len(self.action) != problem.n:
                raise InvalidInput(
                    f"the action covariance matrix is for {len(self.action)} actions, but the problem has {problem.n}"
                )
            return self.action
        if problem.n > MATRIX_ACTIONS:
            raise TooLarge(
                f"the covariance matrix of {problem.n} actions would take {problem.n**2 * 8 / 1e9:.0f} GB, and at most "
                f"{MATRIX_ACTIONS} actions may have one; use method='flat', which learns with features of the actions"
            )
        matrix = self._covariances("action", self.action_inputs(problem.features))
        if "action" not in self._listed:
            _require_symmetry(matrix, f"what the action kernel {self.action} gives")
        return (matrix + matrix.T) / 2

    def action_variances(self, problem: Problem) -> Array:
        """The diagonal of `action_covariance`, shape (n,), also where the matrix would be too large."""
        if isinstance(self.action, np.ndarray) or problem.n <= MATRIX_ACTIONS:
            return np.diag(self.action_covariance(problem)).copy()
        return self._variances("action", self.action_inputs(problem.features))

    def covariance_among(self, problem: Problem, actions: Indices, others: Indices) -> Array:
        """Covariance between some actions (t,) and others (s,), without `variance`; shape (t, s)."""
        if isinstance(self.action, np.ndarray) or problem.n <= MATRIX_ACTIONS:
            return self.action_covariance(problem)[np.ix_(actions, others)]
        rows, columns = (self.action_inputs(problem.features[which]) for which in (actions, others))
        return self._covariances("action", rows, columns)

    def context_covariance(self, contexts: Array, others: Array | None = None) -> Array:
        """Covariance between contexts (k, d) and others (l, d), without `variance`; shape (k, l)."""
        if self.context is None:
            return np.ones((len(contexts), len(contexts if others is None else others)))
        columns = None if others is None else self.context_inputs(others)
        return self._covariances("context", self.context_inputs(contexts), columns)

    def context_variances(self, contexts: Array) -> Array:
        """The diagonal of `context_covariance`, shape (k,)."""
        if self.context is None:
            return np.ones(len(contexts))
        return self._variances("context", self.context_inputs(contexts))

    def is_context_covariance(self, dimension: int) -> bool:
        """Whether the context kernel is known without computing to be one for contexts of this many numbers."""
        return self.context is None or is_covariance(self.context, len(self.context_axes(dimension)))

    def action_inputs(self, points: Array) -> Array:
        """Coordinates of actions (k, d) as the action kernel sees them: shifted and scaled."""
        return _inputs(points, "action", self.action, self._action_axes, self.action_shift, self.action_scale)

    def context_inputs(self, contexts: Array) -> Array:
        """Contexts (k, d) as the context kernel sees them: shifted and scaled, and circles as two coordinates."""
        shifts = self.context_shift, self.context_scale
        if self.context_period is None:
            return _inputs(contexts, "context", self.context, self._context_axes, *shifts)
        periods = per_axis(self.context_period, contexts.shape[1], "context_period")
        flat = _inputs(contexts, "context", self.context, (), *shifts)
        around = np.broadcast_to(np.asarray(self.context_scale, dtype=np.float64), (contexts.shape[1],))
        columns: list[Array] = []
        for axis, period in enumerate(periods):
            if period is None:
                columns.append(flat[:, axis])
                continue
            # By the remainder, so that a time of many turns is at the same place to the last bit as one of none.
            angle = 2 * math.pi * (np.remainder(contexts[:, axis], period) / period)
            radius = period / (2 * math.pi * around[axis])
            columns += [radius * np.cos(angle), radius * np.sin(angle)]
        inputs = np.column_stack(columns)
        _check_axes(self._context_axes, inputs.shape[1], "context", self.context)
        return inputs

    def context_axes(self, dimension: int) -> Indices:
        """For each coordinate that the context kernel sees, the axis of the context to which it belongs."""
        if self.context_period is None:
            return np.arange(dimension)
        periods = per_axis(self.context_period, dimension, "context_period")
        return np.repeat(np.arange(dimension), [1 if period is None else 2 for period in periods])

    def fields(self) -> dict[str, Any]:
        """Arguments with which the kernel was made, by name."""
        given = [name for name in OPTIONAL_FIELDS if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in (*FIELDS, *given)}

    def _covariances(self, what: str, inputs: Array, others: Array | None = None) -> Array:
        """What the action or the context kernel says of inputs (k, d) and others (l, d), (k, l)."""
        kernel = getattr(self, what)
        given = kernel(inputs, others)
        if what in self._listed:
            return np.asarray(given, dtype=np.float64)
        shape = len(inputs), len(inputs if others is None else others)
        return _checked_values(given, shape, f"the {what} kernel {kernel}", inputs)

    def _variances(self, what: str, inputs: Array) -> Array:
        """The diagonal of `_covariances`, (k,)."""
        kernel = getattr(self, what)
        given = kernel.diag(inputs)
        if what in self._listed:
            return np.asarray(given, dtype=np.float64)
        name = f"diag of the {what} kernel {kernel}"
        values = _checked_values(given, (len(inputs),), name, inputs)
        if values.min(initial=0.0) < 0:
            worst = int(values.argmin())
            raise InvalidInput(
                f"{name} must give variances, 0 or more, but gives {values[worst]:g} for {inputs[worst].tolist()}"
            )
        return values

    def _own_context_dimension(self) -> int | None:
        if self.context is None:
            return None
        sizes = [np.size(self.context_shift), np.size(self.context_scale)]
        sizes += self._context_axes if self.context_period is None else [len(self.context_period)]
        return next((size for size in sizes if size > 1), None)


@dataclass(frozen=True, eq=False)
class KernelSum(_Summable):
    """A sum of product kernels, made by ``kernel_a + kernel_b``.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> both = hc.Kernel(RBF(0.5), RBF(0.2), variance=4.0) + hc.Kernel(RBF(0.5), variance=1.0)  # whatever the context
    >>> isinstance(both, hc.KernelSum), len(both.parts)
    (True, 2)
    """

    terms: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        terms = tuple(self.terms) if isinstance(self.terms, Iterable) else ()
        if not terms or not all(isinstance(term, Kernel) for term in terms):
            raise InvalidInput(f"a sum of kernels needs one Kernel or more, got {shown(self.terms)}")
        object.__setattr__(self, "terms", terms)

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The product kernels whose sum this is."""
        return self.terms


def _checked_values(given: Any, shape: tuple[int, ...], name: str, inputs: Array) -> Array:
    """What a class of the user's own gives, as floats."""
    values = float_array(given, f"what {name} gives")
    if values.shape != shape:
        raise InvalidInput(f"{name} must give an array of shape {shape} for these inputs, got {values.shape}")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        where = inputs[wrong[0][0]].tolist()
        raise InvalidInput(f"{name} must give finite numbers, but gives {values[tuple(wrong[0])]} for {where}")
    return values


def require_covariance(part: Kernel, problem: Problem) -> None:
    """Refuse an action kernel that gives no covariance of these actions; of very many actions it is asked of some."""
    if isinstance(part.action, np.ndarray) or is_covariance(part.action, problem.features.shape[1]):
        return
    try:
        if problem.n <= MATRIX_ACTIONS:
            checked_covariance(part.action_covariance(problem))
        else:
            some = np.linspace(0, problem.n - 1, MOST_CHECKED).astype(np.int64)
            checked_covariance(part.covariance_among(problem, some, some))
    except InvalidInput as error:
        raise InvalidInput(
            f"the action kernel {part.action} gives no covariance of these actions: {error}; use another kernel, such "
            "as RBF or Matern, or a covariance matrix"
        ) from None


def require_context_covariance(kernel: AnyKernel, contexts: Array) -> None:
    """Refuse a context kernel that gives no covariance of these contexts (k, d); of very many it is asked of some."""
    if len(contexts) > MOST_CHECKED:
        contexts = contexts[np.linspace(0, len(contexts) - 1, MOST_CHECKED).astype(np.int64)]
    for part in kernel.parts:
        if len(contexts) and not part.is_context_covariance(contexts.shape[1]):
            wrong = _no_covariance(part.context_covariance(contexts), contexts)
            if wrong:
                raise InvalidInput(
                    f"the context kernel {part.context} is not positive semidefinite: {wrong}; use another kernel, "
                    "such as RBF or Matern. If one of several numbers is an hour or a direction, give context_period "
                    "instead of a periodic kernel"
                )


def _no_covariance(matrix: Array, contexts: Array) -> str:
    """What shows that a matrix (k, k) is not a covariance of these contexts; nothing where it is one."""
    scale = float(np.abs(matrix).max())
    least = int(np.diag(matrix).argmin())
    if matrix[least, least] < 0:
        return f"the context {contexts[least].tolist()} would have the variance {matrix[least, least]:.6g}"
    pair = _uneven(matrix)
    if pair is not None:
        i, j = pair
        return (
            f"between the contexts {contexts[i].tolist()} and {contexts[j].tolist()} it is {matrix[i, j]:.6g} in one "
            f"order and {matrix[j, i]:.6g} in the other"
        )
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= -SYMMETRY_TOLERANCE * scale * len(matrix):
        return ""
    telling = np.argsort(-np.abs(vectors[:, 0]), kind="stable")
    few = next(  # the lowest eigenvalue of more contexts is never above that of some of them
        (k for k in range(2, SHOWN_CONTEXTS) if _lowest(matrix[np.ix_(telling[:k], telling[:k])]) < 0.5 * values[0]),
        min(SHOWN_CONTEXTS, len(telling)),
    )
    named = ", ".join(str(row) for row in contexts[telling[:few]].tolist())
    return f"its matrix for {len(matrix)} contexts, such as {named}, has the eigenvalue {values[0]:.3g}"


def _lowest(matrix: Array) -> float:
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0])


def is_covariance(kernel: Any, columns: int) -> bool:
    """Whether it is known without computing that a kernel of inputs (k, columns) is positive semidefinite.

    That is so for scikit-learn's usual kernels, except that a periodic kernel measures distances on a circle, so it
    takes one axis, and that roots of a kernel need not be kernels.
    """
    if not _is_listed(kernel) or (type(kernel).__name__ == "ExpSineSquared" and columns > 1):
        return False
    if type(kernel).__name__ == "Exponentiation":
        root = not float(kernel.exponent).is_integer()
        return is_covariance(kernel.kernel, columns) and not (root and type(kernel.kernel).__name__ != "RBF")
    return all(is_covariance(child, columns) for child in _children(kernel))


def all_listed(kernel: Any) -> bool:
    """Whether a kernel is one of scikit-learn's usual ones, and so are those that it is made of."""
    return _is_listed(kernel) and all(all_listed(child) for child in _children(kernel))


def check_kernel(kernel: Any) -> None:
    """Raise unless it is a kernel of ours."""
    if not isinstance(kernel, _Summable):
        raise InvalidInput(f"kernel must be a Kernel, a sum of them, or 'auto' to fit one, got {shown(kernel)}")


def summed(parts: Sequence[Kernel]) -> AnyKernel:
    """The sum of product kernels; one alone is itself."""
    return parts[0] if len(parts) == 1 else KernelSum(tuple(parts))


def _inputs(points: Array, what: str, kernel: Any, axes: tuple[int, ...], shift: Any, scale: Any) -> Array:
    dimensions = points.shape[1]
    for name, numbers in (("shift", shift), ("scale", scale)):
        if not isinstance(numbers, float) and np.size(numbers) not in (1, dimensions):
            raise InvalidInput(
                f"{what}_{name} must be {_one_or(dimensions, 'number', f'axis of the {what}s')}, got {np.size(numbers)}"
            )
    _check_axes(axes, dimensions, what, kernel)
    inputs: Array = (points - shift) / scale
    return inputs


def _check_axes(axes: tuple[int, ...], dimensions: int, what: str, kernel: Any) -> None:
    for count in axes:
        if count not in (1, dimensions):
            raise InvalidInput(
                f"the {what} kernel {kernel} must have {_one_or(dimensions, 'length scale', f'axis of the {what}s')}, "
                f"got {count}"
            )


def _one_or(dimensions: int, what: str, of: str) -> str:
    return f"one {what}" if dimensions == 1 else f"one {what}, or {dimensions}, one for each {of}"


def _same(one: Kernel, other: Kernel) -> bool:
    pairs = [(getattr(one, field), getattr(other, field)) for field in (*FIELDS, *OPTIONAL_FIELDS)]
    return all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else bool(a == b)
        for a, b in pairs
    )
