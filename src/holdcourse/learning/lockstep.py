"""Cost models of many members at once: what a fleet asks, and lower bounds of flat posteriors on one basis.

A member's numbers are those of a single `LowerBound` to the last bit: every product of matrices has the same shape
here as there, and what is compiled is the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import lockstep
from holdcourse.archive import Arrays, under
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.learning.confidence import TheoryWidth
from holdcourse.learning.costs import OUTLIERS, WAITING, CostModel, LowerBound, StackedMap, can, checked_costs, name_of
from holdcourse.learning.posteriors.flat import FlatPosterior, packed, unpacked, variances_each

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
MOST_NUMBERS = 4_000_000_000  # in the covariances of all members: 32 GB
TOGETHER = 512  # members whose bounds are made at a time: their arrays stay in the cache


class CostsTogether(Protocol):
    """A cost model for each of several members, of one kind. Members that take part are named by index, (k,)."""

    dimension: int | None  # numbers of a context; None: any, and no matter which

    def check(self, members: Ints, contexts: Array) -> None:
        """Raise where a context (k, d) cannot be asked; changes nothing."""
        ...

    def look(self, members: Ints, contexts: Array, rounds: int, interval: float) -> tuple[Array, Array]:
        """Costs of each round of a plan, (k, rounds, n), the present one first; and costs expected now, (k, n)."""
        ...

    def settled_costs(self, members: Ints) -> Array | None:
        """What settling at each action costs every member, (k, n), as `SettledCosts` says; None where it is unknown."""
        ...

    def learn(self, members: Ints, actions: Ints, contexts: Array, measurements: Array) -> None:
        """Take in a measurement of every member that takes part."""
        ...

    def state(self) -> Arrays:
        """What all members have learned; arrays whose first axis is the member."""
        ...

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        ...

    def state_of(self, member: int) -> Arrays:
        """What one member has learned, as a single model's `state` gives it."""
        ...


@runtime_checkable
class LockstepModel(Protocol):
    """A cost model that can be kept for many members at once."""

    def in_lockstep(self, count: int) -> CostsTogether | None:
        """Make so many, each as this one is now; None where this one has options that need it to be alone."""
        ...


def costs_together(model: CostModel, count: int) -> CostsTogether | None:
    """Return so many models like this one, to be asked together; None where they cannot be."""
    if isinstance(model, LowerBound):
        return flat_bounds(model, count)
    return model.in_lockstep(count) if isinstance(model, LockstepModel) else None


def flat_bounds(model: LowerBound, count: int) -> FlatBounds | None:
    """Return so many lower bounds; None where this model does more with a measurement than a posterior does."""
    plain = type(model) is LowerBound and type(model.posterior) is FlatPosterior
    bare = model.every == "round" and model.guard is None and not model.guaranteed
    return FlatBounds(model, count) if plain and bare and not isinstance(model.width, TheoryWidth) else None


