"""The longest single move, in the units of the settings and as a cost."""

from __future__ import annotations

import numpy as np
import pytest

import holdcourse as hc
from holdcourse.errors import InvalidInput
from holdcourse.movement.steps import longest_step

HEIGHTS = hc.Problem([100.0, 150.0, 200.0, 300.0], unit="m", scale="20 Wh/m", cost_unit="kWh", fixed_cost="100 Wh")
ROOM = hc.Problem(hc.grid(supply=[18, 20, 22], fan=[0.1, 0.2, 0.3]), unit=["°C", "kW"], scale=[1.0, 10.0])
FLAT = hc.Problem([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]], unit="m")
TENTHS = hc.Problem(np.linspace(0.0, 1.0, 11))


def test_prices_become_numbers_in_the_units_of_the_problem():
    assert HEIGHTS.distance(0, 2) == pytest.approx(0.02 * 100 + 0.1)
    assert (HEIGHTS.units, HEIGHTS.cost_unit) == (("m",), "kWh")
    again = hc.Problem.from_data(HEIGHTS.describe())
    assert again.describe() == HEIGHTS.describe()
    assert (
        again.fingerprint
        == HEIGHTS.fingerprint
        == hc.Problem([100.0, 150.0, 200.0, 300.0], scale=0.02, fixed_cost=0.1).fingerprint
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"scale": "20 Wh/s", "unit": "m", "cost_unit": "Wh"},
            "scale is in s, which cannot be converted to m",
        ),
        (
            {"scale": "20 EUR/m", "unit": "m", "cost_unit": "kWh"},
            "scale is in EUR, which cannot be converted to kWh",
        ),
        (
            {"scale": "20 Wh per change", "unit": "m", "cost_unit": "Wh"},
            "scale is paid for each change, but must be for each m",
        ),
        (
            {"scale": "20 Wh/m"},
            "scale is a price in Wh; say in which unit costs are measured, such as cost_unit='Wh'",
        ),
        (
            {"scale": "20 Wh/m", "cost_unit": "Wh"},
            "scale is a price for each m; say in which unit the settings are: unit='m'",
        ),
        ({"scale": "-20 Wh/m", "unit": "m", "cost_unit": "Wh"}, "scale must be positive"),
        ({"fixed_cost": "5 Wh/m", "unit": "m", "cost_unit": "Wh"}, "fixed_cost is paid for each m"),
        ({"fixed_cost": "-5 Wh", "cost_unit": "Wh"}, "fixed_cost must be 0 or more"),
        ({"fixed_cost": "5 Wh"}, "fixed_cost is a price in Wh; say in which unit costs are measured"),
        ({"scale": ["1 Wh/m", "1 Wh/m", "1 Wh/m"]}, "scale must be one price or 1"),
        ({"unit": 3}, "unit must be one unit"),
        ({"unit": "mw"}, "the unit 'mw' may be MW or mW"),
        ({"context_names": "load"}, "context_names must be a list of words"),
        (
            {"context_names": ["load"], "context_units": ["kW", "K"]},
            "must be 1 unit, one for each name in context_names, got 2",
        ),
    ],
)
def test_wrong_units(options, words):
    with pytest.raises(InvalidInput) as caught:
        hc.Problem([1.0, 2.0], **options)
    assert words in str(caught.value)


def test_settings_are_named_with_their_units():
    assert HEIGHTS.named(1) == "150 m"
    assert ROOM.named(0) == "supply 18 °C, fan 0.1 kW"
    assert FLAT.named(1) == "(3, 4) m"
    assert hc.Problem([0, 1], unit="m", labels=["low", "high"]).named(1) == "high"
    assert hc.Problem([[1, 2], [3, 4]], unit=["m", "K"]).named(0) == "(1 m, 2 K)"


@pytest.mark.parametrize(
    ("problem", "step", "within"),
    [
        (HEIGHTS, 50, [0, 1]),
        (HEIGHTS, "50 m", [0, 1]),
        (HEIGHTS, "0.1 km", [0, 1, 2]),
        (HEIGHTS, [60.0], [0, 1]),
        (ROOM, [2, 0.1], [0, 1, 3, 4]),
        (ROOM, ["2 K", "100 W"], [0, 1, 3, 4]),
        (ROOM, {"supply": 0}, [0, 1, 2]),
        (FLAT, 5, [0, 1]),
        (FLAT, 4.9, [0]),
        (TENTHS, 0.1, [0, 1]),
    ],
)
def test_how_far_a_step_goes(problem, step, within):
    longest = longest_step(problem, step)
    assert np.flatnonzero(longest.within(0)).tolist() == within
    assert longest.within_all()[0].tolist() == longest.within(0).tolist()


