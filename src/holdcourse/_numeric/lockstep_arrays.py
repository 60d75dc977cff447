"""GP-MD on the flat posterior for many members at once, on arrays of any library: numpy, cupy, torch, JAX.

Everything is written in operations of the array-API standard; what libraries still call differently is in `Library`,
which is found from an array. Nothing here imports one of them, nor anything compiled. A step has no branches that
depend on values, so that ``torch.compile`` and ``jax.jit`` take it whole.

=========  =============================================================================================  =============
symbol     meaning                                                                                        shape
=========  =============================================================================================  =============
B          members; n actions, V vertices of the tree, K contexts that can occur, m weights, r action features
psi        feature of the context that belongs to each weight                                             (B, m)
S          covariance of the weights; prior I                                                             (B, m, m)
w          their mean; prior 0                                                                            (B, m)
g, c       rank-1 change still to be made: S - c g g^T                                                    (B, m), (B,)
T          products of S with psi, for the weights of each action feature apart; of the round that was
           asked. It gives the bounds now and the gain of the measurement later                           (B, r, m)
q          probability of a vertex given its parent                                                       (V, B)
p          probability of every action                                                                    (n, B)
=========  =============================================================================================  =============

The arithmetic is that of `_numeric.gp`, `_numeric.descent` and `_numeric.transport`, in another order: results agree up
to rounding. Two things differ. The variance is a quadratic form and not a sum of squares of a Cholesky factor, so it is
cut at 0; and Newton's method takes a fixed number of steps, from the least of all the bounds that start it there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

NEWTON_STEPS, NEWTON_STEPS_SINGLE = 9, 6  # it converges quadratically; the wind setting needs 5
MASK = 0xFFFFFFFF
MULTIPLIERS = ((0xD2E7470E, 0xE14C6C93), (0xCA5A8263, 0x95121157))  # of Philox4x64, as two halves
KEY_STEPS = ((0x9E3779B9, 0x7F4A7C15), (0xBB67AE85, 0x84CAA73B))


class Library:
    """The library of an array, as this module calls it."""

    def __init__(self, like: Any) -> None:
        name = type(like).__module__.partition(".")[0]
        self.torch = name == "torch"
        self.xp: Any = like.__array_namespace__() if hasattr(like, "__array_namespace__") else sys.modules[name]
        self.dtype, self.device = like.dtype, getattr(like, "device", None)
        # cupy has a current device, numpy only one; numpy before 2.1 knows neither devices nor the names below.
        self._on: dict[str, Any] = {} if name in ("cupy", "numpy") else {"device": self.device}
        self.concat: Any = getattr(self.xp, "concat", None) or self.xp.concatenate
        self._permute: Any = self.xp.permute if self.torch else getattr(self.xp, "permute_dims", None)

    def asarray(self, values: Any, dtype: Any = None) -> Any:
        """Values of numpy on the device, in the precision of the array unless another is named."""
        kind = self.dtype if dtype is None else getattr(self.xp, f"{dtype}_", None) or getattr(self.xp, dtype)
        return self.xp.asarray(np.asarray(values, order="C"), dtype=kind, **self._on)

    def zeros(self, *shape: int) -> Any:
        return self.xp.zeros(shape, dtype=self.dtype, **self._on)

    def cast(self, x: Any) -> Any:
        """Return the values in the precision of the array."""
        if self.torch:
            return x.to(self.dtype)
        return x.astype(self.dtype) if hasattr(x, "astype") else self.xp.astype(x, self.dtype)

    def rows(self, x: Any, indices: Any) -> Any:
        """Return the rows of x with these indices."""
        return self.xp.index_select(x, 0, indices) if self.torch else self.xp.take(x, indices, axis=0)

    def along(self, x: Any, indices: Any) -> Any:
        """Return ``x[indices[i, b], b]`` for every i and b."""
        return self.xp.gather(x, 0, indices) if self.torch else self.xp.take_along_axis(x, indices, axis=0)

    def least(self, x: Any, axis: int) -> Any:
        return self.xp.amin(x, axis) if self.torch else self.xp.min(x, axis=axis)

    def most(self, x: Any, axis: int) -> Any:
        return self.xp.amax(x, axis) if self.torch else self.xp.max(x, axis=axis)

    def not_below(self, x: Any, least: float) -> Any:
        return self.xp.clamp(x, min=least) if self.torch else self.xp.maximum(x, self.xp.asarray(least, dtype=x.dtype))

    def transposed(self, x: Any) -> Any:
        return self.permuted(x, (1, 0))

    def permuted(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Return x with its axes in another order."""
        return (self._permute or self.xp.transpose)(x, axes)


