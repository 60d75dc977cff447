"""Power curves: the paper's numbers, tables, and what they promise over intervals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdcourse.errors import InvalidInput
from holdcourse.wind.files.power_table import UnitWarning, read_curve
from holdcourse.wind.physics import movement_cost, paper_curve, table_curve, wind_world

speeds = st.floats(0, 40)


def test_the_papers_curve():
    curve = paper_curve()
    assert curve.power(12.0) == pytest.approx(0.0579 * 12**3 - 0.09 * 12**2)
    assert curve.power(12.0) == pytest.approx(87.1, abs=0.05)
    fine = np.linspace(0, 40, 400_001)
    made = curve.power(fine)
    assert fine[np.argmax(made)] == pytest.approx(12.0, abs=1e-4)
    assert fine[np.argmin(made[fine < 12])] == pytest.approx(1.04, abs=0.005)
    assert (made[(fine > 0.01) & (fine < 1.55)] < 0).all()
    assert (np.diff(made[fine > 12]) < 0).all()


@st.composite
def curves(draw):
    """The paper's curve or a random table, with or without cut-in and cut-out."""
    cut_in, cut_out = draw(st.sampled_from([(0.0, None), (3.0, None), (0.0, 25.0), (3.0, 25.0)]))
    if draw(st.booleans()):
        return paper_curve(draw(st.floats(5, 20)), cut_in, np.inf if cut_out is None else cut_out)
    knots = draw(st.lists(st.floats(0, 30), min_size=2, max_size=8, unique=True))
    power = draw(st.lists(st.floats(-5, 100), min_size=len(knots), max_size=len(knots)))
    peak = sorted(knots)[int(np.argmax(power))]
    high = None if cut_out is None else max(cut_out, peak, min(knots) + 1)  # a table begins at its cut-in
    return table_curve(sorted(knots), power, None if cut_in == 0 else min(cut_in, sorted(knots)[-1] / 2), high)


@given(curves(), speeds, speeds, st.floats(0, 1))
def test_extremes_hold_for_every_speed_between(curve, one, other, share):
    low, high = min(one, other), max(one, other)
    least, most = curve.extremes(np.array([low]), np.array([high]))
    for speed in [low, high, low + share * (high - low), *np.linspace(low, high, 50)]:
        power = float(curve.power(np.clip(speed, low, high)))
        assert least[0] - 1e-9 <= power <= most[0] + 1e-9


@given(curves(), speeds)
def test_extremes_of_a_point_are_the_power(curve, speed):
    least, most = curve.extremes(np.array([speed]), np.array([speed]))
    if not np.isclose(curve.knots, speed, rtol=1e-12, atol=1e-12).any():  # at a jump both sides count
        assert least[0] == most[0] == curve.power(speed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed,power\n4,10\n4,12\n9,80\n", "must rise, but 4 m/s follows 4 m/s; sort the rows"),
        ("speed,power\n-4,10\n9,80\n", "m.csv: speeds and powers must be finite numbers, and speeds 0 or more"),
        ("4 10\n9 80\n", "line 2: '9 80' is not a speed and a power; write two numbers with a comma"),
    ],
)
def test_mistakes_in_a_table_are_named_with_the_remedy(tmp_path, text, message):
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(message)):
        read_curve(tmp_path / "m.csv")


def test_extremes_are_tight_and_negative_speeds_count_as_none():
    curve = paper_curve()
    least, most = curve.extremes(np.array([-5.0, 11.0, 0.5]), np.array([2.0, 13.0, 1.5]))
    assert most[1] == curve.power(12.0)
    assert least[2] == pytest.approx(float(curve.power(2 * 0.09 / (3 * 0.0579))))
    assert least[0] == least[2]


