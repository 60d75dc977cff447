"""Units as people write them: what is read is what was meant, or an error says what to write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdcourse.errors import InvalidInput
from holdcourse.units import QUANTITIES, Price, amount, beside, factor, known, lasting, price, quantity, rounds, seconds

ALL = sorted(unit for units in QUANTITIES.values() for unit in units if unit)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("20 Wh/m", Price(20.0, "Wh", "m")),
        ("0.36 kWh/m", Price(0.36, "kWh", "m")),
        ("0,36 kWh/m", Price(0.36, "kWh", "m")),
        ("0,5 EUR per change", Price(0.5, "EUR", "change")),
        ("0.5 € per move", Price(0.5, "EUR", "change")),
        ("5 EUR / switch", Price(5.0, "EUR", "change")),
        ("1.234,5 Wh/m", Price(1234.5, "Wh", "m")),
        ("1,234.5 Wh/m", Price(1234.5, "Wh", "m")),
        ("1 000 Wh/m", Price(1000.0, "Wh", "m")),
        ("12 345,5 Wh/m", Price(12345.5, "Wh", "m")),
        ("1'234'567.5 Wh/m", Price(1234567.5, "Wh", "m")),
        ("1\u202f000 Wh/m", Price(1000.0, "Wh", "m")),
        ("5 1/min", Price(5.0, "", "min")),
        ("2kWh/°C", Price(2.0, "kWh", "°C")),
        ("3 kwh per K", Price(3.0, "kWh", "K")),
        ("1e-3 kWh/m", Price(0.001, "kWh", "m")),
        ("7 points per worker", Price(7.0, "points", "worker")),
    ],
)
def test_prices(text, found):
    assert price(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("20 Wh", "does not say what it is paid for; write it like '20 Wh/m'"),
        ("20", "does not say what it is paid for"),
        ("kWh/m", "must begin with a number"),
        ("", "must begin with a number"),
        ("nan kWh/m", "must begin with a number"),
        ("1,234 Wh/m", "'1,234' may be read in two ways"),
        ("1.2.3 Wh/m", "may be read in two ways"),
        ("1,23.4 Wh/m", "'1,23.4' may be read in two ways"),
        ("1.23,4 Wh/m", "may be read in two ways"),
        ("12 3 Wh/m", "'12 3' may be read in two ways"),
        ("1 0000 Wh/m", "'1 0000' may be read in two ways"),
        ("1234 567 Wh/m", "'1234 567' may be read in two ways"),
        ("1'23 Wh/m", "may be read in two ways"),
        ("1 234'567 Wh/m", "may be read in two ways"),
        ("3 mw/m", "the unit 'mw' may be MW or mW; write which"),
        ("3 kWh/", "does not say what it is paid for"),
    ],
)
def test_prices_that_cannot_be_read(text, words):
    with pytest.raises(InvalidInput) as caught:
        price(text, "scale")
    assert words in str(caught.value)


def test_prices_in_other_units():
    assert price("20 Wh/m").in_units("kWh", "m", "scale") == pytest.approx(0.02)
    assert price("2 kWh/km").in_units("kWh", "m", "scale") == pytest.approx(0.002)
    assert price("3 kWh/K").in_units("kWh", "°C", "scale") == 3.0
    for wrong, words in (
        ("2 EUR/m", "scale is in EUR, which cannot be converted to kWh"),
        ("2 kWh/h", "scale is in h, which cannot be converted to m"),
        ("2 kWh per change", "scale is paid for each change, but must be for each m; give such a price as fixed_cost="),
    ):
        with pytest.raises(InvalidInput, match=words):
            price(wrong).in_units("kWh", "m", "scale")
    with pytest.raises(InvalidInput, match=r"fixed_cost is paid for each m.* change; give such a price as scale="):
        price("2 kWh/m").in_units("kWh", "change", "fixed_cost")


@given(unit=st.sampled_from(ALL), number=st.floats(1e-3, 1e3))
def test_a_unit_there_and_back(unit, number):
    for other in (each for each in ALL if quantity(each) == quantity(unit)):
        there = amount(f"{number!r} {unit}", other, "it")
        assert amount(f"{there!r} {other}", unit, "it") == pytest.approx(number)
    assert factor(unit, unit, "it") == 1.0


@given(number=st.floats(-1e6, 1e6))
def test_a_number_alone_is_taken_as_it_is(number):
    assert amount(number, "m", "it") == amount(repr(number), "m", "it") == number


@pytest.mark.parametrize(
    "value", [True, None, float("nan"), float("inf"), [1.0], "far", "5 parsec", "5 kWh", "1e400 m"]
)
def test_amounts_that_make_no_sense(value):
    with pytest.raises(InvalidInput, match="max_step"):
        amount(value, "m", "max_step")


def test_a_one_over_a_unit_belongs_to_the_unit():
    assert amount("5 1/min", "1/min", "it") == 5.0
    assert amount("1 500 1/min", "1/min", "it") == 1500.0


def test_units_by_other_names():
    assert [known(unit) for unit in ("kwh", "KWH", "Metres", "deg", "€", "MW", "mW", "workers", "")] == [
        *("kWh", "kWh", "m", "°", "EUR", "MW", "mW", "workers", ""),
    ]
    with pytest.raises(InvalidInput, match="which cannot be converted to kWh; did you mean"):
        factor("kWhs", "kWh", "it")


def test_temperatures_on_a_scale_are_not_converted():
    assert amount("9 °F", "°C", "max_step") == pytest.approx(5.0)
    with pytest.raises(InvalidInput, match="must be in °C"):
        amount("68 °F", "°C", "start", absolute=True)


def test_times():
    assert rounds(3, None, "min_dwell") == 3
    assert rounds("45 min", 900.0, "min_dwell") == 3
    assert rounds("50 min", 900.0, "min_dwell") == 4  # at least so long
    assert rounds("3 rounds", None, "min_dwell") == 3
    assert seconds("15 min", "round_length") == 900.0
    assert [lasting(x) for x in (30, 90, 2700, 3600, 5400, 86400, 100_000)] == [
        *("30 s", "1.5 min", "45 min", "1 h", "1.5 h", "1 d", "1667 min"),
    ]
    for far in ("1e30 h", "1e400 h", "1e300 h"):
        with pytest.raises(InvalidInput, match="min_dwell"):
            rounds(far, 1e-300, "min_dwell")
    for wrong in ("0 min", "-5 min"):
        with pytest.raises(InvalidInput, match=f"min_dwell='{wrong}' must be more than 0"):
            rounds(wrong, 900.0, "min_dwell")
    for wrong in (0, -5, "0 s"):
        with pytest.raises(InvalidInput, match="round_length must be more than 0"):
            seconds(wrong, "round_length")


def test_an_energy_is_no_power():
    with pytest.raises(InvalidInput, match="divide by the hours of a round and write it in kW"):
        price("2 kWh/K").in_units("kW", "K", "scale")
    assert price("2 eur per change").unit == "EUR"


def test_a_number_beside_its_unit():
    assert [beside("5", unit) for unit in ("m", "", "%", "°")] == ["5 m", "5", "5%", "5°"]