class Level(NamedTuple):
    """Internal vertices of one height with their children, padded to the same number C."""

    vertices: int
    kin: Any  # (vertices * C,) place of each child in `costs of leaves, then of internal vertices by height`
    own: Any  # (vertices * C,) vertex
    real: Any  # (vertices, C, 1) whether there is a child
    shift: Any  # (vertices, C, 1) delta, 0 where there is none
    speed: Any  # (vertices, C, 1) kappa eta / w, 1 where there is none


@dataclass(frozen=True, eq=False)
class Shared:
    """What all members have in common, on one device."""

    library: Library
    psi: Any  # (K, m) psi of every context
    features: Any  # (n, r) Phi
    own: Any  # (n, m) the feature of every action that belongs to each weight
    belongs: Any  # (r, m) whether a weight belongs to an action feature
    squares: Any  # (r * m, n) products of the features of every action
    means: Any  # (K, n) prior mean
    noise: float
    width: float
    sign: float  # -1 where measurements are gains
    forgetting: float
    levels: tuple[Level, ...]
    order: Any  # (V,) places that put what the levels give into the order of vertices
    ancestors: tuple[Any, ...]  # of every leaf: (n,) each, from below the root to the leaf itself; padded with the root
    below: Any  # (V, n) whether a leaf is below a vertex
    parent: Any  # (V,) the root's is itself
    sums: Any  # (V, V) whether a vertex is a child of another
    children: Any  # (C, V) children of internal vertices; V where there is none
    ladder: Any  # (C, C) lower triangle of ones
    share: Any  # (V,)
    depth: int
    n: int
    fused: bool  # whether a compiler joins what follows each other: then S is read and written in one pass
    newton: int


class State(NamedTuple):
    """What changes from round to round; see the table of the module. `last` is the context asked, or -1."""

    S: Any
    w: Any
    g: Any
    c: Any
    q: Any
    p: Any
    T: Any
    action: Any  # (B,)
    round: Any  # (B,)
    last: Any  # (B,)


class Answer(NamedTuple):
    """A decision of every member: the action, its probability before the draw, and the bounds it was taken on."""

    action: Any  # (B,)
    probabilities: Any  # (n, B)
    costs: Any  # (n, B)
    expected: Any  # (n, B)