def test_table_from_a_file(tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text("speed,power\n3,0\n10,80\n12,100\n25,100\n")
    curve = read_curve(path)
    assert curve.power([2.0, 3.0, 6.5, 12.0, 25.0, 26.0]).tolist() == [0.0, 0.0, 40.0, 100.0, 100.0, 0.0]
    assert curve.rated_speed == 12.0
    path.write_text("3,0\nten,80\n")
    with pytest.raises(InvalidInput, match=r"machine.csv, line 2: .* is not a speed and a power"):
        read_curve(path)
    path.write_text("")
    with pytest.raises(InvalidInput, match="two or more pairs"):
        read_curve(path)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_curve(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("header", "rows", "at_twelve"),
    [
        ("speed,power", "3,0\n12,100\n25,100\n", 100.0),
        ("speed (m/s),power (kW)", "3,0\n12,100\n25,100\n", 100.0),
        ("speed (m/s),power (W)", "3,0\n12,100000\n25,100000\n", 100.0),
        ("speed [m/s],power [MW]", "3,0\n12,2.5\n25,2.5\n", 2500.0),
        ("speed,power_kW", "3,0\n12,100\n25,100\n", 100.0),
        ("speed,power in MW", "3,0\n12,2\n25,2\n", 2000.0),
        ("V/kn,P/MW", "6,0\n23.32613,2\n50,2\n", 2000.0),
        ("Wind (m/s);Leistung (MW)", "3;0\n12;2,5\n25;2,5\n", 2500.0),
        ("speed (km/h)\tpower (kw)", "10\t0\n43,2\t80\n90\t80\n", 80.0),
    ],
)
def test_a_unit_in_the_header_is_obeyed(header, rows, at_twelve, tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text(f"{header}\n{rows}", encoding="utf-8")
    assert float(read_curve(path).power(12.0)) == pytest.approx(at_twelve)


@pytest.mark.parametrize(
    ("rows", "likely"), [("3,0\n12,2000000\n25,2000000\n", "power (W)"), ("3,0\n12,0.5\n25,0.5\n", "power (MW)")]
)
def test_an_unlikely_power_without_a_unit_is_a_warning(rows, likely, tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text(f"speed,power\n{rows}")
    with pytest.warns(UnitWarning, match="does not state the unit of power, so it is read as kW") as raised:
        read_curve(path)
    assert likely in str(raised[0].message)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("speed,power (hp)", "the unit 'hp' in the header, 'power (hp)', is neither a speed nor a power"),
        ("power (kW),speed (m/s)", "the first column, 'power (kW)', is a power; put the speeds first"),
        ("speed,power (mw)", "the unit 'mw' may be MW or mW; write which in the header"),
    ],
)
def test_headers_that_cannot_be_obeyed(header, words, tmp_path):
    path = tmp_path / "machine.csv"
    path.write_text(f"{header}\n3,0\n12,100\n")
    with pytest.raises(InvalidInput) as caught:
        read_curve(path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("speed", "power"), [([1, 1], [0, 1]), ([2, 1], [0, 1]), ([-1, 1], [0, 1]), ([1, np.nan], [0, 1]), ([1], [1])]
)
def test_bad_tables(speed, power):
    with pytest.raises(InvalidInput):
        table_curve(speed, power)


def test_movement_costs():
    assert movement_cost("paper") * 60 == pytest.approx(21.6)  # kW min per metre, as printed
    assert movement_cost("physical") == pytest.approx(movement_cost("paper") / 60)
    assert movement_cost(0.02) == 0.02
    assert movement_cost("20 Wh/m") == movement_cost("0,02 kWh/m") == movement_cost("20 kWh/km") == pytest.approx(0.02)
    for bad in ("free", -1.0, 0.0, np.nan, "20", "20 EUR/m", "20 Wh/s", "-20 Wh/m", "20 Wh per change"):
        with pytest.raises(InvalidInput):
            movement_cost(bad)


def test_a_pair_of_prices_is_of_the_same_machine():
    time = np.arange("2020-01-01T00", "2020-01-01T03", dtype="datetime64[h]")

    def prices(movement):
        world = wind_world(time, [100.0, 200.0], np.full((3, 2), 8.0), curve=paper_curve(9.0), movement=movement)
        return world.climb, world.sink

    assert prices("paper") == pytest.approx((0.2025, 0.2025))
    assert prices(("paper", "paper")) == prices("paper")
    assert prices(("physical", 0.5)) == pytest.approx((0.2025 / 60, 0.5))


def test_machines_of_the_same_name_are_told_apart():
    digests = {curve.digest for curve in (paper_curve(), paper_curve(cut_out=20), paper_curve(cut_out=25))}
    assert len(digests) == 3
    assert paper_curve().digest == paper_curve().digest


def test_a_table_with_decimal_commas_thousands_and_comments(tmp_path):
    path = tmp_path / "mill.csv"
    path.write_text("# of 2020\nspeed (m/s);power (W)\n3,5;0\n# rated\n12,5;10.000\n25;10.250,5\n", encoding="utf-8")
    curve = read_curve(path)
    assert curve.power(np.array([12.5, 25.0])) == pytest.approx([10.0, 10.2505])


def test_altitudes_in_feet_are_refused(tmp_path):
    path = tmp_path / "mill.csv"
    path.write_text("speed (m/s),300 ft,600 ft\n3,0,0\n12,10,12\n25,10,12\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"'300 ft' and '600 ft' .* name the altitude of each column in metres"):
        read_curve(path)


def test_a_comma_in_a_heading_says_nothing_of_the_numbers(tmp_path):
    path = tmp_path / "mill.csv"
    path.write_text("speed (m/s);power (kW) at 1,225 kg/m3\n4.000;10.000\n10.000;85.250\n25.000;85.250\n")
    curve = read_curve(path)
    assert curve.power(np.array([4.0, 10.0])) == pytest.approx([10.0, 85.25])


@pytest.mark.parametrize(
    "text",
    [
        "speed (m/s)\tpower (kW)\n3.0\t50\n10.5\t1,250\n12.0\t2,000\n",
        "speed (m/s);power (kW)\n3.0;50\n10.5;1,250\n12.0;2,000\n",
        'speed (m/s),power (kW)\n3.0,50\n10.5,"1,250"\n12.0,"2,000"\n',
        "speed (m/s);power (kW)\n3,0;50\n10,5;1.250\n12,0;2.000\n",
        "# V3; measured\nspeed (m/s),power; net (kW)\n3.0,50\n10.5,1250\n12.0,2000\n",
        "speed (m/s);power für (kW)\n3,0;50\n10,5;1 250\n12,0;2 000\n",
    ],
)
def test_thousands_and_decimals_are_told_apart(text, tmp_path):
    path = tmp_path / "mill.csv"
    path.write_text(text, encoding="cp1252")
    assert read_curve(path).power(np.array([3.0, 10.5, 12.0])).tolist() == [50.0, 1250.0, 2000.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("speed;power\n3;50\n10;1,250\n", "line 3: '1,250' may be 1.250 or 1250; write one of these"),
        ("speed,power\n3,50\n10.5,1,250\n", "line 3: there are 3 cells, but 2 in the first line; if a comma is part"),
        ("3,50\n10,1,250\n", "line 2: there are 3 cells, but 2 in the first line"),
        ("speed;power\n3.5;50\n10,5;60\n", "some numbers have a decimal point, others a decimal comma"),
        ("speed,power\n3,50\n10,1_250\n", "line 3: '10,1_250' is not a speed and a power"),
    ],
)
def test_a_table_that_may_be_read_in_two_ways_is_refused(text, words, tmp_path):
    path = tmp_path / "mill.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(words)):
        read_curve(path)
