"""The page about the reproduction says what the committed results say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from holdcourse.experiments.paper import SyntheticPlan, WindPlan
from holdcourse.experiments.store import read_summary

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = ("clairvoyant", "md-known", "gp-md", "cgp-lcb", "minc-known", "stationary")


@pytest.fixture(scope="module")
def page():
    return (DOCS / "reproduction.md").read_text()


@pytest.fixture(scope="module")
def synthetic():
    return read_summary(DOCS / "reproduction" / "summary-synthetic.csv")


def test_the_committed_runs_are_the_full_ones(synthetic):
    wind = read_summary(DOCS / "reproduction" / "summary-wind.csv")
    for rows, plan in ((synthetic, SyntheticPlan()), (wind, WindPlan())):
        expected = sorted((run.experiment, run.policy.name, run.rho, str(run.problem)) for run in plan.sweep().runs)
        assert sorted((row.experiment, row.policy, row.rho, row.problem) for row in rows) == expected


def test_the_table_of_synthetic_costs(page, synthetic):
    lines = re.findall(r"^\| rho ([\d.]+) \| (.*) \|$", page, re.MULTILINE)
    assert [float(rho) for rho, _ in lines] == [0.25, 0.5, 1.0, 2.0, 4.0]
    for rho, cells in lines:
        for policy, cell in zip(COLUMNS, cells.split(" | "), strict=True):
            mean, error = (float(number) for number in cell.split(" ± "))
            totals = [
                row.total
                for row in synthetic
                if (row.experiment, row.policy, row.rho) == ("synthetic", policy, float(rho))
            ]
            assert len(totals) == 25
            assert abs(np.mean(totals) - mean) <= 0.51
            assert abs(np.std(totals, ddof=1) / 5 - error) <= 0.51


def test_what_the_page_concludes_from_it(synthetic):
    def mean(policy, rho, experiment="synthetic", column="total"):
        chosen = [row for row in synthetic if (row.experiment, row.policy, row.rho) == (experiment, policy, rho)]
        return np.mean([getattr(row, column) for row in chosen])

    for rho in (0.25, 0.5, 1.0, 2.0, 4.0):
        others = [mean(policy, rho) for policy in COLUMNS if policy not in ("clairvoyant", "md-known")]
        assert mean("md-known", rho) < min(others)
    assert [round(mean("gp-md", rho) / mean("md-known", rho), 2) for rho in (0.5, 1.0, 2.0)] == [1.24, 1.17, 1.15]
    assert round(mean("cgp-lcb", 0.1, "synthetic-rho") / mean("gp-md", 0.1, "synthetic-rho"), 1) == 7.5
    assert round(mean("gp-md", 10.0, "synthetic-rho") / mean("cgp-lcb", 10.0, "synthetic-rho"), 2) == 1.04
    assert [round(mean("gp-md", rho, column="movement")) for rho in (0.5, 2.0)] == [40, 90]