def shared(
    like: Any,
    *,
    psi: np.ndarray,  # (K, J) features of the contexts
    phi: np.ndarray,  # (n, r) of the actions
    start: np.ndarray,  # (J + 1,) and column (J,): which weights belong to a context feature; see `_numeric.gp`
    column: np.ndarray,
    means: np.ndarray,  # (K, n)
    noise: float,
    width: float,
    parent: np.ndarray,  # (V,) and weight (V,) of the tree
    weight: np.ndarray,
    kappa: float = 1.0,
    maximise: bool = False,
    forgetting: float = 1.0,
    fused: bool = False,
) -> Shared:
    """Prepare what members share, in the library, precision and device of the array `like`."""
    library = Library(like)
    n, r = phi.shape
    m, V = int(start[-1]), len(parent)
    segment = np.repeat(np.arange(len(column)), np.diff(start))
    place = np.arange(m) - start[segment] + column[segment]
    belongs = np.zeros((r, m))
    belongs[place, np.arange(m)] = 1.0
    parent = np.where(np.asarray(parent) < 0, V - 1, parent)
    kin: list[list[int]] = [[] for _ in range(V)]
    for v in range(V - 1):
        kin[parent[v]].append(v)
    leaves, height = [0] * V, [0] * V
    for v in range(V):
        leaves[v] = 1 if v < n else sum(leaves[u] for u in kin[v])
        height[v] = 0 if v < n else 1 + max((height[u] for u in kin[v]), default=0)
    share = np.array([leaves[v] / leaves[parent[v]] for v in range(V)])
    rate = 1.0 - np.log(share)
    inner = sorted(range(n, V), key=lambda v: (height[v], v))
    costs_at = {v: k for k, v in enumerate([*range(n), *inner])}
    levels, given = [], []
    for h in range(1, max(height, default=0) + 1):
        members = [v for v in inner if height[v] == h]
        most = max(len(kin[v]) for v in members)
        table = np.array([kin[v] + [0] * (most - len(kin[v])) for v in members])
        real = np.array([[True] * len(kin[v]) + [False] * (most - len(kin[v])) for v in members])
        levels.append(
            Level(
                len(members),
                library.asarray(np.array([costs_at[v] for v in table.ravel()]), "int64"),
                library.asarray(table.ravel(), "int64"),
                library.asarray(real[:, :, None], "bool"),
                library.asarray(np.where(real, (share / rate)[table], 0.0)[:, :, None]),
                library.asarray(
                    np.where(real, kappa * rate[table] / np.where(real, np.asarray(weight)[table], 1.0), 1.0)[
                        :, :, None
                    ]
                ),
            )
        )
        given += [v if ok else -1 for v, ok in zip(table.ravel().tolist(), real.ravel().tolist(), strict=True)]
    order = np.array([given.index(v) for v in range(V - 1)] + [len(given)])  # the root's probability comes last
    paths = [_path(leaf, parent, V - 1) for leaf in range(n)]
    depth = max(len(path) for path in paths)
    padded = np.array([[V - 1] * (depth - len(path)) + path for path in paths]).reshape(n, depth)
    widest = max((len(children) for children in kin), default=1) or 1
    table = np.array([children + [V] * (widest - len(children)) for children in kin])
    under = np.zeros((V, n))
    for leaf, path in enumerate(paths):
        under[[*path, V - 1], leaf] = 1.0
    child = np.zeros((V, V))
    child[parent[: V - 1], np.arange(V - 1)] = 1.0
    return Shared(
        library=library,
        psi=library.asarray(psi[:, segment]),
        features=library.asarray(phi),
        own=library.asarray(phi[:, place]),
        belongs=library.asarray(belongs),
        squares=library.asarray(np.einsum("xk,xa->kax", phi, phi[:, place]).reshape(r * m, n)),
        means=library.asarray(means),
        noise=float(noise),
        width=float(width),
        sign=-1.0 if maximise else 1.0,
        forgetting=float(forgetting),
        levels=tuple(levels),
        order=library.asarray(order, "int64"),
        ancestors=tuple(library.asarray(column, "int64") for column in padded.T),
        below=library.asarray(under),
        parent=library.asarray(parent, "int64"),
        sums=library.asarray(child),
        children=library.asarray(table.T, "int64"),
        ladder=library.asarray(np.tril(np.ones((widest, widest)))),
        share=library.asarray(share),
        depth=depth if V > 1 else 0,
        n=n,
        fused=fused,
        newton=NEWTON_STEPS if "float64" in str(library.dtype) else NEWTON_STEPS_SINGLE,
    )


def begin(kind: Shared, actions: np.ndarray) -> State:
    """Every member certain at its action, with nothing learned; actions (B,)."""
    library, xp = kind.library, kind.library.xp
    B, (r, m) = len(actions), kind.belongs.shape
    V = kind.share.shape[0]
    x = library.asarray(np.asarray(actions), "int64")
    places = library.asarray(np.arange(kind.n), "int64")
    above = xp.matmul(kind.below, library.cast(places[:, None] == x[None, :]))
    reached = xp.matmul(library.transposed(kind.sums), above) > 0.0  # the vertex above is above the action
    q = xp.where(reached, above, kind.share[:, None] + xp.zeros_like(above))
    q = library.concat([q[: V - 1, :], xp.ones_like(q[:1, :])])
    zero = x - x
    return State(
        S=library.asarray(np.eye(m))[None, :, :] + library.zeros(B, 1, 1),
        w=library.zeros(B, m),
        g=library.zeros(B, m),
        c=library.zeros(B),
        q=q,
        p=above[: kind.n, :],
        T=library.zeros(B, r, m),
        action=x,
        round=zero,
        last=zero - 1,
    )


