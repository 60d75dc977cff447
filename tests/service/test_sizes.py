"""Sizes: counted exactly, and refused before anything is built."""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from service.running import KERNEL

import holdcourse as hc
from holdcourse.errors import TooLarge
from holdcourse.learning.posteriors.exact import MAX_HISTORY
from holdcourse.service.core import configuration
from holdcourse.service.core.requests import Config

AXES = {f"axis{k}": list(range(4096)) for k in range(16)}  # 2**192 actions, which 64 bits take for 0


@contextmanager
def little_memory(mebibytes=100):
    """What is done within takes no more than so much, in whichever thread: the kernel keeps the peak."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _kibibytes("VmRSS")
    yield
    taken = (_kibibytes("VmHWM") - before) >> 10
    assert taken < mebibytes, f"{taken} MiB"


def _kibibytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def test_a_grid_too_large_for_64_bits_is_refused_before_it_is_built(client, name):
    with little_memory():
        error = client.create(id=name, actions=AXES, status=422)
    assert "about 1e57 actions, but the service takes at most 5,000" in error["message"]
    client.see(name, "state", status=404)
    client.create(id=name)
    with little_memory():
        assert "about 1e57 actions" in client.change(name, actions=AXES, status=422)["message"]
    assert client.see(name, "state")["epoch"] == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "over 5000 actions under a kernel of 1 part would take 2.0 GB; at most 3663 actions fit into 1.1 GB"),
        ({"policy": "recommended", "options": {}}, "over 5000 actions would take 2.0 GB; at most 3663"),
    ],
)
def test_matrices_that_do_not_fit_are_refused_before_they_are_built(client, name, change, words):
    actions = np.arange(5000.0).tolist()
    with little_memory(200):
        assert words in client.create(id=name, actions=actions, **change, status=422)["message"]


def test_a_kernel_of_many_parts_counts_each(client, name):
    kernel = sum([KERNEL] * 30, start=KERNEL).to_json()
    error = client.create(id=name, actions=np.arange(2000.0).tolist(), options={"kernel": kernel}, status=422)
    assert "a kernel of 31 parts would take 1.3 GB; at most 1831" in error["message"]


def test_policies_that_do_not_learn_take_as_many_actions_as_the_service_does():
    settings = configuration.settings_of(Config(id="a", actions=[0.0] * 5000, policy="fixed-at"))
    configuration.require_room(settings)
    with pytest.raises(TooLarge, match="at most 3663"):
        configuration.require_room(dataclasses.replace(settings, policy="planner"))


def test_the_library_refuses_a_grid_with_what_would_fit():
    with (
        little_memory(),
        pytest.raises(TooLarge, match=r"about 1e57 actions; with 16 axes at most 1,250,000 fit.* 2 values"),
    ):
        hc.grid(**AXES)
    with pytest.raises(TooLarge, match=r"1000 x 1000 x 1000 has 1,000,000,000 actions; .* 188 values per axis"):
        hc.grid(a=range(1000), b=range(1000), c=range(1000))


def test_a_grid_of_a_million_takes_about_as_much_as_its_numbers():
    with little_memory(64):
        points = hc.grid(a=range(1000), b=range(1000)).coordinates
    assert points.shape == (1_000_000, 2)
    assert_array_equal(points[[0, 1, 1000, -1]], [[0, 0], [0, 1], [1, 0], [999, 999]])


def test_a_callable_metric_is_not_asked_about_more_actions_than_its_matrix_can_hold():
    def never(a, b):
        raise AssertionError("asked")

    with little_memory():
        with pytest.raises(TooLarge, match="matrix of 1000000 actions would take 8000 GB"):
            hc.Problem(hc.grid(a=range(1000), b=range(1000)), never)
        with pytest.raises(TooLarge, match="matrix of 20001 actions"):
            hc.Problem(range(20_001), never)


def test_an_exact_posterior_refuses_a_history_whose_factor_does_not_fit():
    post = hc.posterior(hc.Problem([0.0, 1.0]), KERNEL, method="exact")
    count = MAX_HISTORY + 1
    past = hc.History(np.zeros(count, dtype=int), np.linspace(0, 1, count), np.zeros(count))
    with little_memory(), pytest.raises(TooLarge, match=r"10001 measurements would take 1 GB; .* method=.flat"):
        post.condition_on(past)
    assert post.observations == 0
