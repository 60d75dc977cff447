"""What counts as a number: the same in this process as over HTTP, whatever `float` and numpy would take for one."""

from __future__ import annotations

from collections import deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.checks import are_numbers
from holdcourse.errors import InvalidInput

LINE = hc.Problem([0.0, 0.5, 1.0])
KNOWN = {"kernel": hc.Kernel(RBF(1.0), RBF(0.5)), "noise_std": 0.1}
HUGE, LONGER = 10**400, 10**5000  # beyond all floats, and beyond what Python writes as text
Weather = namedtuple("Weather", ["load", "wind"])
NONE_AT_ALL = [True, False, np.True_, "3", b"3", np.str_("3"), np.array(True), np.array("3"), "abc", ""]


@pytest.fixture
def controller():
    return hc.Controller(hc.gp_md(LINE, **KNOWN))


@pytest.mark.parametrize("given", NONE_AT_ALL, ids=repr)
def test_text_and_truth_are_no_measurements(controller, given):
    decision = controller.ask(context=[0.1, 0.2])
    with pytest.raises(
        InvalidInput, match=r"a measurement must be one number, got .*; text, dates, True and False are not num"
    ):
        controller.tell(decision.id, given)
    if given is not False:
        with pytest.raises(InvalidInput, match="reference must be one finite number"):
            controller.tell(decision.id, 1.0, reference=given)
    controller.tell(decision.id, 1.0)  # nothing was learned of it
    with pytest.raises(InvalidInput, match="history measurements must be numbers"):
        hc.History([0, 1], [0.1, 0.2], [1.0, given])


@pytest.mark.parametrize(
    "given",
    [
        "0.1",
        True,
        ["0.1", "0.2"],
        (0.1, "0.2"),
        [0.1, True],
        np.array(["0.1", "0.2"]),
        np.array([True, False]),
        np.array([0.1, "0.2"], dtype=object),
        [np.array([0.1]), "0.2"],
        Weather(0.1, "0.2"),
        deque([0.1, True]),
        memoryview(b"ab"),
        np.datetime64("2026-11-18T07:00"),  # a number in its own unit, minutes here
        [np.datetime64("2026-11-18"), np.datetime64("2026-11-19")],
        np.array(["2026-11-18", "2026-11-19"], dtype="datetime64[ns]"),
        np.timedelta64(3, "h"),
        np.array([0.1 + 0.2j]),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, memoryview) else repr(given),  # no address in a name
)
def test_text_and_truth_are_no_contexts(controller, given):
    with pytest.raises(InvalidInput, match=r"context must be a number or a list .*, got .*; text, dates, True and F"):
        controller.ask(context=given)
    with pytest.raises(InvalidInput, match=r"forecast must be a number or a list .*, got .*; text, dates, True and F"):
        controller.ask(context=[0.1, 0.2], forecast=[[0.1, 0.2], given])
    with pytest.raises(InvalidInput, match="not numbers"):
        hc.History.from_triples([(0, given, 1.0)])
    assert controller.round == 0


@pytest.mark.parametrize(
    "given", [3, 3.0, np.float32(3), np.int64(3), np.array(3.0), Decimal(3), Fraction(3), np.array(3, dtype=object)]
)
def test_numbers_of_every_kind_are_taken(controller, given):
    for context in (given, [given, given], np.array([given, given], dtype=object)):
        other = hc.Controller(hc.gp_md(LINE, **KNOWN))
        other.tell(other.ask(context=context).id, given, reference=given)
    assert are_numbers([[given, 1.0], (2.0, 3)])


def test_names_that_mean_something_still_do():
    """A product by its name becomes a number in the readings; a time is the context of a wind policy."""
    table = {"product": ["oak", "ash", "oak", "ash"], "valve": [0, 1, 1, 0], "kW": [1.0, 2.0, 3.0, 4.0]}
    readings = hc.read_readings(table, action="valve", cost="kW", context="product")
    assert readings.history.contexts.tolist() == [[1.0], [0.0], [1.0], [0.0]]
    site = hc.Controller(hc.load_policy(Path(__file__).parents[1] / "data" / "site.policy"), start_index=0)
    site.tell(site.ask(context="2020-04-01T00:00Z").id, 9.0)
    named = hc.Problem([0, 1], labels=["closed", "open"])
    controller = hc.Controller(hc.gp_md(named, **KNOWN), start="open")
    controller.tell(controller.ask(context=0.1, allowed=["closed"]).id, 1.0, applied="open")


@pytest.mark.parametrize("huge", [HUGE, -HUGE, LONGER], ids=["huge", "negative", "longer"])
def test_whole_numbers_beyond_all_floats_are_refused_by_name(controller, huge):
    beyond = "must be within plus and minus 1.8e308, the largest number that can be computed with, got .*; use another"
    for given in (huge, [huge, 0.0]):
        with pytest.raises(InvalidInput, match=f"^context {beyond}"):
            controller.ask(context=given)
    with pytest.raises(InvalidInput, match=f"^forecast {beyond}"):
        controller.ask(context=[0.1, 0.2], forecast=[[huge, 0.2]])
    decision = controller.ask(context=[0.1, 0.2])
    with pytest.raises(InvalidInput, match=f"^a measurement {beyond}"):
        controller.tell(decision.id, huge)
    with pytest.raises(InvalidInput, match=r"^reference must be one finite number"):
        controller.tell(decision.id, 1.0, reference=huge)
    with pytest.raises(InvalidInput, match=f"^actions {beyond}"):
        hc.Problem([huge, 1])
    with pytest.raises(InvalidInput, match=f"^scale {beyond}"):
        hc.Problem([0, 1], scale=huge)
    with pytest.raises(InvalidInput, match=f"^metric matrix {beyond}"):
        hc.Problem([0, 1], [[0, huge], [huge, 0]])
    with pytest.raises(InvalidInput, match=f"^history contexts {beyond}"):
        hc.History([0], [huge], [1.0])
    with pytest.raises(InvalidInput, match=f"^a context {beyond}"):
        hc.History.from_triples([(0, huge, 1.0)])


def test_a_fleet_has_the_same_rule():
    with hc.fleet(hc.fixed_at(LINE, 0.5), 2) as fleet:
        for contexts in ("0.1", True, [["0.1"], ["0.2"]]):
            with pytest.raises(InvalidInput, match="contexts must be numbers"):
                fleet.ask(contexts=contexts)
        fleet.ask(contexts=0.3)
        for measurements in ([True, False], ["1", "2"]):
            with pytest.raises(InvalidInput, match="measurements must be numbers"):
                fleet.tell(measurements)
        fleet.tell([1.0, np.nan])