def ask(
    kind: Shared, state: State, contexts: Any, uniforms: Any, allowed: Any = None, mask: Any = None
) -> tuple[State, Answer]:
    """Decide a round of every member, or of those in `mask` (B,).

    Contexts (B,) are places in the list of contexts, uniforms (B,) lie in [0, 1), allowed is (n, B) or None.
    """
    library, xp = kind.library, kind.library.xp
    psi = library.rows(kind.psi, contexts)
    S = settled(state)
    T = products(kind, S, psi)
    mean = library.rows(kind.means, contexts) + xp.matmul(psi * state.w, library.transposed(kind.own))
    variance = xp.matmul(xp.reshape(T * psi[:, None, :], (psi.shape[0], -1)), kind.squares)
    low = kind.sign * mean - kind.width * xp.sqrt(library.not_below(variance, 0.0))
    costs, expected = library.transposed(low), library.transposed(kind.sign * mean)
    if allowed is not None:
        costs = xp.where(allowed, costs, xp.full_like(costs, float("inf")))
    q = descend(kind, state.q, costs)
    p = leaf_probabilities(kind, q)
    action = sample(kind, state.p, p, state.action, uniforms)
    rounds, none = state.round + 1, xp.zeros_like(state.c)
    if mask is not None:
        q, p = xp.where(mask, q, state.q), xp.where(mask, p, state.p)
        T = xp.where(mask[:, None, None], T, state.T)
        action, rounds = xp.where(mask, action, state.action), xp.where(mask, rounds, state.round)
        contexts = xp.where(mask, contexts, state.last)
    after = State(S, state.w, state.g, none, q, p, T, action, rounds, contexts)
    return after, Answer(action, p, costs, expected)


def settled(state: State) -> Any:
    """S with the change that is pending, (B, m, m)."""
    return state.S - (state.c[:, None] * state.g)[:, :, None] * state.g[:, None, :]


def products(kind: Shared, S: Any, psi: Any) -> Any:
    """T, (B, r, m)."""
    library, xp = kind.library, kind.library.xp
    if not kind.fused:
        found = xp.matmul(S * psi[:, None, :], library.transposed(kind.belongs))  # (B, m, r)
        return library.permuted(found, (0, 2, 1))
    parts = [psi * kind.belongs[k, :] for k in range(kind.belongs.shape[0])]
    return xp.stack([xp.sum(S * part[:, None, :], axis=2) for part in parts], axis=1)


def tell(kind: Shared, state: State, measurements: Any, mask: Any = None) -> State:
    """Learn what every member, or those in `mask` (B,), measured at its action; (B,). NaN is left out."""
    library, xp = kind.library, kind.library.xp
    told = xp.isfinite(measurements)
    mask = told if mask is None else xp.logical_and(mask, told)
    features = library.rows(kind.features, state.action)  # (B, r)
    last = library.not_below(state.last, 0)  # who was never asked learns nothing, and has no context
    phi = library.rows(kind.psi, last) * library.rows(kind.own, state.action)
    g = xp.sum(state.T * features[:, :, None], axis=1)
    S, w, a = state.S, state.w, kind.forgetting
    if a < 1.0:
        g = a * a * g + (1.0 - a * a) * phi
        eye = library.asarray(np.eye(w.shape[1]))
        faded, short = a * a * S + (1.0 - a * a) * eye, a * w
        S, w = xp.where(mask[:, None, None], faded, S), xp.where(mask[:, None], short, w)
    variance = kind.noise + library.not_below(xp.sum(phi * g, axis=1), 0.0)
    usual = library.along(library.transposed(library.rows(kind.means, last)), state.action[None, :])[0, :]
    surprise = measurements - usual - xp.sum(phi * w, axis=1)
    c = 1.0 / variance
    change = g * (surprise * c)[:, None]
    g, c = xp.where(mask[:, None], g, state.g), xp.where(mask, c, state.c)
    change = xp.where(mask[:, None], change, xp.zeros_like(change))
    return State(S, w + change, g, c, state.q, state.p, state.T, state.action, state.round, state.last)


