"""What the page's own functions say: numbers that do not contradict each other, and the marks of a time axis."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from service.browsing import CHROMIUM, page_of

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def called(url, browser):
    """Call a function of one of the page's modules, in the browser."""
    with page_of(browser, None) as page:
        page.goto(url)

        def call(module, expression):
            return page.evaluate(f"() => import('/page/{module}.js').then((m) => {expression})")

        yield call


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((10.0, 10.04), ["10.00", "10.04"]),  # not "from 10 to 10"
        ((0.02, 0.01, 0.04), ["0.0200", "0.0100", "0.0400"]),
        ((12.0, 0.03, 24.0), ["12.00", "0.03", "24.00"]),  # an interval that does not hold zero does not seem to
        ((-12.0, -0.04), ["\u221212.00", "\u22120.04"]),
        ((1_000_000.1, 1_000_000.2), ["1,000,000.1", "1,000,000.2"]),
        ((1e10, 1e10 + 300), ["1e+10", "1.00000003e+10"]),
        ((1.2345e-7, 1.2346e-7), ["1.2345e\u22127", "1.2346e\u22127"]),
        ((5.0, 5.0), ["5.00", "5.00"]),
        ((0.1 + 0.2, 0.3), ["0.300", "0.300"]),  # the same number, computed twice
        ((0.0, 3.0), ["0.00", "3.00"]),
        ((0.0, 0.0), ["0", "0"]),
    ],
)
def test_numbers_that_differ_look_different(called, values, shown):
    listed = json.dumps(values)
    assert called("figures", f"{listed}.map((v) => m.number(v, m.faithful(...{listed})))") == shown


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("m.number(0.004, 1)", "0.004"),  # never "0.0"
        ("m.number(-0.04, 0)", "\u22120.04"),
        ("m.number(-0.0, 2)", "0.00"),
        ("m.number(null)", "\u2013"),
        ("m.signed(0.0004, 1)", "+0.0004"),
        ("m.signed(0, 1)", "0.0"),
        ("m.share(0.004)", "<\u00a01\u00a0%"),
        ("m.share(0.996)", ">\u00a099\u00a0%"),
        ("m.share(1)", "100\u00a0%"),
        ("m.number(0.9999999999999998)", "1.00"),
        ("m.number(0.998)", "0.998"),
        ("m.short(100.00001)", "100.00001"),
        ("m.short(0.1 + 0.2)", "0.3"),
        ("m.interval({ value: 0.04, low: 0.01, high: 0.2 }, 'kWh').ends", "+0.010 to +0.200\u00a0kWh"),
        ("m.interval({ value: 3.0, low: 0.004, high: 6 }, '%').ends", "+0.004 to +6.000\u00a0%"),
    ],
)
def test_no_number_says_what_is_not_so(called, expression, shown):
    assert called("figures", expression) == shown


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("50, 75, 100", [50, 75, 100]),
        ("0.25,0.5", [0.25, 0.5]),
        ("18,5; 19,5; 20", [18.5, 19.5, 20]),  # decimal commas
        ("18.5; 19", [18.5, 19]),
        ("1\n2\n3", [1, 2, 3]),
        ("50 to 300 step 125", [50, 175, 300]),
        ("0,5 to 1 step 0,25", [0.5, 0.75, 1]),
        ("5 to 7", [5, 6, 7]),
        ("1, 2; 3", []),  # not known what is meant
        ("0,125; 0,25", [0.125, 0.25]),
        ("1,000; 2,000", []),  # thousands, or decimals
        ("1,000 to 5,000 step 1,000", []),
        ("low, high", []),
    ],
)
def test_settings_are_read_as_people_write_them(called, text, values):
    assert called("create", f"m.readActions({json.dumps(text)})") == values


def test_what_was_read_is_shown_so_that_a_mistake_is_seen(called):
    assert called("create", "m.actionsInWords([18, 5, 19.5])") == "3 settings: 18, 5, 19.5"
    assert called("create", "m.actionsInWords([1, 2, 3, 4, 5, 6, 7])") == "7 settings: 1, 2, 3, 4, …, 7"


def test_in_shadow_nobody_is_told_to_stay(called):
    state = json.dumps({"mode": "shadow", "instruction": {"value": 8.0}, "units": {"action": "m"}, "override": None})
    rows = json.dumps([{"proposed_value": 10.0, "applied_value": 8.0}])
    assert called("instruction", f"m.instruct({state}, {rows})") == {
        "verb": "Operator's choice:",
        "value": "8\u00a0m",
        "note": "Shadow mode: the machine does not follow. It would choose 10\u00a0m.",
    }


def test_the_price_of_a_move_is_not_rounded_with_the_costs(called):
    """Settings that are all expected to cost 0: a move that costs 0.5 did look like one that costs 1."""
    data = {"expected": [0, 0], "bounds": [0, 0], "movement": [0, 0.5], "probabilities": [1, 0]}
    data |= {"before": 0, "values": [0.0, 1.0]}
    cells = f"[...m.table({json.dumps(data)}, 0, {{ units: {{}} }}).querySelectorAll('tbody tr:last-child td')]"
    assert called("explain", f"{cells}.map((cell) => cell.textContent)")[1:] == ["0", "0.5", "0\u00a0%"]


