"""How finely a continuous setting is cut."""

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput, TooLarge


def test_a_grid_loses_what_was_allowed_and_not_much_less():
    """On costs drawn from the kernel: the best value on the grid against the best of 401, over 400 draws."""
    fine = np.linspace(0.0, 1.0, 401)
    K = np.exp(-0.5 * ((fine[:, None] - fine[None]) / 0.2) ** 2)
    values, vectors = np.linalg.eigh(K)
    root = vectors[:, -40:] * np.sqrt(np.maximum(values[-40:], 0.0))
    drawn = np.random.default_rng(7).normal(size=(400, 40)) @ root.T
    grid = hc.resolution(0.0, 1.0, length_scale=0.2, loss=0.01)
    at = np.round(grid * 400).astype(int)
    loss = float((drawn[:, at].min(axis=1) - drawn.min(axis=1)).mean())
    assert 0.002 < loss < 0.01  # less than allowed: at an end of the range nothing is lost


def test_dear_moves_need_fewer_values():
    counts = [len(hc.resolution(0.0, 1.0, length_scale=0.1, price=price)) for price in (0.0, 10.0, 1000.0, 1e5)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 2


@pytest.mark.parametrize(
    "wrong", [{"length_scale": 0.0}, {"length_scale": 1.0, "price": -1.0}, {"length_scale": np.nan}]
)
def test_what_is_refused(wrong):
    with pytest.raises(InvalidInput):
        hc.resolution(0.0, 1.0, **wrong)
    with pytest.raises(InvalidInput, match="low below high"):
        hc.resolution(1.0, 1.0, length_scale=1.0)
    with pytest.raises(TooLarge, match="more than 10000"):
        hc.resolution(0.0, 1.0, length_scale=1e-9)