class FlatBounds:
    """Lower bounds of members whose posteriors are flat and share a basis; see `costs.LowerBound`.

    Contexts that the basis does not cover are refused: learning from one would give that member another basis.
    """

    def __init__(self, model: LowerBound, count: int) -> None:
        assert isinstance(model.posterior, FlatPosterior)
        assert not isinstance(model.width, TheoryWidth)
        self._model, self._width = model, float(model.width)
        self._posterior = posterior = model.posterior.copy()
        self._state = model.state()
        self.dimension = posterior.layout.dimension
        own = posterior.state()
        weights = len(own["weights"])
        if count * weights**2 > MOST_NUMBERS:
            raise TooLarge(
                f"{count:,} members with {weights} weights each would take {count * weights**2 * 8 / 1e9:.0f} GB; make "
                "smaller fleets one after the other, or let them learn fewer weights: longer length scales, fewer "
                "contexts"
            )
        self._S = np.repeat(unpacked(own["covariance"])[None], count, axis=0)
        self._w = np.repeat(own["weights"][None], count, axis=0)
        self._g, self._c = np.zeros_like(self._w), np.zeros(count)
        self._observations = np.full(count, posterior.observations)
        self._totals = np.tile([posterior.log_marginal_likelihood, posterior.information_gain], (count, 1))
        self._Phi = posterior.layout.action_features()
        self._columns = np.asfortranarray(self._Phi.T)

    def check(self, members: Ints, contexts: Array) -> None:
        """Raise where the basis does not cover a context."""
        for row, (_, missed) in zip(*self._distinct(contexts)[:2], strict=True):
            if missed is not None:
                member = int(members[np.flatnonzero((contexts == row).all(axis=1))[0]])
                raise InvalidInput(
                    f"the context {row.tolist()} of member {member} is not covered by the members' common basis; "
                    "list all contexts that can occur in contexts=, or give wider context_bounds="
                )

    def look(self, members: Ints, contexts: Array, rounds: int, interval: float) -> tuple[Array, Array]:
        """Lower bounds now; there is nothing to say of rounds to come."""
        n, r = self._Phi.shape
        costs, expected = np.empty((len(members), 1, n)), np.empty((len(members), n))
        rows, features, which = self._distinct(contexts)
        psis = np.array([psi for psi, _ in features])
        means = self._posterior.prior.means(rows)
        for begin in range(0, len(members), TOGETHER):
            part = slice(begin, begin + TOGETHER)
            at = which[part]
            shared, v = np.empty((len(at), r, r)), np.empty((len(at), r))
            lockstep.sweeps(
                members[part],
                self._S,
                self._g,
                self._c,
                psis[at],
                self._posterior.layout.start,
                self._posterior.layout.column,
                self._w,
                shared,
                v,
            )
            variance = variances_each(shared, self._columns) if r else np.zeros((len(at), n))
            mean = means[at] + np.matmul(self._Phi, v[:, :, None])[:, :, 0]
            spread = self._width * np.sqrt(variance)
            costs[part, 0] = self._least_costs(mean - spread, mean + spread)
            expected[part] = self._least_costs(mean, mean)
        return costs, expected

    def settled_costs(self, members: Ints) -> None:
        """Return nothing: a lower bound does not know the long run."""

    def learn(self, members: Ints, actions: Ints, contexts: Array, measurements: Array) -> None:
        """Condition every member's weights on its measurement."""
        posterior, layout = self._posterior, self._posterior.layout
        rows, features, which = self._distinct(contexts)
        psis, means = np.array([psi for psi, _ in features])[which], posterior.prior.means(rows)[which]
        excess = measurements - means[np.arange(len(members)), actions]
        # In rows: a product of two rows rounds otherwise where they are not contiguous.
        phis = np.ascontiguousarray(psis[:, layout._segment_of] * self._Phi[actions][:, layout._column_of])
        gains, a = np.empty_like(phis), posterior.forgetting
        lockstep.gains(members, self._S, self._g, self._c, a * a, phis, gains)
        if a < 1.0:
            self._w[members] *= a
        spread = _dots(phis, gains)
        surprise = excess - _dots(phis, self._w[members])
        lockstep.condition(
            members,
            self._w,
            self._g,
            self._c,
            self._totals,
            gains,
            spread,
            surprise,
            posterior.prior.noise_variance,
        )
        self._observations[members] += 1

    def state(self) -> Arrays:
        """Weights, covariances and totals of all members."""
        lockstep.settled(np.arange(len(self._w)), self._S, self._g, self._c)
        return {
            "weights": self._w.copy(),
            "covariance": np.array([packed(S) for S in self._S]),
            "observations": self._observations.copy(),
            "totals": self._totals.copy(),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        self._w = np.array(arrays["weights"])
        self._S = np.array([unpacked(row) for row in arrays["covariance"]])
        self._observations, self._totals = np.array(arrays["observations"]), np.array(arrays["totals"])
        self._g, self._c = np.zeros_like(self._w), np.zeros(len(self._w))

    def state_of(self, member: int) -> Arrays:
        """What a single model's `state` gives."""
        lockstep.settled(np.array([member]), self._S, self._g, self._c)
        own = under("posterior.", self._state) | {
            "weights": self._w[member].copy(),
            "covariance": packed(self._S[member]),
            "observations": np.array(int(self._observations[member])),
            "log_likelihood": np.array(self._totals[member, 0]),
            "gain": np.array(self._totals[member, 1]),
        }
        kept = {name: self._state[name] for name in (*WAITING, *OUTLIERS)}
        return {f"posterior.{name}": array for name, array in own.items()} | kept

    def _distinct(self, contexts: Array) -> tuple[Array, list[tuple[Array, Array | None]], Ints]:
        """Contexts without repeats, their features, and which of them each of (k, d) is."""
        rows, which = np.unique(contexts, axis=0, return_inverse=True)
        return rows, [self._posterior._features(row) for row in rows], which.reshape(-1)

    def _least_costs(self, low: Array, high: Array) -> Array:
        """`LowerBound._least_costs` of each row."""
        model, n = self._model, low.shape[1]
        if model.interval_map is None:
            return -high if model.maximise else low
        what = f"costs from {name_of(model.interval_map)}"
        if not can(model.interval_map, StackedMap):
            return np.array([checked_costs(model.interval_map(a, b), n, what) for a, b in _pairs(low, high)])
        costs = 1.0 * np.asarray(model.interval_map.of_each(low, high)) + 0.0
        if costs.shape != low.shape or not (costs > -np.inf).all():
            raise InvalidInput(f"{what} must be {n} numbers for each member, one per action, inf to forbid one")
        return np.asarray(costs)


def _pairs(low: Array, high: Array) -> list[tuple[Array, Array]]:
    """Rows of both; the same array twice where they are the same, as a map may look at that."""
    return [(a, a) if low is high else (a, b) for a, b in zip(low, high, strict=True)]


def _dots(a: Array, b: Array) -> Array:
    """Products of rows, each as ``a[i] @ b[i]`` gives it."""
    return np.asarray(np.matmul(a[:, None, :], b[:, :, None])[:, 0, 0])
