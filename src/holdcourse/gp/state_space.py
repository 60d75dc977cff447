"""A kernel over actions and time as a linear system: a sum of Matérn processes, each with features of the actions.

A process with covariance Matérn 1/2, 3/2 or 5/2 is Markov in its value and first derivatives: 1, 2 or 3 numbers for
every feature of the actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.gp.basis import principal_features
from holdcourse.gp.prior import Prior
from holdcourse.kernels import AnyKernel, Kernel

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]

TOLERANCE = 1e-12  # relative prior variance that may be discarded
MAX_STATE = 10_000  # P would take 800 MB
DERIVATIVES = {0.5: 1, 1.5: 2, 2.5: 3}  # by the nu of a Matérn kernel
# Covariance of the derivatives at rest, for variance 1 and derivative j in units of rate^j.
AT_REST = {
    1: np.ones((1, 1)),
    2: np.eye(2),
    3: np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]]),
}


def why_not_temporal(kernel: AnyKernel) -> str | None:
    """What keeps a kernel from being a sum of Matérn processes in time; None if it is one."""
    for part in kernel.parts:
        if part.context is None:
            continue
        if type(part.context).__name__ != "Matern" or part.context.nu not in DERIVATIVES:
            return f"its context part {part.context} is not Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5) or None"
        if max(map(np.size, (part.context.length_scale, part.context_shift, part.context_scale))) > 1:
            return "its context has several axes, and time is one number"
    return None


@dataclass(frozen=True, eq=False)
class StateSpace:
    """A kernel as a linear system in time; arrays as in `_numeric.kalman`."""

    phi: Array
    layout: Indices
    rates: Array
    spread: Array
    discarded: float  # eps

    @property
    def size(self) -> int:
        """Number of states, m."""
        return int(self.layout[:, 0] @ self.layout[:, 1])

    def at_rest(self) -> tuple[Array, Array]:
        """P and M before the first measurement."""
        P, D = np.zeros((self.size, self.size)), int(self.layout[:, 0].sum())
        M, first = np.zeros((D, D, len(self.phi))), 0
        for (d, r, start, _), (_, variance), spread in zip(self.layout, self.rates, self.spread, strict=True):
            states, derivatives = slice(start, start + d * r), slice(first, first + d)
            P[states, states] = np.kron(variance * AT_REST[d], np.eye(r))
            M[derivatives, derivatives] = AT_REST[d][:, :, None] * spread
            first += d
        return P, M


def state_space(prior: Prior, tolerance: float = TOLERANCE) -> StateSpace:
    """Write a kernel over actions and time as a linear system that discards at most this share of its variance."""
    obstacle = why_not_temporal(prior.kernel)
    if obstacle is not None:
        raise InvalidInput(f'this kernel is no process in time: {obstacle}; use method "exact" or "flat"')
    known: list[tuple[Array, int, int, float]] = []  # action covariance, first feature, features, eps
    blocks: list[Array] = []
    layout, rates, discarded, start = [], [], 0.0, 0
    for part in prior.kernel.parts:
        covariance = part.action_covariance(prior.problem)
        found = next((entry for entry in known if np.array_equal(entry[0], covariance)), None)
        if found is None:
            phi, left = principal_features(covariance, tolerance)
            found = (covariance, sum(block.shape[1] for block in blocks), phi.shape[1], left)
            known.append(found)
            blocks.append(phi)
        _, column, r, left = found
        d = 1 if part.context is None else DERIVATIVES[part.context.nu]
        layout.append((d, r, start, column))
        rates.append((_rate(part), part.variance))
        discarded += part.variance * left
        start += d * r
    if start > MAX_STATE:
        raise TooLarge(
            f"{len(layout)} processes over {prior.problem.n} actions need {start} states, more than {MAX_STATE}; "
            "use a smoother action kernel, fewer actions or a larger tolerance"
        )
    phi = np.ascontiguousarray(np.concatenate(blocks, axis=1))
    spread = np.array(
        [v * (phi[:, k : k + r] ** 2).sum(axis=1) for (_, r, _, k), (_, v) in zip(layout, rates, strict=True)]
    )
    return StateSpace(phi, np.array(layout, dtype=np.int64), np.array(rates), spread, discarded)


def _rate(part: Kernel) -> float:
    if part.context is None:
        return 0.0
    length = np.reshape(part.context.length_scale, -1)[0] * np.reshape(part.context_scale, -1)[0]
    return float(math.sqrt(2 * part.context.nu) / length)
