"""Costs of very many settings, learned as a sum over groups of knobs.

=======  =====================================================================================  ===============
symbol   meaning                                                                                shape
=======  =====================================================================================  ===============
G        groups of knobs
psi      features of a context                                                                  (J,)
phi_g    features of the settings of group g; each column sums to 0 over them                   (n_g, r_g)
v_0      variance of the level, which all settings share in a context
v_g      variance of what the settings of group g add to it
h        features of a measurement: sqrt(v_0) psi, and sqrt(v_g) phi_g[x_g] (x) psi per group   (m,)
w, S     mean and covariance of the weights                                                     (m,), (m, m)
=======  =====================================================================================  ===============

A measurement is the level plus what each group adds, plus noise, so the posterior is that of one Gaussian process whose
kernel is a sum over groups, **jointly** for all groups: what one adds is told from what the others add. It is kept as m
weights, so a round costs the same after a year. What a group adds is centred, or a constant could wander between groups
and would never be known.

**Hope.** What a group adds is never seen alone, but the cost of the whole setting is. So a rule that plans for one
group is shown how sure the cost of the *whole* setting is if this group alone turns: where one is it is well known,
however the parts share it, and elsewhere less so the more nobody has turned the knob.

**Fitted.** Length scales, variances and noise are chosen by the likelihood of the measurements when there are 8, 16, 32
and so on of them, up to `KEPT`; from then on they stay. Before that, a group is expected to matter about as much as it
costs to turn it: if it mattered much less, one would never turn it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from holdcourse.archive import Arrays, require_arrays
from holdcourse.checks import flag, float_array, is_finite
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import Estimate
from holdcourse.learning.history import check_context, check_measurement, context_rows, context_vector
from holdcourse.movement.knobs import Knobs
from holdcourse.movement.problem import Problem, mean_way

Array: TypeAlias = NDArray[np.float64]

KEPT = 512  # measurements, for fits
FIRST_FIT = 8
LENGTHS = (0.3, 0.6, 1.2)  # tried, in units of a knob's range, and of the contexts' box
FACTORS = (0.25, 4.0, 0.5, 2.0)  # by which each variance is tried to be changed
PRIOR_WIDTH = 1.5  # deviation of the logarithm of such a factor
MOST_WEIGHTS = 1_200
TOLERANCE = 1e-3  # of the largest eigenvalue: smaller features are left out
CONTEXT_POINTS = {0: 1, 1: 33, 2: 9, 3: 6}  # along each axis, by number of axes
HALF_WAY = 0.5  # of a mean move: how much a group is expected to matter, as a deviation, before anything is measured
LEAST_WAY = 0.2  # and at least, whatever a fit says
NAMES = ("weights", "covariance", "entries", "contexts", "measurements", "told", "beliefs")


@dataclass(frozen=True)
class Beliefs:
    """What is fitted: lengths as shares of a range, and deviations in units of the measurement.

    Attributes
    ----------
    groups
        Deviation of what each group adds.
    """

    mean: float
    noise: float
    level: float
    groups: tuple[float, ...]
    length: float = 0.6
    context_length: float = 0.3

    def array(self) -> Array:
        """The numbers, one after the other."""
        return np.array([self.mean, self.noise, self.level, self.length, self.context_length, *self.groups])

    @classmethod
    def of(cls, numbers: Array) -> Beliefs:
        """Read what `array` gave."""
        mean, noise, level, length, context_length, *groups = numbers.tolist()
        return cls(mean, noise, level, tuple(groups), length, context_length)


class AdditiveCosts:
    """A cost model of knobs in groups: lower bounds of what each group adds.

    Parameters
    ----------
    problem
        The knobs.
    context_bounds
        The box that contexts come from, a (low, high) pair for each number; None: there are no contexts.
    noise_std, prior_mean, spread
        Deviation of a measurement, the expected cost, and by how much the settings of one group differ, as a deviation;
        what is not given is fitted.
    width
        Width of the bounds, in standard deviations.
    maximise
        What is measured are gains.

    Examples
    --------
    >>> import holdcourse as hc
    >>> from holdcourse.learning.additive import AdditiveCosts
    >>> model = AdditiveCosts(hc.knobs(a=hc.knob([1, 2, 3], change=1.0), b=hc.knob(["x", "y"], change=1.0)))
    >>> model.learn(0, None, 5.0)
    1.0
    >>> model.estimate(None).expected.shape  # three settings of one group, and two of the other
    (5,)
    """

    needs_costs = False

    def __init__(
        self,
        problem: Knobs,
        *,
        context_bounds: ArrayLike | None = None,
        noise_std: float | None = None,
        prior_mean: float | None = None,
        spread: float | None = None,
        width: float = 0.5,
        maximise: bool = False,
    ) -> None:
        if not isinstance(problem, Knobs):
            raise InvalidInput(f"this model is for hc.knobs(...), got {problem!r}; use hc.planner for other problems")
        for name, value in (("noise_std", noise_std), ("spread", spread)):
            if value is not None and not (is_finite(value) and value > 0):
                raise InvalidInput(f"{name} must be above 0, or None to have it fitted, got {shown(value)}")
        if not (is_finite(width) and width >= 0):
            raise InvalidInput(f"width must be 0 or more, got {shown(width)}")
        if prior_mean is not None and not is_finite(prior_mean):
            raise InvalidInput(f"prior_mean must be a number, or None to have it fitted, got {shown(prior_mean)}")
        self.problem, self.width, self.maximise = problem, float(width), flag(maximise, "maximise")
        self._box = _box(context_bounds)
        self._given = {"noise_std": noise_std, "prior_mean": prior_mean, "spread": spread}
        self._ways = np.array([max(mean_way(group), 1e-12) for group in problem.groups])
        self._inputs = [_inputs(group) for group in problem.groups]
        groups = tuple(HALF_WAY * way if spread is None else float(spread) for way in self._ways.tolist())
        total = math.sqrt(sum(each**2 for each in groups))
        self._floor = groups if spread is not None else tuple((LEAST_WAY * self._ways).tolist())
        noise = 0.3 * total if noise_std is None else float(noise_std)
        first = Beliefs(0.0 if prior_mean is None else self._sign * float(prior_mean), noise, total, groups)
        self._entries = np.zeros((0, len(groups)), dtype=np.int64)
        self._contexts = np.zeros((0, len(self._box)))
        self._measured = np.zeros(0)
        self.told = 0
        self._w: Array = np.zeros(0)
        self._S: Array = np.zeros((0, 0))
        self._shared: tuple[Any, dict[bytes, tuple[Array, Array]]] = (None, {})
        self._believe(first)

    @property
    def _sign(self) -> float:
        return -1.0 if self.maximise else 1.0

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of a measurement, as it is believed to be now."""
        return self.beliefs.noise**2

    # -- what is believed of a round ---------------------------------------------------------------------------------

    def estimate(self, context: Any, shown: ArrayLike | None = None) -> Estimate:
        """What each setting of each group adds in this context, by entry; the level is shared out evenly."""
        e = self._checked(context)[None]
        self._shared = (None, {})  # what an earlier round asked for, in other batches, differs in last digits
        mean, std = (np.concatenate([each[k][0] for each in self._of_groups(e)]) for k in range(2))
        return Estimate(mean - self.width * std, mean, self._sign * mean, std)

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Lower bounds in each of k contexts, by entry."""
        return self.costs_at_optimism(contexts, 1.0)

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Lower bounds with `optimism` times the width, by entry."""
        rows = self._clipped(context_rows(contexts))
        return np.concatenate([mean - optimism * self.width * std for mean, std in self._of_groups(rows)], axis=1)

    def of_group(self, group: int, places: tuple[int, ...]) -> GroupCosts:
        """The costs for a rule that plans for one group alone, while the others are where they are, at `places`."""
        return GroupCosts(self, group, places)

    def group_at(self, group: int, places: tuple[int, ...], contexts: ArrayLike, optimism: float) -> Array:
        """Lower bounds by what one group adds in each of k contexts, (k, n_g), as sure as the whole setting is."""
        rows = self._clipped(context_rows(contexts))
        psi = self._psi(rows)
        phi, block, J = self._phi[group], self._blocks[group], psi.shape[1]
        r = phi.shape[1]
        level = self.beliefs.mean + self.beliefs.level * psi @ self._w[:J]
        mean = psi @ self._w[block].reshape(r, J).T @ phi.T + level[:, None] / len(self._phi)
        if optimism == 0.0 or self.width == 0.0:
            return np.asarray(mean)
        H, SH = self._here(places, rows)
        apart = phi - phi[places[group]]
        across = (SH[:, block].reshape(len(rows), r, J) * psi[:, None, :]).sum(axis=2)
        variance = (H * SH).sum(axis=1)[:, None] + 2.0 * across @ apart.T + self._variances(block, apart, psi)
        return np.asarray(mean - optimism * self.width * np.sqrt(np.maximum(variance, 0.0)))

    def _here(self, places: tuple[int, ...], contexts: Array) -> tuple[Array, Array]:
        """Features of a setting in each of k contexts, and these times S; (k, m) each. All groups ask for them."""
        if self._shared[0] != (self.told, places):
            self._shared = (self.told, places), {}
        known = self._shared[1]
        rows = [row.tobytes() for row in contexts]
        new = [k for k, row in enumerate(rows) if row not in known]
        if new:
            H = self._features(np.repeat(np.array([places]), len(new), axis=0), contexts[new])
            known |= {rows[k]: pair for k, pair in zip(new, zip(H, H @ self._S, strict=True), strict=True)}
        pairs = [known[row] for row in rows]
        return np.array([h for h, _ in pairs]), np.array([sh for _, sh in pairs])

    def _of_groups(self, contexts: Array) -> list[tuple[Array, Array]]:
        psi = self._psi(contexts)
        return [self._of_group(group, psi) for group in range(len(self._phi))]

    def _of_group(self, group: int, psi: Array) -> tuple[Array, Array]:
        """Mean and deviation of what a group adds, (k, n_g) each; to the mean comes its share of the level."""
        phi, block, J = self._phi[group], self._blocks[group], psi.shape[1]
        r = phi.shape[1]
        w = self._w[block].reshape(r, J)
        level = self.beliefs.mean + self.beliefs.level * psi @ self._w[:J]
        mean = psi @ w.T @ phi.T + level[:, None] / len(self._phi)
        return mean, np.sqrt(np.maximum(self._variances(block, phi, psi), 0.0))

    def _variances(self, block: slice, phi: Array, psi: Array) -> Array:
        """Variance of what features phi (n, r) of a group's settings add in contexts of features psi (k, J); (k, n)."""
        r, J = phi.shape[1], psi.shape[1]
        half = (self._S[block, block].reshape(-1, J) @ psi.T).reshape(r, J, r, len(psi))
        inner = np.einsum("ajbk,kj->kab", half, psi)
        return np.asarray((np.matmul(phi, inner) * phi).sum(axis=2))

    # -- learning ----------------------------------------------------------------------------------------------------

    def learn(self, action: int, context: Any, measurement: float) -> float:
        """Take in a measurement."""
        entries = self.problem.within_groups(action)
        e, y = self._checked(context), self._sign * check_measurement(measurement)
        self.told += 1
        if len(self._measured) < KEPT:
            self._entries = np.vstack([self._entries, entries])
            self._contexts = np.vstack([self._contexts, e])
            self._measured = np.append(self._measured, y)
            if self.told == 1 and self._given["prior_mean"] is None:
                self._believe(replace(self.beliefs, mean=y))
                return 1.0
            if self.told >= FIRST_FIT and self.told & (self.told - 1) == 0:
                self._believe(self._fitted())
                return 1.0
        self._condition(self._features(np.array([entries]), e[None])[0], y)
        return 1.0

    def _condition(self, h: Array, y: float) -> None:
        g = self._S @ h
        s = self.beliefs.noise**2 + max(float(h @ g), 0.0)
        self._w = self._w + g * ((y - self.beliefs.mean - float(h @ self._w)) / s)
        self._S = self._S - np.outer(g, g / s)

    def _features(self, entries: NDArray[np.int64], contexts: Array) -> Array:
        """Features h of measurements, (t, m)."""
        psi = self._psi(contexts)
        parts = [self.beliefs.level * psi]
        for group, phi in enumerate(self._phi):
            parts.append((phi[entries[:, group]][:, :, None] * psi[:, None, :]).reshape(len(psi), -1))
        return np.concatenate(parts, axis=1)

    def _believe(self, beliefs: Beliefs) -> None:
        """Take on beliefs, and learn what was kept again under them."""
        self.beliefs = beliefs
        self._points, self._root = _context_basis(self._box, beliefs.context_length)
        bases = [_group_basis(inputs, beliefs.length) for inputs in self._inputs]
        J, most = _sizes(self._root, bases)
        self._root = self._root[:, :J]
        self._phi = [s * basis[:, :most] for s, basis in zip(beliefs.groups, bases, strict=True)]
        ends = np.cumsum([J, *(phi.shape[1] * J for phi in self._phi)]).tolist()
        self._blocks = [slice(begin, end) for begin, end in itertools.pairwise(ends)]
        m = ends[-1]
        self._w, self._S = np.zeros(m), np.eye(m)
        if len(self._measured):
            H = self._features(self._entries, self._contexts)
            K = H @ H.T
            K.reshape(-1)[:: len(K) + 1] += beliefs.noise**2
            factor = cho_factor(K, lower=True)
            self._w = H.T @ cho_solve(factor, self._measured - beliefs.mean)
            self._S = self._S - H.T @ cho_solve(factor, H)

    def _fitted(self) -> Beliefs:
        """The beliefs under which the measurements kept are most probable, near to the first ones."""
        best = self.beliefs
        mean = float(self._measured.mean()) if self._given["prior_mean"] is None else best.mean
        best = replace(best, mean=mean)
        contexts = LENGTHS if len(self._box) else (best.context_length,)
        found = -math.inf
        chosen: tuple[Beliefs, list[Array]] | None = None
        for length, context_length in itertools.product(LENGTHS, contexts):
            tried = replace(best, length=length, context_length=context_length)
            parts = self._covariances(tried)
            likely = self._likelihood(tried, parts)
            if likely > found:
                found, chosen = likely, (tried, parts)
        assert chosen is not None
        best, parts = chosen
        free: list[str | int] = [] if self._given["noise_std"] is not None else ["noise"]
        free += [] if self._given["spread"] is not None else ["level", *range(len(best.groups))]
        for factor, which in itertools.product(FACTORS, free):
            tried = _changed(best, which, factor, self._floor)
            likely = self._likelihood(tried, parts)
            if likely > found:
                found, best = likely, tried
        return best

    def _covariances(self, beliefs: Beliefs) -> list[Array]:
        """Covariances of the measurements kept under the level and each group, at a deviation of 1."""
        psi = self._psi(self._contexts, beliefs.context_length)
        among: Array = psi @ psi.T
        found = [among]
        for inputs, entries in zip(self._inputs, self._entries.T, strict=True):
            phi = _group_basis(inputs, beliefs.length)[entries]
            found.append((phi @ phi.T) * among)
        return found

    def _likelihood(self, beliefs: Beliefs, parts: list[Array]) -> float:
        """Log density of the measurements kept, and of the beliefs before them."""
        K = beliefs.level**2 * parts[0]
        for deviation, part in zip(beliefs.groups, parts[1:], strict=True):
            K = K + deviation**2 * part
        K.reshape(-1)[:: len(K) + 1] += beliefs.noise**2
        factor, lower = cho_factor(K, lower=True)
        z = self._measured - beliefs.mean
        likely = -0.5 * float(z @ cho_solve((factor, lower), z)) - float(np.log(np.diag(factor)).sum())
        ratios = [deviation / (HALF_WAY * way) for deviation, way in zip(beliefs.groups, self._ways, strict=True)]
        typical = float(np.exp(np.mean(np.log(ratios))))
        prior = sum((math.log(ratio / typical) / PRIOR_WIDTH) ** 2 for ratio in ratios)
        prior += (math.log(typical) / (2 * PRIOR_WIDTH)) ** 2
        total = math.sqrt(sum(each**2 for each in beliefs.groups))
        prior += (math.log(beliefs.noise / (0.3 * total)) / (2 * PRIOR_WIDTH)) ** 2
        prior += (math.log(beliefs.level / total) / (2 * PRIOR_WIDTH)) ** 2
        return likely - 0.5 * prior

    # -- contexts ----------------------------------------------------------------------------------------------------

    def _checked(self, context: Any) -> Array:
        vector = context_vector(context)
        if len(vector) and not len(self._box):
            raise InvalidInput(
                f"the context {vector.tolist()} was given, but the range of contexts was not; make the policy with "
                "context_bounds=[(low, high), ...], a pair for each number"
            )
        check_context(vector, len(self._box))
        inside: Array = self._clipped(vector[None])[0]
        return inside

    def _clipped(self, contexts: Array) -> Array:
        """Contexts within the box: beyond it they count as its edge."""
        return contexts if not len(self._box) else np.clip(contexts, self._box[:, 0], self._box[:, 1])

    def _psi(self, contexts: Array, length: float | None = None) -> Array:
        """Features of contexts, (k, J)."""
        if not len(self._box):
            return np.ones((len(contexts), 1))
        points, root = (self._points, self._root) if length is None else _context_basis(self._box, length)
        length = self.beliefs.context_length if length is None else length
        inside = (contexts - self._box[:, 0]) / (self._box[:, 1] - self._box[:, 0])
        return np.asarray(_alike(inside, points, length) @ root)

    # -- what every cost model has -----------------------------------------------------------------------------------

    def new_episode(self) -> None:
        """Nothing waits for the end of an episode."""

    def copy(self) -> AdditiveCosts:
        """Make an independent twin."""
        twin = AdditiveCosts(self.problem, **self._options())
        return twin.restore(self.state())

    def state(self) -> Arrays:
        """Everything learned, as arrays."""
        return {
            "weights": self._w.copy(),
            "covariance": self._S.copy(),
            "entries": self._entries.copy(),
            "contexts": self._contexts.copy(),
            "measurements": self._measured.copy(),
            "told": np.array(self.told),
            "beliefs": self.beliefs.array(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> AdditiveCosts:
        """Take over what `state` of an equal model gave."""
        require_arrays(arrays, NAMES, "additive costs")
        entries = np.array(arrays["entries"], dtype=np.int64).reshape(-1, len(self._ways))
        beliefs, sizes = Beliefs.of(np.array(arrays["beliefs"])), np.array([group.n for group in self.problem.groups])
        if len(beliefs.groups) != len(self._ways) or (entries < 0).any() or (entries >= sizes).any():
            raise InvalidInput(
                "this state is damaged, or belongs to other knobs; make the policy with the same problem"
            )
        self._entries, self._measured = entries[:0], np.zeros(0)
        self._believe(beliefs)  # with nothing to learn again: that is in the weights
        if arrays["weights"].shape != self._w.shape or arrays["covariance"].shape != self._S.shape:
            raise InvalidInput("this state is damaged: its weights do not fit the knobs")
        self._entries = entries
        self._contexts = np.array(arrays["contexts"]).reshape(len(entries), len(self._box))
        self._measured = np.array(arrays["measurements"])
        self._w, self._S = np.array(arrays["weights"]), np.array(arrays["covariance"])
        self.told = int(arrays["told"])
        self._shared = (None, {})
        return self

    def _options(self) -> dict[str, Any]:
        box = self._box.tolist() if len(self._box) else None
        return {"context_bounds": box, "width": self.width, "maximise": self.maximise, **self._given}

    def describe(self) -> dict[str, Any]:
        """What the model is, in JSON values."""
        return {"model": "AdditiveCosts", **self._options()}

    def in_words(self) -> str:
        """Say what is believed to matter, by group."""
        names = [" with ".join(group.axis_names or ()) for group in self.problem.groups]
        order = np.argsort([-each for each in self.beliefs.groups], kind="stable")
        listed = ", ".join(f"{names[k]} {self.beliefs.groups[k]:.3g}" for k in order)
        return (
            f"After {self.told} measurements: noise {self.beliefs.noise:.3g}; settings of a group differ by {listed}."
        )


@dataclass(frozen=True, eq=False)
class GroupCosts:
    """What one group adds while the others are at their places, as a rule that plans may ask for it."""

    model: AdditiveCosts
    group: int
    places: tuple[int, ...]

    def costs_at(self, contexts: ArrayLike) -> Array:
        """Lower bounds in each of k contexts, (k, n_g)."""
        return self.model.group_at(self.group, self.places, contexts, 1.0)

    def costs_at_optimism(self, contexts: ArrayLike, optimism: float) -> Array:
        """Lower bounds with `optimism` times the width, (k, n_g)."""
        return self.model.group_at(self.group, self.places, contexts, optimism)


def _changed(beliefs: Beliefs, which: str | int, factor: float, floor: tuple[float, ...]) -> Beliefs:
    if isinstance(which, str):
        return replace(beliefs, **{which: factor * getattr(beliefs, which)})
    groups = list(beliefs.groups)
    groups[which] = max(factor * groups[which], floor[which])
    return replace(beliefs, groups=tuple(groups))


def _inputs(group: Problem) -> Array:
    """Coordinates of a group's settings, (n, c): each knob from 0 to 1 in even steps, names apart by 1."""
    columns = []
    for axis, knob in enumerate(group.knobs or ()):
        values = np.array(knob.coordinates)
        order = np.argsort(values)
        ranks = np.searchsorted(values[order], group.actions[:, axis])  # of each setting's value, by size
        even = (ranks / max(len(values) - 1, 1))[:, None]
        columns.append(knob.features[order[ranks]] if knob.is_category else even)
    return np.concatenate(columns, axis=1)


def _alike(points: Array, others: Array, length: float) -> Array:
    apart = ((points[:, None, :] - others[None]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * apart / length**2))


_CACHED: dict[tuple[bytes, tuple[int, ...], float], Array] = {}


def _group_basis(inputs: Array, length: float) -> Array:
    """Features (n, r) of a group's settings, centred over them, largest first; their mean variance is 1."""
    key = inputs.tobytes(), inputs.shape, length
    if key not in _CACHED:
        if len(_CACHED) > 256:
            _CACHED.clear()
        K = _alike(inputs, inputs, length)
        centred = K - K.mean(axis=0)[None] - K.mean(axis=1)[:, None] + K.mean()
        values, vectors = np.linalg.eigh((centred + centred.T) / 2)
        keep = values > TOLERANCE * max(values[-1], 1e-300)
        basis = vectors[:, keep][:, ::-1] * np.sqrt(values[keep][::-1])
        size = float((basis**2).sum(axis=1).mean())
        _CACHED[key] = basis / math.sqrt(size) if size > 0 else np.zeros((len(inputs), 1))
    return _CACHED[key]


def _sizes(root: Array, bases: list[Array]) -> tuple[int, int]:
    """How many features of contexts and of each group's settings to use: those that keep most of the variance.

    All of them if they are no more than `MOST_WEIGHTS` together. Both lists have the largest first.
    """
    among_contexts = np.cumsum(1.0 / (root**2).sum(axis=0))
    best = 1, 1
    kept = 0.0
    for most in range(1, max(basis.shape[1] for basis in bases) + 1):
        weights = 1 + sum(min(most, basis.shape[1]) for basis in bases)  # for each feature of a context
        count = min(max(MOST_WEIGHTS // weights, 1), root.shape[1])
        share = sum(float((basis[:, :most] ** 2).sum(axis=1).mean()) for basis in bases) * among_contexts[count - 1]
        if share > kept * (1.0 + 1e-12) and (most == 1 or weights <= MOST_WEIGHTS):
            best, kept = (count, most), share
    return best


def _context_basis(box: Array, length: float) -> tuple[Array, Array]:
    """Points (q, d) in the unit box and a root (q, J): features of a context are its likeness to them times it."""
    d = len(box)
    if d == 0:
        return np.zeros((1, 0)), np.ones((1, 1))
    if d in CONTEXT_POINTS:
        axis = np.linspace(0.0, 1.0, CONTEXT_POINTS[d])
        points = np.stack([each.reshape(-1) for each in np.meshgrid(*[axis] * d, indexing="ij")], axis=1)
    else:
        from scipy.stats.qmc import Halton

        points = Halton(d, scramble=False).random(200)
    values, vectors = np.linalg.eigh(_alike(points, points, length))
    keep = values > TOLERANCE * values[-1]
    return points, vectors[:, keep][:, ::-1] / np.sqrt(values[keep][::-1])


def _box(bounds: ArrayLike | None) -> Array:
    if bounds is None:
        return np.zeros((0, 2))
    try:
        pairs = float_array(bounds, "context_bounds")
    except InvalidInput:
        pairs = np.zeros((0, 0))
    pairs = pairs[None] if pairs.shape == (2,) else pairs
    if pairs.ndim != 2 or pairs.shape[1:] != (2,) or not np.isfinite(pairs).all() or (pairs[:, 0] >= pairs[:, 1]).any():
        raise InvalidInput(f"context_bounds must be (low, high) for each number of a context, got {shown(bounds)}")
    return pairs
