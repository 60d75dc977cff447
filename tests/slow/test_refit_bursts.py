"""A kernel that is fitted again must not begin to explore again: what the rounds after it cost, on six plants."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.learning.posteriors.fitted import FittedPosterior
from holdcourse.worlds import plants

pytestmark = pytest.mark.slow

ROUNDS = 48  # before and after
COLD = ("chiller", 1001), ("heating", 1000), ("mill", 1001)
WITH_HISTORY = ("boiler", 1000), ("database", 1000), ("pumps", 1000)  # no late or missing readings: one a round
CASES = [(*case, False) for case in COLD] + [(*case, True) for case in WITH_HISTORY]


@pytest.fixture
def refits(monkeypatch):
    """Count the readings after which a new fit was taken over, of those told one by one.

    No policy says that from outside, and this is the one place where it happens.
    """
    told = []
    take_over = FittedPosterior._take_over  # private, and so is what was given at first: see above

    def noted(posterior, found):
        if found.inner is not None:
            told.append(posterior.observations - posterior._given)  # as above
        take_over(posterior, found)

    monkeypatch.setattr(FittedPosterior, "_take_over", noted)  # as above
    return told


def test_the_rounds_after_a_refit_cost_no_more_than_those_before(refits, record_property):
    """Against staying in the same hours, so that the weather of a day is not taken for what a fit has done."""
    changes = []
    for name, seed, with_history in CASES:
        refits.clear()
        case = plants.PLANTS[name].case(seed)
        run = plants.operate(hc.recommended(case.problem, case.history if with_history else None), case, seed)
        stay = case.costs[:, case.start]
        excess = (run.service + run.movement - stay) / stay.mean()
        fitted = [t for t in sorted(set(refits)) if ROUNDS <= t <= case.rounds - ROUNDS]
        assert len(fitted) >= 4, (name, fitted)
        changes.append(np.mean([excess[t : t + ROUNDS].mean() - excess[t - ROUNDS : t].mean() for t in fitted]))
    record_property("rounds after a refit less those before, share of staying", f"{np.mean(changes):+.4f}")
    assert np.mean(changes) <= 0.0, changes
