"""What must hold for every posterior, whatever is told."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import dense_gp
from sklearn.gaussian_process.kernels import RBF, Matern

from holdcourse.learning.history import History
from holdcourse.learning.kernels import Kernel
from holdcourse.learning.posteriors import posterior
from holdcourse.movement.problem import Problem

LINE = Problem(np.linspace(0.0, 1.0, 5))
KERNELS = [
    Kernel(RBF(0.4), RBF(0.5)),
    Kernel(Matern(0.4, nu=0.5), RBF(1.0), variance=0.3),
    Kernel(np.eye(5) + 1.0, RBF(0.7)) + Kernel(RBF(0.3), variance=2.0),
]
records = st.lists(
    st.tuples(st.integers(0, 4), st.floats(0, 1, width=16), st.floats(-5, 5, width=16)), min_size=1, max_size=30
)
kernels = st.sampled_from(KERNELS)
methods = st.sampled_from(["exact", "flat", "auto"])


def made(kernel, method, noise_std, **settings):
    bounds = None if method == "auto" else (0, 1)
    return posterior(LINE, kernel, noise_std, method=method, context_bounds=bounds, **settings)


def told(post, triples):
    for triple in triples:
        post.condition(*triple)
    return post


@given(records, kernels, methods, st.floats(0.05, 2.0), st.floats(0, 1))
def test_every_method_equals_the_dense_solve(triples, kernel, method, noise_std, context):
    post = told(made(kernel, method, noise_std), triples)
    actions, contexts, y = zip(*triples, strict=True)
    mean0, std0 = dense_gp.dense_posterior(LINE, kernel, noise_std**2, actions, contexts, y, context)
    mean, std = post.predict(context)
    # The flat method discards 1e-10 of the prior variance; its bound allows for sqrt(1e-10 t) / noise_std.
    np.testing.assert_allclose(mean, mean0, atol=1e-3 if method == "flat" else 1e-8)
    np.testing.assert_allclose(std, std0, atol=1e-4 if method == "flat" else 1e-8)


@given(records, kernels, methods, st.randoms(use_true_random=False))
def test_order_does_not_matter(triples, kernel, method, random):
    one = told(made(kernel, method, 0.3), triples)
    shuffled = list(triples)
    random.shuffle(shuffled)
    other = told(made(kernel, method, 0.3), shuffled)
    np.testing.assert_allclose(one.predict(0.5), other.predict(0.5), atol=1e-8)
    assert one.information_gain == pytest.approx(other.information_gain, abs=1e-8)


@given(records, kernels, methods, st.floats(0, 1))
def test_measuring_never_adds_doubt_and_always_adds_information(triples, kernel, method, context):
    post = made(kernel, method, 0.3)
    _, before = post.predict(context)
    gain = 0.0
    for triple in triples:
        post.condition(*triple)
        _, std = post.predict(context)
        assert (std <= before + 1e-9).all()
        assert post.information_gain > gain
        before, gain = std, post.information_gain


@given(records, kernels, methods)
def test_history_predict_at_and_state_agree_with_telling(triples, kernel, method):
    post = made(kernel, method, 0.3)
    told(post, triples)
    from_history = made(kernel, method, 0.3, history=History.from_triples(triples))
    resumed = made(kernel, method, 0.3).restore(post.state())
    for k, context in enumerate([0.25, 0.75]):
        expected = post.predict(context)
        np.testing.assert_array_equal([array[k] for array in post.predict_at([0.25, 0.75])], expected)
        np.testing.assert_allclose(from_history.predict(context), expected, atol=1e-9)
        np.testing.assert_array_equal(resumed.predict(context), expected)


@settings(max_examples=30)
@given(records, st.sampled_from(["exact", "flat"]), st.sampled_from([1e-12, 1e-6, 1e6, 1e12]))
def test_units_do_not_matter(triples, method, unit):
    plain = told(made(Kernel(RBF(0.4), RBF(0.5)), method, 0.1), triples)
    scaled = made(Kernel(RBF(0.4), RBF(0.5), variance=unit**2), method, 0.1 * unit)
    told(scaled, [(action, context, unit * y) for action, context, y in triples])
    np.testing.assert_allclose(np.array(scaled.predict(0.5)) / unit, plain.predict(0.5), atol=1e-7)
    assert scaled.information_gain == pytest.approx(plain.information_gain, rel=1e-7)
