"""How finely a continuous setting is cut."""

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.movement.resolution import spacing


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


def test_noise_needs_fewer_values():
    counts = [len(hc.resolution(0.0, 1.0, length_scale=0.1, loss=0.001, noise=noise)) for noise in (0.0, 0.5, 2.0, 9.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == counts[1] > counts[2] > counts[3]


def test_a_spacing_by_noise_is_how_well_the_lowest_place_is_known():
    """A parabola that bends as resolution says, measured half a length scale to either side of its lowest place."""
    length, noise, count, rng = 0.3, 0.5, 40, np.random.default_rng(0)
    bend = 2.0 / length**2  # of a deviation of 1
    x = np.repeat([-length / 2, length / 2], count // 2)
    read = bend / 2 * x**2 + noise * rng.normal(size=(4000, count))
    slope = (read[:, x > 0].mean(axis=1) - read[:, x < 0].mean(axis=1)) / length
    least = spacing(length, 1.0, price=0.0, rounds=33.0, loss=1e-9, noise=noise, measurements=count)
    assert (slope / bend).std() == pytest.approx(least, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_scale": 0.0},
        {"length_scale": 1.0, "noise": -0.1},
        {"length_scale": 1.0, "price": -1.0},
        {"length_scale": np.nan},
    ],
)
def test_what_is_refused(wrong):
    with pytest.raises(InvalidInput):
        hc.resolution(0.0, 1.0, **wrong)
    with pytest.raises(InvalidInput, match="low below high"):
        hc.resolution(1.0, 1.0, length_scale=1.0)
    with pytest.raises(TooLarge, match="more than 10000"):
        hc.resolution(0.0, 1.0, length_scale=1e-9)