def test_an_archived_controller_orders_nothing(called):
    state = json.dumps({"mode": "act", "archived": {}, "instruction": {"value": 8.0}, "units": {}, "override": None})
    assert called("instruction", f"m.instruct({state}, [{{}}])")["verb"] == "Last at"


@pytest.mark.parametrize(
    ("place", "words", "option"),
    [
        (11.0, "The machine was to be at 11. The policy learns", "as answered"),
        (
            9.0,
            "The decision was 11. Its measurement was late, so the machine was sent to 9. The policy learns",
            "9, where it was sent",
        ),
    ],
)
def test_who_enters_a_late_reading_sees_for_which_setting_it_will_count(called, place, words, option):
    decision = {"decision": "r1", "round": 1, "value": 11.0}
    state = {"id": "a", "value": place, "pending": [decision], "units": {}, "actions": [9.0, 11.0]}
    code = (
        f"(() => {{ m.enterReading({json.dumps(state)}, {json.dumps(decision)});"
        " const dialog = document.querySelector('dialog'); const said = dialog.innerText;"
        " const first = dialog.querySelector('option').textContent; dialog.close(); return [said, first]; })()"
    )
    said, first = called("enter_reading", code)
    assert words in said
    assert first == option


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("zone", "start", "hours", "most", "texts"),
    [
        ("UTC", "2026-03-01T00:00Z", 24, 5, ["00:00", "06:00", "12:00", "18:00", "00:00"]),
        ("Europe/Berlin", "2026-03-01T00:00Z", 12, 5, ["03:00", "06:00", "09:00", "12:00"]),
        # the clock is set forward at two: three hours pass between 0 and 4
        (
            "Europe/Berlin",
            "2026-03-28T22:30Z",
            8,
            9,
            ["00:00", "01:00", "03:00", "04:00", "05:00", "06:00", "07:00", "08:00"],
        ),
        # and back at three
        ("Europe/Berlin", "2026-10-24T21:30Z", 6, 3, ["00:00", "02:00", "04:00"]),
        ("Asia/Kolkata", "2026-03-01T00:10Z", 3, 4, ["06:00", "07:00", "08:00"]),
        (
            "America/New_York",
            "2026-03-01T00:00Z",
            24 * 9,
            10,
            [f"{day} Mar" for day in range(1, 10)],
        ),
        ("UTC", "2026-01-15T00:00Z", 24 * 400, 14, None),
    ],
)
def test_marks_stand_at_round_times_of_the_plants_clock(called, zone, start, hours, most, texts):
    code = f"(m.useZone('{zone}'), m.marks(Date.parse('{start}'), Date.parse('{start}') + {hours * HOUR}, {most}))"
    marks = called("zone", code)
    if texts is not None:
        assert [mark["text"] for mark in marks][: len(texts)] == texts
    else:
        assert all(mark["text"].startswith("1 ") for mark in marks)
        assert {mark["day"] for mark in marks} == {"2026", "2027"}
    assert len(marks) <= most + 1
    assert [mark["at"] for mark in marks] == sorted({mark["at"] for mark in marks})


@pytest.mark.parametrize(
    ("zone", "moment", "shown"),
    [
        ("Europe/Berlin", "2026-10-25T00:30Z", "25 Oct 2026, 02:30:00+02:00 Europe/Berlin"),
        ("Europe/Berlin", "2026-10-25T01:30Z", "25 Oct 2026, 02:30:00+01:00 Europe/Berlin"),
        ("Europe/Berlin", "2026-10-25T02:00Z", "25 Oct 2026, 03:00:00 Europe/Berlin"),
        ("Europe/Berlin", "2026-03-29T01:00Z", "29 Mar 2026, 03:00:00 Europe/Berlin"),
        ("America/New_York", "2026-11-01T06:59Z", "1 Nov 2026, 01:59:00\u221205:00 America/New_York"),
        ("Australia/Lord_Howe", "2026-04-04T15:10Z", "5 Apr 2026, 01:40:00+10:30 Australia/Lord_Howe"),
        ("UTC", "2026-10-25T00:30Z", "25 Oct 2026, 00:30:00 UTC"),
    ],
)
def test_times_have_their_date_and_zone_and_in_an_hour_that_comes_twice_their_offset(called, zone, moment, shown):
    assert called("zone", f"(m.useZone('{zone}'), m.localTime('{moment}'))") == shown
    offset = shown[-len(zone) - 7 : -len(zone) - 1] if ":00+" in shown or "\u2212" in shown else ""
    assert called("zone", f"m.shortTime('{moment}')").endswith(shown.split(", ")[1][:5] + offset)


