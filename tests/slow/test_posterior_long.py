"""The posteriors at full length: 1e5 measurements, t = 2000 against a dense solve."""

import time

import numpy as np
import pytest
from helpers.settings import smooth_function, synthetic, wind
from oracles import dense_gp

from holdcourse.learning.history import History
from holdcourse.learning.posteriors import posterior

pytestmark = pytest.mark.slow


def long_record(problem, contexts, t, seed):
    rng = np.random.default_rng(seed)
    actions, which = rng.integers(problem.n, size=t), rng.choice(contexts, size=t)
    return History(actions, which, np.sin(3 * actions / problem.n + which) + 0.1 * rng.normal(size=t))


@pytest.mark.parametrize("setting", ["wind", "synthetic"])
def test_after_1e5_updates_nothing_has_drifted(setting, record_property):
    if setting == "wind":
        problem, kernel, contexts = wind()
        declared = {"contexts": contexts, "noise_std": np.sqrt(2.73)}
    else:
        problem, kernel = synthetic(side=10)
        contexts, declared = np.random.default_rng(0).uniform(size=500), {"context_bounds": (0, 1), "noise_std": 0.1}
    past = long_record(problem, contexts, 100_000, seed=1)
    post = posterior(problem, kernel, **declared)
    records = list(zip(past.actions, past.contexts, past.measurements, strict=True))
    for t, record in enumerate(records):
        if t == 1000:
            young = post.copy()
        _, std = post.predict(record[1])
        assert std.min() > 0
        post.condition(*record)
    fresh = posterior(problem, kernel, **declared, history=past)
    scale = np.sqrt(post.prior.scale)
    gaps = [np.abs(np.subtract(post.predict(e), fresh.predict(e))).max() / scale for e in contexts[:24]]
    record_property(f"{setting}: drift after 1e5 updates", f"{max(gaps):.1e}")
    assert max(gaps) < 1e-8
    for e, mean, std in zip(contexts[:3], *post.predict_at(contexts[:3]), strict=True):
        np.testing.assert_array_equal([mean, std], post.predict(e))
    full = np.tril(post._S) + np.tril(post._S, -1).T  # symmetric by storage; what can go wrong is its sign
    assert np.linalg.eigvalsh(full).min() > -1e-12
    ratio = cost_ratio(post.copy(), young, records[:500])
    record_property(f"{setting}: cost at t=1e5 over t=1e3", f"{ratio:.2f}")
    assert ratio < 1.3


def cost_ratio(old, young, records):
    """Median cost of one round, the two taking turns so that a busy machine hits both alike."""
    spent = {old: [], young: []}
    for record in records:
        for post, times in spent.items():
            begin = time.perf_counter()
            post.predict(record[1])
            post.condition(*record)
            times.append(time.perf_counter() - begin)
    return np.median(spent[old]) / np.median(spent[young])


def test_state_does_not_grow_between_1e3_and_2e4():
    problem, kernel, hours = wind()
    post = posterior(problem, kernel, 1.0, contexts=hours)
    sizes = []
    for t in (1000, 19_000):
        post.condition_on(long_record(problem, hours, t, seed=t))
        sizes.append(sum(array.nbytes for array in post.state().values()))
    assert sizes[0] == sizes[1]


def test_exact_equals_dense_and_flat_is_close_at_2000(record_property):
    problem, kernel = synthetic()
    rng = np.random.default_rng(2)
    f = smooth_function(problem, rng)
    actions, contexts = rng.integers(400, size=2000), rng.uniform(size=2000)
    y = np.array([f(x, e) for x, e in zip(actions, contexts, strict=True)]) + 0.06 * rng.normal(size=2000)
    past = History(actions, contexts, y)
    exact = posterior(problem, kernel, 0.06, method="exact", history=past)
    flat = posterior(problem, kernel, 0.06, context_bounds=(0, 1))
    for record in zip(actions, contexts, y, strict=True):
        flat.predict(record[1])
        flat.condition(*record)
    exact_gap, flat_gap = 0.0, 0.0
    for context in np.linspace(0, 1, 9):
        dense = dense_gp.dense_posterior(problem, kernel, 0.0036, actions, contexts, y, context)
        exact_gap = max(exact_gap, np.abs(np.subtract(exact.predict(context), dense)).max())
        flat_gap = max(flat_gap, np.abs(np.subtract(flat.predict(context), dense)).max())
    record_property("exact against dense at t=2000", f"{exact_gap:.1e}")
    record_property("flat against dense at t=2000", f"{flat_gap:.1e}")
    assert exact_gap < 1e-8
    assert flat_gap < 1e-3