def descend(kind: Shared, q: Any, costs: Any) -> Any:
    """One step of mirror descent for every member: q (V, B) and costs (n, B) to the new q; see `_numeric.descent`."""
    library, xp = kind.library, kind.library.xp
    B = q.shape[1]
    cost_of = costs
    found = []
    for level in kind.levels:
        shape = (level.vertices, level.kin.shape[0] // level.vertices, B)
        c = xp.reshape(library.rows(cost_of, level.kin), shape)
        c = xp.where(level.real, c, xp.full_like(c, float("inf")))
        before = xp.reshape(library.rows(q, level.own), shape)
        d, a = level.shift, level.speed
        s = xp.where(level.real, before + d, xp.zeros_like(before))
        lowest = library.least(c, 1)[:, None, :]
        open_ = xp.isfinite(lowest)
        c = xp.where(open_, c - xp.where(open_, lowest, xp.zeros_like(lowest)), xp.zeros_like(c))
        highest = library.most(xp.where(level.real, c, xp.zeros_like(c)), 1)[:, None, :]
        # Where one child alone reaches probability 1 the sum is at least 1; Jensen's inequality gives another bound.
        alone = c + xp.log((1.0 + d) / xp.where(level.real, s, xp.ones_like(s))) / a
        b = library.least(alone, 1)[:, None, :]
        pull = s * a
        jensen = _sum(kind, pull * xp.where(xp.isfinite(c), c, xp.zeros_like(c))) / _sum(kind, pull)
        b = xp.where(xp.isfinite(highest) & (jensen < b), jensen, b)
        for _ in range(kind.newton):
            x = s * xp.exp(a * (b - c))
            x = xp.where(x > d, x, xp.zeros_like(x))
            mass, slope = _sum(kind, x), _sum(kind, x * a)
            target = 1.0 + _sum(kind, xp.where(x > 0.0, d + xp.zeros_like(x), xp.zeros_like(x)))
            b = b - xp.log(mass / target) * mass / slope
        x = library.not_below(s * xp.exp(a * (b - c)) - d, 0.0)
        x = x / _sum(kind, x)
        x = xp.where(open_ & (highest > 0.0), x, before)  # equal costs move nothing; what is wholly forbidden keeps
        expected = _sum(kind, x * xp.where(xp.isfinite(c), c, xp.zeros_like(c)))
        cost_of = library.concat([cost_of, (lowest + expected)[:, 0, :]])
        found.append(xp.reshape(x, (shape[0] * shape[1], B)))
    found.append(q[-1:, :])
    return library.rows(library.concat(found), kind.order)


def _sum(kind: Shared, x: Any) -> Any:
    """Over the children of a vertex, which stay an axis."""
    return kind.library.xp.sum(x, axis=1)[:, None, :]


def leaf_probabilities(kind: Shared, q: Any) -> Any:
    """Probability of every action, (n, B)."""
    if not kind.ancestors:
        return q
    p = kind.library.rows(q, kind.ancestors[0])
    for vertices in kind.ancestors[1:]:
        p = p * kind.library.rows(q, vertices)
    return p


def sample(kind: Shared, p: Any, p_next: Any, action: Any, uniforms: Any) -> Any:
    """The next action of every member by the optimal coupling, (B,); see `_numeric.transport`."""
    library, xp = kind.library, kind.library.xp
    V = kind.share.shape[0]
    if not kind.depth:
        return action
    z, z_next = xp.matmul(kind.below, p), xp.matmul(kind.below, p_next)
    rising = library.not_below(z_next - z, 0.0)
    supply = xp.matmul(kind.sums, library.not_below(z - z_next, 0.0))
    demand = xp.matmul(kind.sums, rising)
    nothing = xp.zeros_like(rising[:1, :])
    rising, likely = library.concat([rising, nothing]), library.concat([z_next, nothing - 1.0])  # a child that is none

    was, now = _at(library, p, action), _at(library, p_next, action)
    one, none = xp.ones_like(was), xp.zeros_like(was)
    kept = now / xp.where(was > 0.0, was, one)
    stay = xp.where(was > 0.0, xp.where(kept < 1.0, kept, one), xp.where(now > 0.0, one, none))
    stays = stay > uniforms
    U = (uniforms - stay) / xp.where(stay < 1.0, 1.0 - stay, one)
    u, climbing = action, ~stays
    for _ in range(kind.depth):
        u = xp.where(climbing, library.rows(kind.parent, u), u)
        sent, wanted = _at(library, supply, u), _at(library, demand, u)
        share = wanted / xp.where(sent > 0.0, sent, one)
        match = xp.where(wanted >= sent, xp.where(wanted > 0.0, one, none), share)
        match = xp.where(u == V - 1, one, match)
        met = match > U
        rest = (U - match) / xp.where(match < 1.0, 1.0 - match, one)
        U = xp.where(climbing, xp.where(met, U / xp.where(match > 0.0, match, one), rest), U)
        climbing = climbing & ~met & (u != V - 1)
    for _ in range(kind.depth):
        kin = library.rows(library.transposed(kind.children), u)  # (B, C)
        kin = library.transposed(kin)
        shares = library.along(rising, kin)
        wanted = _at(library, demand, u)
        reached = xp.matmul(kind.ladder, shares)  # (C, B) sums up to each child
        at = U * wanted
        passed = library.cast(reached <= at) * library.cast(shares > 0.0)
        some = library.cast(shares > 0.0)
        # The first child whose sum lies above `at`; after rounding, the last one that has a share.
        ahead = some * xp.where(passed > 0.0, xp.zeros_like(some), xp.ones_like(some))
        first = ahead * library.cast(xp.matmul(kind.ladder, ahead) == 1.0)
        left = 1.0 - library.least(1.0 - first, 0)  # 1 where there is one
        last = some * library.cast(_after(library, kind, some) == 0.0)
        best = library.most(library.along(likely, kin), 0)
        top = library.cast(library.along(likely, kin) == best)
        likeliest = top * library.cast(xp.matmul(kind.ladder, top) == 1.0)
        pick = xp.where(wanted > 0.0, xp.where(left > 0.0, first, last), likeliest)
        chosen = xp.sum(xp.where(pick > 0.0, kin, xp.zeros_like(kin)), axis=0)
        size = xp.sum(pick * shares, axis=0)
        below = xp.sum(pick * (reached - shares), axis=0)
        U_next = xp.where(wanted > 0.0, (at - below) / xp.where(size > 0.0, size, one), U)
        inside = u >= kind.n
        U = xp.where(inside, xp.where(U_next < 1.0, library.not_below(U_next, 0.0), one), U)
        u = xp.where(inside, chosen, u)
    return xp.where(stays, action, u)


def _at(library: Library, x: Any, vertices: Any) -> Any:
    return library.along(x, vertices[None, :])[0, :]


def _after(library: Library, kind: Shared, some: Any) -> Any:
    """How many there are after each, (C, B)."""
    return library.xp.sum(some, axis=0)[None, :] - library.xp.matmul(kind.ladder, some)


def uniforms(library: Library, seeds: tuple[Any, Any], rounds: Any) -> Any:
    """The number that a member's round draws, from [0, 1): of Philox4x64 as `deciding.rules.uniform` takes it.

    Seeds are given as halves of 32 bits, (B,) and (B,); rounds are (B,), below 2^32. All are integers of 64 bits. In
    single precision the leading 24 bits count.
    """
    zero = rounds - rounds
    c = [(zero, zero + 1), (zero, rounds), (zero, zero), (zero, zero)]
    k = [seeds, (zero, zero)]
    for _ in range(10):
        high0, low0 = _product(MULTIPLIERS[0], c[0])
        high1, low1 = _product(MULTIPLIERS[1], c[2])
        c = [_xor(high1, c[1], k[0]), low1, _xor(high0, c[3], k[1]), low0]
        k = [_sum_of(k[0], KEY_STEPS[0]), _sum_of(k[1], KEY_STEPS[1])]
    high, low = c[0]
    if "float64" in str(library.dtype):
        return library.cast(high * 2**21 + (low >> 11)) * 2.0**-53
    return library.cast(high >> 8) * 2.0**-24


def halves(seeds: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Seeds of up to 64 bits as upper and lower halves."""
    return np.array([s >> 32 for s in seeds], dtype=np.int64), np.array([s & MASK for s in seeds], dtype=np.int64)


def _product(by: tuple[int, int], x: tuple[Any, Any]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Upper and lower 64 bits of a product of 64 bits, all in halves; products wrap, and their bits are right."""
    high, low = x
    a, b, c, d = by[1] * low, by[0] * low, by[1] * high, by[0] * high
    middle = ((a >> 32) & MASK) + (b & MASK) + (c & MASK)
    top = d + ((b >> 32) & MASK) + ((c >> 32) & MASK) + (middle >> 32)
    return ((top >> 32) & MASK, top & MASK), (middle & MASK, a & MASK)


def _xor(*values: tuple[Any, Any]) -> tuple[Any, Any]:
    (a, b), (c, d), (e, f) = values
    return a ^ c ^ e, b ^ d ^ f


def _sum_of(x: tuple[Any, Any], more: tuple[int, int]) -> tuple[Any, Any]:
    low = x[1] + more[1]
    return (x[0] + more[0] + (low >> 32)) & MASK, low & MASK


def _path(leaf: int, parent: np.ndarray, root: int) -> list[int]:
    """Vertices from below the root to the leaf."""
    path = []
    while leaf != root:
        path.append(leaf)
        leaf = int(parent[leaf])
    return path[::-1]
