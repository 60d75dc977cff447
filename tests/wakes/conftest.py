from __future__ import annotations

import pytest

import holdcourse as hc

# The front of the whole year at nine prices is in tests/slow.
STUDY = hc.wakes.Study(hysteresis=(4.0, 8.0), rate_limits=(5.0, 2.0), front=(0.01, 0.06, 0.2, 0.6), folds=2)


@pytest.fixture(scope="session")
def table():
    return hc.wakes.bundled_table()


@pytest.fixture(scope="session")
def winter():
    return hc.wakes.bundled_record().between("2014-01-01", "2014-03-01")


@pytest.fixture(scope="session")
def drift(table, winter):
    return hc.wakes.learn_drift(winter.rounds(), table.directions, table.speeds)


@pytest.fixture(scope="session")
def found(table, winter):
    """A backtest of two months with every policy that is run by default."""
    return hc.wakes.backtest(table, winter, STUDY)
