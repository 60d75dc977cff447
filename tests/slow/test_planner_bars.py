"""What planning and our recommendation must be worth, with full counts: docs/benchmark-table.md says what was measured.

The comparison runs once; every test reads its own part of it.
"""

from __future__ import annotations

from itertools import product

import pytest

from holdcourse.experiments.comparison import EASY, HARD, PUBLIC_SEEDS, RHOS, Comparison, ComparisonPlan
from holdcourse.experiments.results import standard_error
from holdcourse.experiments.runner import run_sweep

pytestmark = pytest.mark.slow

OURS = ("planner", "recommended")


def compared(folder, **plan):
    wanted = ComparisonPlan(first_seed=PUBLIC_SEEDS.start, **plan)
    return Comparison.of(run_sweep(wanted.sweep(), folder, workers=1).rows, wanted.labels, wanted.cells)


@pytest.fixture(scope="module")
def easy(tmp_path_factory):
    extra = ("planner-known", "gp-md-1", "gp-md", "hedged", "planner-forecast", "planner-shuffled")
    return compared(tmp_path_factory.mktemp("easy"), policies=OURS + extra, processes=EASY)


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    return compared(tmp_path_factory.mktemp("hard"), policies=(*OURS, "gp-md-1", "hedged"), processes=HARD)


def table(found, policy):
    """Ratios by landscape and cell."""
    return found.ratios[found.policies.index(policy)]


# The bar is kept where it was set. The planner meets it (0.79); with the promise, which costs 0.03 on these landscapes,
# `recommended` pays 0.81: see docs/benchmark-table.md.
@pytest.mark.parametrize(
    "name", ["planner", pytest.param("recommended", marks=pytest.mark.xfail(strict=True, reason="0.81; see above"))]
)
def test_it_pays_at_most_four_fifths_of_gp_md(easy, name, record_property):
    mine, theirs = table(easy, name).mean(), table(easy, "gp-md").mean()
    record_property(f"{name}, GP-MD (width 2): ratio to the optimum", f"{mine:.3f}, {theirs:.3f}")
    assert mine <= 0.80 * theirs


# The bar is kept where it was set. On landscapes 7000 to 7007 the planner passed it (1.29), on these it does not
# (1.37): landscapes differ by more than the policies do, see docs/beyond.md.
@pytest.mark.xfail(strict=True, reason="the bar of 1.30 is not met on the public landscapes; see docs/beyond.md")
@pytest.mark.parametrize("name", OURS)
def test_it_pays_at_most_1_30_of_the_optimum(easy, name):
    assert table(easy, name).mean() <= 1.30


@pytest.mark.parametrize("name", OURS)
def test_it_has_not_become_dearer(easy, name):
    assert table(easy, name).mean() <= 1.42  # measured: 1.37 and 1.40


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("other", ["gp-md-1", "gp-md"])
def test_in_no_cell_is_it_worse_than_gp_md_by_more_than_the_error(easy, name, other):
    for cell, apart in zip(easy.cells, (table(easy, name) - table(easy, other)).T, strict=True):
        assert apart.mean() <= standard_error(apart), (cell, apart.mean())


def test_known_costs(easy, record_property):
    known = table(easy, "planner-known").mean()
    record_property("planner, known costs: ratio to the optimum", f"{known:.3f}")
    assert known <= 1.08


def test_neither_a_true_nor_a_shuffled_forecast_does_harm(easy, record_property):
    names = ("planner", "planner-forecast", "planner-shuffled")
    without, true, shuffled = (table(easy, name).mean() for name in names)
    record_property("no forecast, a true and a shuffled one", f"{without:.3f}, {true:.3f}, {shuffled:.3f}")
    apart = (table(easy, "planner-forecast") - table(easy, "planner")).mean(axis=1)
    assert apart.mean() <= standard_error(apart)
    assert shuffled <= 1.03 * without


@pytest.mark.xfail(strict=True, reason="the bar of 1.25 is not met: learning costs more than not knowing what comes")
def test_a_true_forecast_pays_at_most_1_25_of_the_optimum(easy):
    assert table(easy, "planner-forecast").mean() <= 1.25


@pytest.mark.parametrize("name", ["hedged", "recommended"])
@pytest.mark.parametrize("process", EASY + HARD)
def test_the_hedge_stays_close_to_the_better_expert(easy, hard, process, name, record_property):
    here = (easy if process in EASY else hard).select((process,))
    ratio = table(here, name).mean() / min(table(here, expert).mean() for expert in ("planner", "gp-md-1"))
    record_property(f"{name} over the better expert, {process}", f"{ratio:.3f}")
    assert ratio <= 1.10


@pytest.fixture(scope="module")
def totals(tmp_path_factory):
    """What policies pay in the paper's own benchmark, by policy and rho."""
    plan = ComparisonPlan(policies=(*OURS, "gp-md"), processes=("iid",), seeds=25, rounds=500, grid=20)
    found = dict.fromkeys(product(plan.policies, RHOS), 0.0)
    for row in run_sweep(plan.sweep(), tmp_path_factory.mktemp("paper"), workers=1).rows:
        found[row.policy, row.rho] += row.total
    return found


# The bar is kept where it was set. The planner meets it (0.70, 0.81, 0.80); so does `recommended`, but for rho 2, where
# it pays 0.856: see docs/beyond.md.
@pytest.mark.parametrize(
    ("name", "rho"),
    [
        *product(["planner"], RHOS),
        *product(["recommended"], RHOS[:2]),
        pytest.param("recommended", RHOS[2], marks=pytest.mark.xfail(strict=True, reason="0.856; see above")),
    ],
)
def test_the_papers_own_benchmark(totals, name, rho, record_property):
    ratio = totals[name, rho] / totals["gp-md", rho]
    record_property(f"the paper's benchmark, rho {rho:g}: {name} over GP-MD", f"{ratio:.3f}")
    assert ratio <= 0.85