def test_of_ten_thousand_rounds_no_more_is_drawn_than_can_be_seen(called):
    points = "Array.from({ length: 10000 }, (_, k) => [70 + k / 10, Math.sin(k)])"
    kept = called("chart", f"m.bounded({points})")
    assert len(kept) < 4 * 1002
    heights = [math.sin(k) for k in range(10_000)]
    assert (max(y for _, y in kept), min(y for _, y in kept)) == pytest.approx((max(heights), min(heights)), abs=1e-12)
    assert called("chart", "m.bounded([[0, 1], [50, 2], [50.2, 3]])") == [[0, 1], [50, 2], [50.2, 3]]


def test_long_pauses_are_cut_and_every_round_has_its_place(called):
    """Hourly rounds, a pause of a week, and one that came a second after the one before it."""
    times = [0, 1, 2, 3, 3 + 168, 4 + 168, 4 + 168 + 1 / 3600, 5 + 168]
    rows = ", ".join(
        f"{{ round: {k}, at: new Date({1.7e12 + hour * HOUR}).toISOString() }}" for k, hour in enumerate(times)
    )
    code = (
        f"(() => {{ const rows = [{rows}]; const p = m.columns({{ x0: 0, x1: 300 }}, rows, true);"
        " return [p.cuts, rows.map((_, k) => p.left(k)), rows.map((_, k) => p.at(p.middle(k)))]; })()"
    )
    cuts, left, found = called("time_axis", code)
    assert cuts == [3]
    assert found == list(range(8))
    assert left == sorted(left)
    steps = [b - a for a, b in pairwise(left)]
    assert steps[0] == steps[1] == pytest.approx(10.0)
    assert (steps[3], steps[5]) == (pytest.approx(40.0), pytest.approx(2.5))


def test_a_single_round_stands_at_its_own_time(called):
    """Nobody knows how long it lasts, so there is no time after it on the axis."""
    code = """(() => {
        const said = [];
        const g = { fillText: (text) => said.push(text), fillRect: () => {}, measureText: () => ({ width: 30 }) };
        const area = { g, x0: 70, x1: 700, y0: 0, y1: 100, w: 714 };
        const rows = [{ round: 0, at: "2026-03-01T14:37:50Z" }];
        m.timeAxis(area, rows, m.columns(area, rows, true));
        return said;
    })()"""
    called("zone", "m.useZone('UTC')")
    assert called("time_axis", code) == ["UTC", "14:37", "1 Mar"]


STANDS = {"at_most": 0.02, "budget": None, "against": "always running 40 mm", "estimated_saved": None}


@pytest.mark.parametrize(
    ("stands", "words"),
    [
        ({"allowed": 0.0, "left": 0.0}, "above always running 40 mm. There is no allowance yet"),
        ({"allowed": 5.0, "left": 0.0}, "The allowance is used up"),
        ({"allowed": 5.0, "left": 5.0}, "All of the allowance of 5.00 is left"),
        ({"allowed": 5.0, "left": 2.0}, "2.00 of 5.00 of the allowance is left"),
    ],
)
def test_a_promise_says_what_it_is_against_and_what_is_left(called, stands, words):
    state = json.dumps({"promise": STANDS | stands, "calibration": None, "actions": [1, 2], "units": {}, "trial": None})
    assert words in called(
        "panels", f"(() => {{ const p = m.promise(); p.update({state}); return p.node; }})().innerText"
    )


def test_who_holds_the_machine_is_said_with_when_that_was_set(called):
    held = {"setting": 2.0, "reason": "storm", "by": {"name": "night"}, "since": "2020-01-01T00:00:00Z"}
    state = json.dumps({"override": held, "instruction": {"value": 2.0}, "units": {}, "status": "held"})
    code = (
        "(() => { const p = m.instructionPanel();"
        f" p.update({{ state: {state}, rows: [{{ at: new Date().toISOString() }}] }}); return p.node.textContent; }})()"
    )
    said = called("instruction", code)
    assert "Hold 2" in said
    assert "Held by night: storm. Set " in said
    assert "days ago." in said
    assert "Decided" not in said


@pytest.mark.parametrize(("tell", "words"), [("true", "lets you enter readings"), ("false", "only lets you look")])
def test_who_may_not_command_is_told_what_the_token_lets_him_do(called, tell, words):
    state = "{ mode: 'act', override: null, trial: null, archived: null }"
    code = (
        f"(() => {{ const p = m.controls(); p.update({state}, {{ admin: false, tell: {tell} }}); return p.node; }})()"
    )
    assert f"Your token {words}" in called("controls", f"{code}.textContent")


def test_what_cannot_be_shown_is_no_lost_connection(called):
    """A record that is broken: the service answers, and says why."""
    code = """(async () => {
        const real = window.fetch;
        const said = { error: { code: "broken", message: "mill cannot be opened: it is damaged" } };
        window.fetch = async () => new Response(JSON.stringify(said), { status: 503 });
        const link = m.connect("controllers/mill/events", () => {}, () => {});
        while (document.getElementById("banner").hidden) await new Promise((next) => setTimeout(next, 10));
        link.stop();
        window.fetch = real;
        return document.getElementById("banner").textContent;
    })()"""
    banner = called("connection", code)
    assert banner.startswith("This cannot be shown now: mill cannot be opened: it is damaged.")
    assert "out of date" not in banner