def test_a_step_of_a_tenth_reaches_every_neighbour():
    within = longest_step(TENTHS, 0.1).within_all()
    assert (within == (np.abs(np.subtract.outer(range(11), range(11))) <= 1)).all()


def test_a_step_and_its_cost():
    both = longest_step(HEIGHTS, 200, 2.1)
    assert np.flatnonzero(both.within(0)).tolist() == [0, 1, 2]
    assert str(longest_step(HEIGHTS, "50 m")) == "50 m, which costs 1.1 kWh"
    assert str(longest_step(ROOM, [2, 0.1])) == "supply 2 °C, fan 0.1 kW"
    assert str(longest_step(HEIGHTS, None, 3)) == "a cost of 3 kWh"
    assert longest_step(HEIGHTS).is_any


@pytest.mark.parametrize(
    ("problem", "step", "words"),
    [
        (HEIGHTS, -1, "max_step must be 0 or more"),
        (HEIGHTS, "50 s", "max_step is in s, which cannot be converted to m"),
        (HEIGHTS, [1, 2], "max_step must be one step or 1"),
        (HEIGHTS, {"x": 1}, "the axes have no names"),
        (ROOM, 2, "the axes have different units"),
        (ROOM, {"pump": 2}, "the axes are"),
        (hc.Problem(metric=[[0, 1], [1, 0]]), 1, "limit max_step_cost instead"),
        (hc.Problem(["a", "b"], lambda x, y: float(x != y)), 1, "limit max_step_cost instead"),
    ],
)
def test_steps_that_make_no_sense(problem, step, words):
    with pytest.raises(InvalidInput) as caught:
        longest_step(problem, step)
    assert words in str(caught.value)


def test_limits_in_the_users_units():
    limits = hc.Limits(min_dwell="45 min", max_step="50 m", max_moves=2, window="2 h", round_length="15 min")
    assert (limits.min_dwell, limits.window, limits.round_length) == (3, 8, 900.0)
    guard = hc.Guard(9.0, revert_to=100, cool_down="1 h")
    controller = hc.Controller(hc.minc_known(HEIGHTS), start=100, limits=limits, guard=guard)
    assert (controller.limits.max_step, controller.guard.cool_down) == (50.0, 4)
    assert controller.limits.in_words(HEIGHTS) == {
        "min_dwell": "45 min (3 rounds)",
        "max_step": "50 m, which costs 1.1 kWh",
        "max_moves": "2 in any 2 h (8 rounds)",
    }
    decision = controller.ask(costs=[3.0, 2.0, 1.0, 0.0])
    assert (decision.value, decision.wanted_value, decision.limited_by) == (150.0, 300.0, "max_step")
    with pytest.raises(hc.errors.InvalidInput, match="cool_down='1 h' is a time; say how long a round is"):
        hc.Controller(hc.minc_known(HEIGHTS), guard=guard)


def test_an_explanation_has_units_and_names():
    problem = hc.Problem(
        [18.0, 20.0], unit="°C", scale="500 Wh/K", cost_unit="kWh", context_names=["outdoor"], context_units=["°C"]
    )
    controller = hc.Controller(hc.minc_known(problem), start=18)
    words = controller.explain(controller.ask(context=7.5, costs=[3.0, 1.0]).id).words
    assert words == (
        "Round 0: go from 18 °C to 20 °C, a move that costs 1 kWh. "
        "The expected service cost is 1 kWh there and 3 kWh at 18 °C. The conditions were: outdoor 7.5 °C."
    )


@pytest.mark.parametrize("make", [hc.planner_known, hc.recommended])
def test_a_plan_keeps_to_the_step(make):
    known = make is hc.planner_known
    policy = make(HEIGHTS, max_step="50 m")
    controller = hc.Controller(policy, start=100)
    for t in range(6):
        here = controller.action
        decision = controller.ask(context=t % 2, **({"costs": [9.0, 5.0, 3.0, 0.0]} if known else {}))
        assert longest_step(HEIGHTS, 50).within(here)[decision.wanted]
        controller.tell(decision.id, 1.0)
    from holdcourse.deciding import recipe

    again = recipe.make(recipe.describe(policy))
    assert again.fingerprint == policy.fingerprint
