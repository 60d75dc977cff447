"""Two settings and two contexts, nothing known: what it costs over the optimum, and which pairs are left untried."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.two_states import BLOCKS, IID, PROBLEM, played, sequence

import holdcourse as hc

pytestmark = pytest.mark.slow

SEEDS = (201, 202)


def outcomes(policy):
    """One run per sequence; the start alternates."""
    return [
        played(policy, sequence(*kind, seed=seed), start=seed % 2, seed=seed) for kind in IID + BLOCKS for seed in SEEDS
    ]


@pytest.fixture(scope="module")
def known():
    return outcomes(hc.planner_known(PROBLEM))


@pytest.mark.parametrize("at_most", [None, 0.02])
def test_two_states(known, at_most):
    found = outcomes(hc.recommended(PROBLEM, at_most=at_most))
    assert len(found) >= 40
    assert not any(outcome.untried for outcome in found)
    assert np.mean([o.ratio for o in found]) <= np.mean([o.ratio for o in known]) + 0.003
