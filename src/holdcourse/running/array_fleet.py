"""A fleet on arrays of another library, such as torch on an accelerator; see `_numeric.lockstep_arrays`.

All of it stays on the device: contexts, measurements and decisions are arrays of the library, and nothing is copied in
a round. In double precision decisions agree with those of single controllers up to rounding, not to the
last bit; single precision is for costs of about the size of what moves cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdcourse._numeric import lockstep_arrays as lockstep
from holdcourse.deciding.policy import OnTree, Policy
from holdcourse.deciding.rules import MirrorDescent, tree_digest
from holdcourse.errors import InvalidInput, shown
from holdcourse.learning.costs import LowerBound
from holdcourse.learning.lockstep import flat_bounds
from holdcourse.learning.posteriors.flat import FlatPosterior
from holdcourse.movement.tree import Tree

Ints: TypeAlias = NDArray[np.int64]
Compiler: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


class ArrayFleet:
    """Members of GP-MD in lockstep, on arrays of one library and device; made by ``fleet(..., like=array)``.

    Attributes
    ----------
    contexts
        Contexts that can occur, a numpy array (K, d); `ask` takes their positions in it.
    state
        Everything that changes, as a tuple of arrays. Keep it, and set it again to continue from there.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> kernel, hours = hc.Kernel(RBF(0.5), RBF(6.0)), np.arange(24.0)
    >>> policy = hc.gp_md(hc.Problem([0.0, 0.5, 1.0]), kernel=kernel, contexts=hours, tree_seed=1)
    >>> pumps = hc.fleet(policy, 1000, like=np.empty(0))  # instead of numpy: torch.empty(0, device="cuda")
    >>> actions = pumps.ask(np.full(1000, 7))  # the eighth of its contexts, 7 h
    >>> pumps.tell((actions - 1.0) ** 2)
    """

    def __init__(
        self, policy: Policy, starts: Ints, seeds: Sequence[int], like: Any, compiler: Compiler | None = None
    ) -> None:
        if "float" not in str(getattr(like, "dtype", "")) or type(like).__module__.startswith("pandas"):
            raise InvalidInput(f"like must be an array of floats, such as torch.empty(0), got {shown(like)}")
        model, rule, posterior = _parts(policy, seeds)
        layout, tree = posterior.layout, rule.tree
        self.policy, self.seeds, self.contexts = policy, tuple(seeds), layout.candidates.copy()
        self._kind = kind = lockstep.shared(
            like,
            psi=np.array([layout.features(row)[0] for row in self.contexts]),
            phi=layout.action_features(),
            start=layout.start,
            column=layout.column,
            means=posterior.prior.means(self.contexts),
            noise=posterior.prior.noise_variance,
            width=float(model.width),  # type: ignore[arg-type]
            parent=tree.parent,
            weight=tree.weight,
            kappa=rule.kappa,
            maximise=model.maximise,
            forgetting=posterior.forgetting,
            fused=compiler is not None,
        )
        library = kind.library
        self._seeds = tuple(library.asarray(half, "int64") for half in lockstep.halves(seeds))
        self.state = tuple(lockstep.begin(kind, starts))

        def ask(state: Any, contexts: Any, allowed: Any, mask: Any) -> Any:
            before = lockstep.State(*state)
            numbers = lockstep.uniforms(library, self._seeds, before.round)
            after, answer = lockstep.ask(kind, before, contexts, numbers, allowed, mask)
            return tuple(after), tuple(answer)

        def tell(state: Any, measurements: Any, mask: Any) -> Any:
            return tuple(lockstep.tell(kind, lockstep.State(*state), measurements, mask))

        self._ask, self._tell = (ask, tell) if compiler is None else (compiler(ask), compiler(tell))

    @property
    def count(self) -> int:
        """Return how many members there are."""
        return len(self.seeds)

    @property
    def action(self) -> Any:
        """Return where each member is, by index, (count,)."""
        return lockstep.State(*self.state).action

    def ask(self, contexts: Any, allowed: Any = None, mask: Any = None) -> Any:
        """Decide the next round of every member, or of those in the mask; returns the settings by index, (count,).

        Shapes are checked, but values are not, because the device would have to wait for the check.

        Parameters
        ----------
        contexts
            Context of each member, by its position in `contexts`: whole numbers, (count,).
        allowed
            Settings that may be chosen: booleans, (count, n), with at least one True for each member.
        mask
            Members that are asked, (count,); default: all. The others stay.
        """
        self._check(contexts, "contexts", (self.count,))
        may = None
        if allowed is not None:
            self._check(allowed, "allowed", (self.count, self.policy.problem.n))
            may = self._kind.library.transposed(allowed)
        if mask is not None:
            self._check(mask, "mask", (self.count,))
        self.state, _ = self._ask(self.state, contexts, may, mask)
        return self.action

    def tell(self, measurements: Any, mask: Any = None) -> None:
        """Say what every member, or those in the mask, measured at its setting; (count,). NaN teaches nothing."""
        self._check(measurements, "measurements", (self.count,))
        if mask is not None:
            self._check(mask, "mask", (self.count,))
        self.state = self._tell(self.state, measurements, mask)

    def __repr__(self) -> str:
        library = self._kind.library
        return f"ArrayFleet({self.count} members of {self.policy.name}, {library.dtype} on {library.device})"

    def _check(self, given: Any, what: str, shape: tuple[int, ...]) -> None:
        if tuple(getattr(given, "shape", ())) != shape:
            found = getattr(given, "shape", type(given).__name__)
            raise InvalidInput(f"{what} must be an array of the fleet's library of shape {shape}, got {found!r}")


def _one_tree(policy: Policy, seeds: Sequence[int]) -> bool:
    """Whether all members have the same tree: it or its seed is given, or what their own seeds draw is equal."""
    maker = policy.rule
    if isinstance(maker, OnTree) and (maker.tree is not None or maker.tree_seed is not None):
        return True
    first, *others = dict.fromkeys(seeds)
    tree = _tree_of(policy, first)
    digest = tree_digest(tree)
    return all(own is tree or tree_digest(own) == digest for own in (_tree_of(policy, seed) for seed in others))


def _tree_of(policy: Policy, seed: int) -> Tree:
    rule = policy.rule_for(seed)
    assert isinstance(rule, MirrorDescent)
    return rule.tree


def _parts(policy: Policy, seeds: Sequence[int]) -> tuple[LowerBound, MirrorDescent, FlatPosterior]:
    """Model, rule and posterior of a policy that can run on arrays; an error that says what is in the way."""
    model, rule = policy.costs, policy.rule_for(seeds[0])
    wrong = ""
    if not (isinstance(model, LowerBound) and type(rule) is MirrorDescent and flat_bounds(model, 1) is not None):
        wrong = "it is not GP-MD with a kernel that is given, contexts that are listed, and plain bounds"
    elif model.interval_map is not None:
        wrong = "its costs are a function of what is measured (interval_map)"
    elif not (isinstance(model.posterior, FlatPosterior) and model.posterior.layout.listed):
        wrong = "its contexts are not listed; list them with contexts="
    elif model.posterior.observations:
        wrong = "it has learned from a history already"
    elif not _one_tree(policy, seeds):
        wrong = "each member would have a tree of its own; give tree_seed= or tree="
    if wrong:
        raise InvalidInput(f"{policy.name} cannot run on arrays of another library: {wrong}. A fleet without like= can")
    assert isinstance(model, LowerBound)
    assert isinstance(rule, MirrorDescent)
    assert isinstance(model.posterior, FlatPosterior)
    return model, rule, model.posterior
