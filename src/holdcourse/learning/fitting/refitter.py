"""Fitting again and again beside a running posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse.archive import require_arrays
from holdcourse.checks import checked_seed, whole_number
from holdcourse.learning.fitting.points import PriorMean, checked_history
from holdcourse.learning.fitting.search import Fit, Search, fit_from_json, fit_to_json
from holdcourse.learning.history import History, check_context, check_measurement, require_squarable
from holdcourse.learning.kernels import AnyKernel
from holdcourse.movement.problem import Problem

Array: TypeAlias = NDArray[np.float64]
Measured: TypeAlias = tuple[int, Array, float]

FIRST_RESTARTS = 2  # of the first fit; every later one starts from the last alone
STATE = ("actions", "contexts", "measurements", "counts", "fit")


class Refitter:
    """Says when to fit and fits, with bounded memory and bounded work per fit.

    It keeps at most `capacity` measurements: the newest half of that, and a random sample of all older ones. A fit is
    due after `first`, 2 `first`, 4 `first`, ... measurements until the gap reaches `longest`, then every `longest`.
    All depends on the measurements, their number and the seed only, so a run that is stopped and resumed by `state`
    and `restore` goes on bit-identically. It never warns: read `Fit.on_bounds`.

    Parameters
    ----------
    problem, kernel, noise_std, prior_mean, seed
        As for `fit_kernel`.
    first, longest
        First gap between two fits, and the longest.
    capacity
        Measurements kept, and seen by each fit.
    evaluations
        How often a fit may evaluate the likelihood of all that is kept; a line search may add a few, and the first
        fit (for actions known by a metric only: every fit) some on a subset.

    Attributes
    ----------
    fit
        The last one; None before the first.
    observations
        How many measurements have been told.

    Examples
    --------
    >>> refitter = Refitter(Problem([0.0, 1.0, 2.0]), first=4)
    >>> [refitter.add(t % 3, 0.1 * t, (t % 3) ** 2 + 0.1 * t) for t in range(4)]
    [False, False, False, True]
    >>> refitter.refit().points_used, refitter.due
    (4, False)
    """

    def __init__(
        self,
        problem: Problem,
        *,
        kernel: AnyKernel | None = None,
        noise_std: float | None = None,
        prior_mean: PriorMean | None = None,
        first: int = 20,
        longest: int = 1280,
        capacity: int = 400,
        evaluations: int = 30,
        seed: int = 0,
    ) -> None:
        least = {
            "first": (first, 1),
            "longest": (longest, 1),
            "capacity": (capacity, 4),
            "evaluations": (evaluations, 1),
        }
        for name, (value, lowest) in least.items():
            whole_number(value, name, lowest)
        require_squarable(problem.actions, "actions")
        self.problem, self.kernel, self.noise_std, self.prior_mean = problem, kernel, noise_std, prior_mean
        self.longest, self.capacity, self.evaluations, self.seed = longest, capacity, evaluations, checked_seed(seed)
        self.fit: Fit | None = None
        self.observations = 0
        self._next = first
        self._actions = np.zeros(0, dtype=np.int64)
        self._contexts = np.zeros((0, 0))
        self._measurements = np.zeros(0)

    @property
    def due(self) -> bool:
        """Whether it is time to call `refit`."""
        return self.observations >= self._next

    @property
    def kept(self) -> History:
        """The measurements kept: what a new posterior can be started from."""
        return History(self._actions, self._contexts, self._measurements)

    def checked(self, action: int, context: Any, y: float) -> Measured:
        """A measurement that can be added and fitted; what cannot is an error, and nothing has changed."""
        self.problem.check_action(action)
        dimension = self._contexts.shape[1] if self.observations else None
        if dimension is None and self.kernel is not None:
            dimension = self.kernel.context_dimension
        measured = (int(action), check_context(context, dimension), check_measurement(y))
        require_squarable(measured[1], "contexts")
        require_squarable(measured[2], "measurements")
        return measured

    def add(self, action: int, context: Any, y: float) -> bool:
        """Take note of a measurement; returns whether a fit is due."""
        return self.keep(self.checked(action, context, y))

    def keep(self, measured: Measured) -> bool:
        """Take note of what `checked` gave; returns whether a fit is due."""
        recent = self.capacity // 2
        place = self.observations % recent
        if self.observations >= recent:
            self._sample(self.observations - recent, place)
        self._store(place, measured)
        self.observations += 1
        return self.due

    def refit(self) -> Fit:
        """Fit to the measurements kept, starting from the last fit, and set the time of the next one."""
        history = checked_history(self.problem, self._actions, self._contexts, self._measurements, self.kernel)
        restarts = FIRST_RESTARTS if self.fit is None else 0
        search = Search(
            self.problem,
            self.kernel,
            self.noise_std,
            self.prior_mean,
            restarts,
            self.seed,
            self.capacity,
            self.evaluations,
        )
        self.fit, _ = search.run(history, self.fit)
        self._next = self.observations + min(self.observations, self.longest)
        return self.fit

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that changes, as arrays."""
        return {
            "actions": self._actions.copy(),
            "contexts": self._contexts.copy(),
            "measurements": self._measurements.copy(),
            "counts": np.array([self.observations, self._next], dtype=np.int64),
            "fit": np.frombuffer(fit_to_json(self.fit).encode(), dtype=np.uint8),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Refitter:
        """Take over what `state` of a refitter made with the same arguments gave; returns itself."""
        require_arrays(arrays, STATE, "a refitter")
        history = History(arrays["actions"], arrays["contexts"], arrays["measurements"])
        history.check(self.problem, None if self.kernel is None else self.kernel.context_dimension)
        self.fit = fit_from_json(np.asarray(arrays["fit"], dtype=np.uint8).tobytes().decode(), self.prior_mean)
        self._actions, self._contexts = history.actions.copy(), history.contexts.copy()
        self._measurements = history.measurements.copy()
        self.observations, self._next = (int(count) for count in arrays["counts"])
        return self

    def _sample(self, older: int, place: int) -> None:
        """Pass the measurement at `place` on to the sample of older ones; it keeps each equally likely (reservoir)."""
        recent = self.capacity // 2
        slot = older
        if older >= self.capacity - recent:
            # Keyed by the count, not drawn from a stream: nothing to save, and the same after a restart.
            random = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, older, 0, 0]))
            slot = int(random.integers(older + 1))
        if slot < self.capacity - recent:
            self._store(recent + slot, (self._actions[place], self._contexts[place], self._measurements[place]))

    def _store(self, place: int, measured: Measured) -> None:
        action, context, y = measured
        if place == len(self._actions):
            self._actions = np.append(self._actions, action)
            self._contexts = np.vstack([self._contexts.reshape(place, len(context)), context])
            self._measurements = np.append(self._measurements, y)
        else:
            self._actions[place], self._contexts[place], self._measurements[place] = action, context, y

    def __repr__(self) -> str:
        return f"Refitter({self.observations} measurements, {len(self._actions)} kept, next fit at {self._next})"
