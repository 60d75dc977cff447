"""The operator's page in a real browser, against a real server with real files."""

from __future__ import annotations

import base64
import math
import re
from zipfile import ZipFile

import pytest
from service.browsing import CHROMIUM, COLOURS, FAINT_TEXT, HEIGHTS, Machine, controller_page, page_of
from service.running import KERNEL
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.service.core import tokens

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
expect.set_options(timeout=60_000)  # a busy machine compiles the first decision for seconds


def new_controller(page, server):
    """The dialog that makes one, open."""
    page.goto(server.url)
    page.get_by_role("button", name="New controller").click()
    return page.get_by_role("dialog", name="New controller")


def test_a_controller_is_created_and_its_decisions_arrive_live(server, browser):
    with page_of(browser, server.token) as page:
        dialog = new_controller(page, server)
        dialog.get_by_label("Id").fill("kite-1")
        dialog.get_by_label("Name").fill("Kite over the north field")
        dialog.get_by_label("Settings to choose from").fill("50 to 300 step 25")
        dialog.get_by_label("Unit of a setting").fill("m")
        dialog.get_by_label("Start at").select_option("100")
        dialog.get_by_label("What a move costs").fill("0.004")
        dialog.get_by_label("Policy").select_option("gp-md")
        dialog.get_by_label("Mode to begin with").select_option("act")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Kite over the north field")
        expect(page.locator(".order")).to_have_text("Stay at 100 m")
        config = server.client.see("kite-1", "config")
        assert (config["actions"], config["start"], config["policy"]) == (HEIGHTS, 100.0, "gp-md")

        machine = Machine(server, "kite-1", made=True)
        told = machine.ask()
        expect(page.get_by_role("button", name="Explain round 0")).to_be_visible()
        expect(page.get_by_role("heading", name="Round 0 awaits its measurement")).to_be_visible()
        machine.tell(told)
        expect(page.get_by_role("heading", name="Round 0 is done")).to_be_visible()
        machine.run(4)
        expect(page.get_by_role("button", name="Explain round 4")).to_be_visible()
        expect(page.get_by_text("5 measured rounds")).to_be_visible()

        page.get_by_role("link", name="All controllers").click()
        row = page.get_by_role("row").filter(has_text="Kite over the north field")
        expect(row).to_contain_text("running")
        expect(row).to_contain_text("act")


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_machine_that_measures_gains_is_created_and_shown_with_gains(server, browser):
    with page_of(browser, server.token) as page:
        dialog = new_controller(page, server)
        dialog.get_by_label("Id").fill("maker")
        dialog.get_by_label("Settings to choose from").fill("50, 100, 150")
        dialog.get_by_label("Unit of a measurement").fill("kWh")
        expect(dialog.get_by_text("Less is better")).to_be_visible()
        dialog.get_by_label("I measure").select_option("a gain")
        expect(dialog.get_by_text("More is better")).to_be_visible()
        dialog.get_by_label("Unit of a setting").fill("m")
        dialog.get_by_label("What a move costs").fill("10 Wh/m")
        dialog.get_by_label("Minimum dwell time").fill("2")
        dialog.get_by_label("Longest single move").fill("0.05 km")
        dialog.get_by_label("Known before each decision").fill("wind (m/s)")
        dialog.get_by_label("Mode to begin with").select_option("act")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("maker")
        config = server.client.see("maker", "config")
        assert config["options"]["maximise"] is True
        assert (config["limits"]["min_dwell"], config["limits"]["max_step"], config["scale"]) == (2, 50.0, [0.01])
        assert (config["context_names"], config["units"]["contexts"]) == (["wind"], ["m/s"])
        expect(page.get_by_text("50 m, which costs 0.5 kWh")).to_be_visible()

        for _ in range(4):
            server.client.round("maker", 0.5, 20.0)
        expect(page.get_by_role("button", name="Explain round 3")).to_be_visible()
        made = page.locator(".tile").filter(has_text="Made so far")
        expect(made).to_contain_text("80.0\u00a0kWh")
        expect(page.get_by_role("heading", name="Gains and costs so far")).to_be_visible()
        expect(page.get_by_text("Expected gain", exact=True)).to_be_visible()
        why = page.get_by_role("complementary", name="Why it decided this")
        expect(why).to_contain_text("Expected gain of each setting")
        expect(why).to_contain_text("The expected gain there")
        expect(why.get_by_role("table").get_by_role("row").filter(has_text="chosen")).to_contain_text("20.0")
        newest = page.locator(".decisions tbody tr").first
        assert newest.locator("td").nth(1).inner_text() == newest.locator("td").nth(2).inner_text() == "20.0"
        expect(page.get_by_text("learned gain, less than that of")).to_be_visible(timeout=30_000)
        shown = page.get_by_role("main").inner_text()
        assert "service" not in shown.lower().replace("the service", "")
        for part in (why, page.locator(".decisions"), page.locator(".key").first, made):
            assert not re.search(r"[\u2212-]\d", part.inner_text()), "a gain is shown as a negative cost"


def test_a_bad_configuration_is_refused_in_words(server, browser):
    with page_of(browser, server.token, expected="status of 422") as page:
        page.goto(server.url)
        page.get_by_role("button", name="New controller").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("JSON", exact=True).check()
        text = dialog.get_by_label("Configuration as JSON")
        text.fill("{ actions: ")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
        text.fill('{"id": "bad", "actions": [1, 2], "colour": "red"}')
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_contain_text("colour")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("button", name="New controller")).to_be_focused()


def test_a_decision_is_explained_by_click_and_by_key(server, browser):
    machine = Machine(server, "explained")
    machine.run(8)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "explained")
        why = page.get_by_role("complementary", name="Why it decided this")
        expect(why.get_by_role("heading")).to_contain_text("in round 7?")
        page.get_by_role("button", name="Explain round 3").click()
        expect(why.get_by_role("heading")).to_contain_text("in round 3?")
        expect(why).to_contain_text("Round 3:")
        expect(why).to_contain_text("expected service cost")
        expect(why.get_by_role("table").get_by_role("row").filter(has_text="chosen")).to_have_count(1)

        machine.run(1)  # what the reader chose stays while others arrive
        expect(page.get_by_role("button", name="Explain round 8")).to_be_visible()
        expect(why.get_by_role("heading")).to_contain_text("in round 3?")
        rounds = page.get_by_role("slider", name="Round")
        rounds.focus()
        page.keyboard.press("ArrowLeft")
        expect(why.get_by_role("heading")).to_contain_text("in round 2?")
        expect(rounds).to_have_attribute("aria-valuetext", re.compile(r"^Round 2: \d+\sm, measured .*\skWh"))
        box = rounds.bounding_box()
        page.mouse.click(box["x"] + 80, box["y"] + 100)
        expect(why.get_by_role("heading")).to_contain_text("in round 0?")
        page.get_by_role("button", name="Follow the newest").click()
        expect(why.get_by_role("heading")).to_contain_text("in round 8?")


def test_an_operator_takes_over_and_hands_back(server, browser):
    machine = Machine(server, "held")
    machine.run(2)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "held")
        take_over = page.get_by_role("button", name="Take over")
        take_over.click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(take_over).to_be_focused()
        assert machine.state()["override"] is None

        take_over.click()
        dialog = page.get_by_role("dialog", name="Hold the machine at one setting?")
        dialog.get_by_label("Setting").select_option(str(HEIGHTS.index(250.0)))
        dialog.get_by_label("Reason").fill("inspection")
        dialog.get_by_role("button", name="Hold it there").click()
        expect(page.locator(".order")).to_have_text("Hold 250 m")
        expect(page.get_by_text("Held by tests: inspection.")).to_be_visible()
        assert (machine.state()["override"]["action"], machine.state()["status"]) == (8, "held")

        page.get_by_role("button", name="Release").click()
        page.get_by_role("dialog", name="Hand control back?").get_by_role("button", name="Release").click()
        expect(page.get_by_role("button", name="Release")).to_have_count(0)
        assert machine.state()["override"] is None


def test_two_operators_do_not_overrule_each_other_unread(server, browser):
    machine = Machine(server, "contested")
    machine.run(2)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "contested")
        page.get_by_role("button", name="Take over").click()
        dialog = page.get_by_role("dialog", name="Hold the machine at one setting?")
        dialog.get_by_label("Setting").select_option(str(HEIGHTS.index(250.0)))
        server.client.do("contested", "override", setting=50.0, reason="somebody is on the mast")
        expect(page.locator(".order")).to_have_text("Hold 50 m")
        dialog.get_by_role("button", name="Hold it there").click()
        expect(dialog.get_by_role("alert")).to_contain_text("tests has held it at 50 m (somebody is on the mast).")
        assert machine.state()["override"]["setting"] == 50.0
        dialog.get_by_role("button", name="Hold it there").click()  # it has been read
        expect(page.locator(".order")).to_have_text("Hold 250 m")

        page.get_by_role("button", name="Release").click()
        server.client.do("contested", "override", setting=50.0, reason="again")
        expect(page.locator(".order")).to_have_text("Hold 50 m")
        dialog = page.get_by_role("dialog", name="Hand control back?")
        dialog.get_by_role("button", name="Release").click()
        expect(dialog.get_by_role("alert")).to_contain_text("tests has held it at 50 m (again).")
        assert machine.state()["override"] is not None
        dialog.get_by_role("button", name="Release").click()
        expect(page.get_by_role("button", name="Release")).to_have_count(0)


def test_a_wrong_measurement_is_taken_back_and_struck_out(server, browser):
    machine = Machine(server, "unplugged")
    machine.run(3)
    machine.tell(machine.ask() | {"measurement": 1e6})
    machine.run(2)
    with page_of(browser, server.token) as page, page_of(browser, server.token) as other:
        for each in (page, other):
            controller_page(each, server, "unplugged")
        row = page.locator(".decisions tbody tr").nth(2)
        expect(row).to_contain_text("1,000,000")
        expect(page.locator(".tile").filter(has_text="Service cost")).to_contain_text("1,000,0")
        button = page.get_by_role("button", name="Take back the measurement of round 3")
        button.click()
        dialog = page.get_by_role("dialog", name="Take back the measurement of round 3?")
        dialog.get_by_role("button", name="Take it back").click()
        expect(dialog).to_be_visible()  # it wants a reason
        dialog.get_by_label("Reason").fill("sensor <unplugged>")
        dialog.get_by_role("button", name="Take it back").click()
        expect(dialog).to_have_count(0)
        for each in (page, other):  # whoever looks at it
            row = each.locator(".decisions tbody tr").nth(2)
            expect(row.locator("s")).to_have_text("1,000,000")
            expect(row).to_contain_text("taken back: sensor <unplugged>")
            expect(each.locator(".tile").filter(has_text="Service cost")).not_to_contain_text("1,000,0")
        expect(button).to_have_count(0)
        expect(page.get_by_role("button", name="Explain round 3")).to_be_focused()
        page.get_by_role("button", name="Explain round 3").click()
        why = page.get_by_role("complementary", name="Why it decided this")
        expect(why).to_contain_text("taken back: sensor <unplugged>")
        assert page.evaluate(FAINT_TEXT) == []
    assert server.client.see("unplugged", "decisions")["decisions"][3]["retracted"]["reason"] == "sensor <unplugged>"


def test_a_limited_and_a_forced_override_are_shown(server, browser):
    machine = Machine(server, "limited", limits={"max_step_cost": 0.15})  # one setting is 0.1 from the next
    machine.run(2)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "limited")
        page.get_by_role("button", name="Take over").click()
        dialog = page.get_by_role("dialog", name="Hold the machine at one setting?")
        dialog.get_by_label("Setting").select_option(str(HEIGHTS.index(300.0)))
        dialog.get_by_role("button", name="Hold it there").click()
        expect(
            page.get_by_text("The target is 300 m; the move there is limited by the longest single move.")
        ).to_be_visible()

        page.get_by_role("button", name="Hold elsewhere").click()
        dialog = page.get_by_role("dialog", name="Hold the machine at one setting?")
        dialog.get_by_label("Force").check()
        dialog.get_by_role("button", name="Hold it there").click()
        expect(dialog).to_be_visible()  # a reason is needed
        dialog.get_by_label("Reason").fill("fire")
        dialog.get_by_role("button", name="Hold it there").click()
        expect(page.locator(".order")).to_have_text("Hold 300 m")
        expect(page.get_by_text(re.compile(r"Forced by .+, whatever the limits say: fire\."))).to_be_visible()


def test_the_mode_is_switched(server, browser):
    machine = Machine(server, "switched", mode="shadow")
    machine.run(2)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "switched")
        expect(page.get_by_role("button", name="shadow", pressed=True)).to_be_visible()
        page.get_by_role("button", name="act", exact=True).click()
        dialog = page.get_by_role("dialog", name="Switch to act?")
        expect(dialog).to_contain_text("the machine follows without confirmation")
        dialog.get_by_role("button", name="Switch to act").click()
        expect(dialog).to_be_visible()  # it wants a reason
        dialog.get_by_label("Reason").fill("two quiet weeks")
        dialog.get_by_role("button", name="Switch to act").click()
        expect(page.get_by_role("button", name="act", pressed=True)).to_be_visible()
        assert machine.state()["mode"] == "act"
        server.client.do("switched", "mode", mode="advise", reason="by somebody else")
        expect(page.get_by_role("button", name="advise", pressed=True)).to_be_visible()


CERTAIN = {  # a model that no reading moves: the start costs 1000, all else 1
    "policy": "proximal-lcb",
    "actions": [0.0, 1.0, 2.0, 3.0],
    "scale": 0.1,
    "start_index": 0,
    "units": {"action": "m", "measurement": "kWh"},
    "options": {
        "kernel": hc.Kernel(RBF(1.0), RBF(0.5), variance=1e-12).to_json(),
        "noise_std": 0.1,
        "prior_mean": [1000.0, 1.0, 1.0, 1.0],
        "context_bounds": [[0.0, 1.0]],
    },
}


@pytest.mark.parametrize(
    ("case", "more", "told", "reason"),
    [
        ("unmeasured", {}, 1.0, "0 m has been measured never"),
        ("wrong", {}, 5.0, "A reading is under suspicion"),
        ("contradicted", {"history_index": [[0, 0.5, 1.0], [1, 0.5, 1.0]] * 12}, 1.0, "in the history"),
        ("believed", {"history_index": [[0, 0.5, 1000.0], [1, 0.5, 1.0]] * 12}, 1.0, None),
        ("watching", {"history_index": [[0, 0.5, 1000.0], [1, 0.5, 1.0]] * 12, "mode": "shadow"}, 1000.0, None),
    ],
)
def test_what_a_wildly_overconfident_model_believes_is_no_headline(server, browser, case, more, told, reason):
    """In truth, all settings cost the same, and nothing was gained."""
    name = f"certain-{case}"
    server.client.create(**(CERTAIN | {"id": name} | more))
    for k in range(44):
        server.client.round(name, 0.5, told + 0.1 * math.sin(k))
    state = server.client.see(name, "state")
    assert server.client.see(name, "trial") == {"trial": None}
    with page_of(browser, server.token) as page:
        controller_page(page, server, name)
        headline = page.locator(".tile.headline")
        expect(headline).to_have_count(1)
        expect(headline).to_contain_text("Measured gain")
        expect(headline).to_contain_text("no trial has measured it yet")
        assert not re.search(r"\d", headline.inner_text())
        estimates = page.locator(".tile.estimate")
        shown = [tile.inner_text() for tile in estimates.all()]
        assert shown
        assert all(text.startswith("Estimate: ") for text in shown)
        assert page.locator(".tile.good, .tile.bad, .good, .bad").count() == 0
        soft = estimates.first.locator("dt").evaluate("e => getComputedStyle(e).color")
        values = estimates.locator("dd:not(.small)")
        assert {value.evaluate("e => getComputedStyle(e).color") for value in values.all()} == {soft}
        believed = re.compile(r"\+4\d,\d\d\d")  # 44 rounds of 999
        if reason is not None:
            assert state["estimate"]["against_staying"]["gain"] is None
            assert any("withheld" in text and reason in text for text in shown)
            assert not any(believed.search(text) for text in shown)
            assert f'holdcourse_estimated_gain_against_staying{{controller="{name}"}}' not in (
                server.client.get("/metrics").text
            )
        else:
            label = "had its proposals been followed" if case == "watching" else "what was done, compared with staying"
            (text,) = (text for text in shown if label in text)
            assert believed.search(text)
            assert "the model's estimate, 95" in text
        page.goto(server.url)
        row = page.get_by_role("row").filter(has_text=name)
        expect(row).to_contain_text("no trial is running")


def test_the_list_shows_what_is_known_of_gains_and_who_is_silent(server, browser):
    Machine(server, "quiet", deadline_s=0.5).run(2)
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        row = page.get_by_role("row").filter(has_text="quiet")
        expect(row).to_contain_text("silent")
        expect(row).to_contain_text("1 alarm")
        expect(row).to_contain_text("withheld")
        page.get_by_role("link", name="quiet").click()
        expect(page.get_by_text("Nobody has asked within the deadline after the last round.")).to_be_visible()
        expect(page.get_by_role("alert").filter(has_text="nobody asked within 0.5 s")).to_be_visible()


def test_the_record_is_checked_and_copied(server, browser):
    Machine(server, "recorded").run(2)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "recorded")
        page.get_by_role("button", name="Check the record").click()
        expect(page.get_by_text("The record is complete")).to_be_visible()
        with page.expect_download() as copy:
            page.get_by_role("button", name="Save a copy").click()
        assert copy.value.suggested_filename == "recorded.zip"
        with ZipFile(copy.value.path()) as saved:
            assert saved.testzip() is None


def test_a_controller_that_is_not_there_is_said_to_be_missing(server, browser):
    with page_of(browser, server.token, expected="status of 404") as page:
        page.goto(f"{server.url}#/c/nobody")
        expect(page.get_by_text("Nothing to show: there is no controller 'nobody'. All controllers")).to_be_visible()
        page.get_by_role("status").get_by_role("link", name="All controllers").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Controllers")
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        expect(page.get_by_text("Nothing to show:")).to_be_hidden()


def test_a_broken_record_with_a_long_name_does_not_widen_a_telephones_page(server, browser):
    Machine(server, "narrow")
    message = f"narrow cannot be opened: /var/lib/{'holdcourse' * 9}/epoch-0001.db is damaged; restore it from a backup"

    def broken(route):
        answer = route.fetch()
        listed = answer.json()
        for found in listed["controllers"]:
            found |= {"status": "broken", "message": message} if found["id"] == "narrow" else {}
        route.fulfill(response=answer, json=listed)

    refusal = {"error": {"code": "broken", "message": message}}
    with page_of(browser, server.token, "status of 503", viewport={"width": 390, "height": 800}) as page:
        page.route("**/controllers", broken)
        page.route("**/controllers/narrow/state", lambda route: route.fulfill(status=503, json=refusal))
        page.goto(server.url)
        expect(page.get_by_text(message)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.goto(f"{server.url}#/c/narrow")
        expect(page.get_by_text("This cannot be shown now:")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_server_is_lost_and_regained(server, browser):
    machine = Machine(server, "surviving")
    machine.run(3)
    gone = "ERR_(CONNECTION_(REFUSED|RESET)|INCOMPLETE_CHUNKED|SOCKET_NOT_CONNECTED)"  # depends on when it is killed
    with page_of(browser, server.token, expected=gone) as page:
        controller_page(page, server, "surviving")
        expect(page.get_by_role("button", name="Explain round 2")).to_be_visible()
        server.kill()
        expect(page.get_by_text("Connection lost.")).to_be_visible()
        expect(page.get_by_text("not live")).to_be_visible()
        page.get_by_role("button", name="Try now").click()
        expect(page.get_by_text("Connection lost.")).to_be_visible()
        server.start()
        machine.run(1)
        page.evaluate("dispatchEvent(new Event('online'))")  # rather than wait for the next try
        expect(page.get_by_text("Back.")).to_be_visible(timeout=20_000)
        expect(page.get_by_role("button", name="Explain round 3")).to_be_visible()
        machine.run(1)
        expect(page.get_by_role("button", name="Explain round 4")).to_be_visible()


def test_everything_can_be_done_with_the_keyboard(server, browser):
    Machine(server, "typed").run(3)
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        expect(page.get_by_role("link", name="typed")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        walk(page, "typed")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_be_focused()
        expect(page.get_by_text("live", exact=True)).to_be_visible()

        walk(page, "Take over …")
        page.keyboard.press("Enter")
        expect(page.get_by_label("Setting", exact=True)).to_be_focused()
        page.keyboard.press("End")
        page.keyboard.press("Tab")
        page.keyboard.type("by key")
        page.keyboard.press("Enter")
        expect(page.locator(".order")).to_have_text("Hold 300 m")
        walk(page, "Release …")
        page.keyboard.press("Enter")
        walk(page, "Release")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Release")).to_have_count(0)
        walk(page, "Explain round 1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary")).to_be_focused()
        expect(page.get_by_role("complementary").get_by_role("heading")).to_contain_text("in round 1?")


def walk(page, name):
    """Press Tab until the element with this name has the focus; every one on the way must show that it has it."""
    for _ in range(60):
        page.keyboard.press("Tab")
        found, outline, at_the_end = page.evaluate(
            "() => { const e = document.activeElement;"
            " const name = e.getAttribute('aria-label') ?? e.textContent.trim();"
            " return [name, getComputedStyle(e).outlineStyle, e === document.body]; }"
        )
        assert outline != "none" or at_the_end, f"nobody sees that {found!r} has the focus"
        if found == name:
            return
    raise AssertionError(f"{name!r} is not reached by the Tab key")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "dark"),
        (1280, "light"),
        pytest.param(360, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
    ],
)
def test_it_fits_and_can_be_read_in_both_colour_schemes(server, browser, scheme, width):
    seen = f"seen-{scheme}-{width}"
    Machine(server, seen, name="Kite that is looked at").run(3)
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
    with page_of(browser, server.token, **options) as page:
        for address in ("", f"#/c/{seen}"):
            page.goto(server.url + address)
            expect(page.get_by_text("Kite that is looked at").first).to_be_visible()
            expect(page.get_by_text("live", exact=True)).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            tools = [page.get_by_role("button", name=name) for name in ("Forget token", "light / dark")]
            assert len({tool.evaluate("e => e.offsetTop + e.offsetHeight / 2") for tool in tools}) == 1  # in one row
            assert page.evaluate(FAINT_TEXT) == []
            if address == "":
                page.get_by_role("button", name="New controller").click()
                dialog = page.get_by_role("dialog", name="New controller")
                expect(dialog.get_by_label("I measure")).to_be_visible()
                assert page.evaluate(FAINT_TEXT) == []
                assert dialog.evaluate("e => e.scrollWidth <= e.clientWidth")
                page.keyboard.press("Escape")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 28)"}[scheme]
        assert page.evaluate(COLOURS) > 40


def test_a_service_with_tokens_asks_for_one(server, browser):
    with page_of(browser, None, expected="status of 401") as page:
        page.goto(server.url)
        dialog = page.get_by_role("dialog", name="Access token")
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Continue").click()
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_label("Token").fill(server.token)
        dialog.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        page.reload()
        expect(page.get_by_text("live", exact=True)).to_be_visible()  # kept for this tab
        assert page.evaluate("localStorage.length") == 0
        page.get_by_role("button", name="Forget token").click()
        expect(dialog).to_be_visible()


def test_text_of_an_operator_stays_text(server, browser):
    evil = "<img src=x onerror=alert(1)>"
    server.client.create(id="evil", name=evil)
    server.client.do("evil", "override", setting_index=0, reason=evil)
    with page_of(browser, server.token) as page:
        page.on("dialog", lambda _: pytest.fail("a script ran"))
        controller_page(page, server, "evil")
        expect(page.get_by_role("heading", level=1)).to_have_text(evil)
        expect(page.get_by_text(f"Held by tests: {evil}.")).to_be_visible()


def test_the_promise_and_a_wrong_reading_are_shown(server, browser):
    machine = Machine(server, "promised", policy="recommended", options={})
    machine.run(8)
    wrong = machine.ask()
    machine.tell(wrong | {"measurement": 1e6})
    with page_of(browser, server.token) as page:
        controller_page(page, server, "promised")
        shown = page.locator(".promise")
        expect(shown).to_contain_text(re.compile("Promise: at most 2.% above staying.*of the allowance"))
        expect(shown.get_by_role("img", name="of the allowance is left")).to_be_visible()
        expect(shown).to_contain_text("1 reading set aside as wrong")
        expect(page.locator(".strip")).to_contain_text(re.compile("the reading 1,000,000.* of r8 was set aside"))
        expect(page.get_by_role("row").filter(has_text="set aside")).to_contain_text("1,000,000")
        assert page.evaluate(FAINT_TEXT) == []
        page.get_by_role("button", name="Take back the measurement of round 8").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill("unplugged")
        dialog.get_by_role("button", name="Take it back").click()
        expect(page.locator(".strip")).to_be_empty()
        expect(shown).not_to_contain_text("set aside")


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A policy that was saved, with what a backtest said of it."""
    path = tmp_path_factory.mktemp("files") / "site.policy"
    policy = hc.gp_md(hc.Problem(HEIGHTS, scale=0.004), history=[(k % 11, 1.0 * (k % 5), 2.0) for k in range(30)])
    evidence = hc.Evidence(learned="30 readings", judged="a week", conclusion="It would have paid off here.")
    policy.save(path, units={"action": "m", "measurement": "kWh"}, evidence=evidence)
    return path


def test_a_controller_is_made_from_a_policys_file(server, browser, policy_file):
    with page_of(browser, server.token) as page:
        dialog = new_controller(page, server)
        dialog.get_by_label("From a file").check()
        dialog.get_by_label("File of the policy").set_input_files(policy_file)
        expect(dialog.get_by_text("It would have paid off here.")).to_be_visible()
        dialog.get_by_label("Id").fill("from-file")
        dialog.get_by_label("The machine is at").select_option("100\u00a0m")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("from-file")
        expect(page.get_by_text("It has learned from 30 readings.")).to_be_visible()
    state = server.client.see("from-file", "state")
    assert (state["value"], state["mode"], state["policy"]) == (100.0, "shadow", "gp-md")


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_controller_is_made_from_readings(server, browser, tmp_path):
    rows = [
        f"{1 + k // 24:02}.06.2024 {k % 24:02}:00;{20 + 7 * k % 61},5;{6 + k // 3 % 3};{10 + 11 * k % 47},25"
        for k in range(60)
    ]
    rows[3] = rows[3].replace(";41,5;", ";broken;")
    path = tmp_path / "plant.csv"
    path.write_text("\n".join(["time;load [%];setpoint [°C];power [kW]", *rows]) + "\n", encoding="cp1252")
    with page_of(browser, server.token, expected="422") as page:
        dialog = new_controller(page, server)
        dialog.get_by_label("From readings").check()
        dialog.get_by_label("File of readings").set_input_files(path)
        expect(dialog.get_by_label("Column of the setting")).to_have_value("setpoint [°C]")
        expect(dialog.get_by_label("Column of what was measured")).to_have_value("power [kW]")
        expect(dialog.get_by_text("line 5: 'broken' in column 'load [%]' is not a number")).to_be_visible()
        dialog.get_by_label("What the file does not make clear").fill("missing=broken")
        dialog.get_by_label("Time zone").fill("Europe/Oslo")
        dialog.get_by_label("Id").fill("from-readings")
        expect(dialog.get_by_text("59 readings, 2024-05-31 to 2024-06-03, 3 settings")).to_be_visible()
        expect(dialog.get_by_text("1 of 60 rows was left out: 'load [%]' is missing in 1")).to_be_visible()
        dialog.get_by_label("What a move costs").fill("20 Wh/K")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("from-readings")
    state = server.client.see("from-readings", "state")
    assert (state["value"], state["mode"], state["units"]["action"]) == (7.0, "shadow", "°C")
    config = server.client.see("from-readings", "config")
    assert (config["history_count"], config["context_names"], config["scale"]) == (59, ["load [%]"], [0.02])


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_policys_file_is_dropped_on_the_page(server, browser, policy_file):
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        expect(page.get_by_role("button", name="New controller")).to_be_visible()
        carried = page.evaluate_handle(
            """(text) => {
                const carried = new DataTransfer();
                const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
                carried.items.add(new File([bytes], "site.policy"));
                return carried;
            }""",
            base64.b64encode(policy_file.read_bytes()).decode(),
        )
        page.dispatch_event("main", "drop", {"dataTransfer": carried})
        dialog = page.get_by_role("dialog", name="New controller")
        expect(dialog.get_by_text("It would have paid off here.")).to_be_visible()
        dialog.get_by_label("Id").fill("dropped")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("dropped")


def test_a_file_that_is_no_policy_is_refused_on_the_page(server, browser, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with page_of(browser, server.token, expected="422") as page:
        dialog = new_controller(page, server)
        dialog.get_by_label("From a file").check()
        dialog.get_by_label("File of the policy").set_input_files(tmp_path / "notes.txt")
        expect(dialog.get_by_text("does not look like a policy")).to_be_visible()
        dialog.get_by_label("Id").fill("wrong")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_contain_text("damaged, or is not a saved state of holdcourse")


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_trial_is_begun_watched_and_ended(server, browser):
    server.client.create(**(CERTAIN | {"id": "tried"}))
    with page_of(browser, server.token) as page:
        controller_page(page, server, "tried")
        page.get_by_role("button", name="Begin a trial").click()
        dialog = page.get_by_role("dialog", name="Begin a trial?")
        dialog.get_by_label("Against").select_option(label="people run the machine")
        dialog.get_by_label("Length of a block").fill("1")
        dialog.get_by_label("Share of the other's blocks to learn from").fill("45")
        dialog.get_by_role("button", name="Begin the trial").click()
        expect(page.get_by_role("heading", name="Trial: did it pay?")).to_be_visible()
        for k in range(40):
            decision = server.client.do("tried", "ask", context=0.5)
            # The model believes in huge gains. In truth the policy's rounds cost 3 and those of people 2.
            cost = (3.0 if decision["turn"]["whose"] == "policy" else 2.0) + 0.1 * math.sin(k)
            server.client.do("tried", "tell", decision=decision["decision"], measurement=cost)
        headline = page.locator(".tile.headline")
        expect(headline).to_contain_text("measured by a trial")
        expect(headline).to_have_class(re.compile("bad"))
        expect(page.get_by_text(re.compile("It does not pay"))).to_be_visible()
        expect(page.get_by_role("list").get_by_text("and from 45 % of the other's")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("measured gain and its intervals"))).to_be_visible()
        page.get_by_role("button", name="End the trial").click()
        page.get_by_role("dialog", name="End the trial?").get_by_role("button", name="End the trial").click()
        expect(page.get_by_role("button", name="Begin a trial")).to_be_visible()
        expect(headline).to_contain_text("measured by a trial until")  # what was measured stays
        expect(headline).to_have_class(re.compile("bad"))
        expect(page.get_by_role("list").get_by_text("; the trial is over.")).to_be_visible()
        page.goto(server.url)
        expect(page.get_by_role("row").filter(has_text="tried")).to_contain_text("no trial is running")


def test_who_may_only_look_sees_no_button_that_would_be_refused(server, browser):
    server.client.create(**(CERTAIN | {"id": "looked-at"}))
    server.client.round("looked-at", 0.5, 1.0)
    visitor = tokens.make(server.token_file, "visitor", [], [tokens.EVERYTHING])[1]
    me = server.client.get("/me", headers={"Authorization": f"Bearer {visitor}"}).json()
    assert me == {"name": "visitor", "scopes": ["read"], "controllers": ["*"], "expires": None}
    with page_of(browser, visitor) as page:
        page.goto(server.url)
        expect(page.get_by_role("link", name="looked-at")).to_be_visible()
        expect(page.get_by_role("button", name="New controller")).to_be_hidden()
        controller_page(page, server, "looked-at")
        expect(page.get_by_text("Your token only lets you look")).to_be_visible()
        for name in ("act", "Take over", "Begin a trial", "take back", "Save a copy"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "looked-at")
        for name in ("Begin a trial", "Take back the measurement of round 0", "Save a copy"):
            expect(page.get_by_role("button", name=name)).to_be_visible()


MEMBERS = 60
PUMPS = {
    "id": "pumps",
    "name": "Pumps <b>& fans</b>",
    "count": MEMBERS,
    "actions": [0.0, 1.0, 2.0],
    "scale": 0.5,
    "policy": "gp-md",
    "options": {"kernel": KERNEL.to_json(), "noise_std": 0.1, "context_bounds": [[0.0, 1.0]]},
    "units": {"action": "bar", "measurement": "kWh"},
    "seed": 7,
}


def test_a_fleet_is_listed_looked_at_and_checked(server, browser):
    client, question = server.client, {"context": 0.5, "answer": ["action"], "allowed": [1.0, 2.0]}
    with page_of(browser, server.token) as page:
        page.goto(server.url)
        page.get_by_text("live", exact=True).wait_for()
        client.checked(client.post("/fleets", json=PUMPS), 201)
        row = page.get_by_role("row").filter(has_text="Pumps <b>& fans</b>")
        expect(row).to_contain_text("new")
        first = client.checked(client.post("/fleets/pumps/ask", json=question), 200)
        expect(row).to_contain_text("60 measurements")
        expect(page.get_by_text("1 fleet with 60 members.")).to_be_visible()
        row.get_by_role("link").click()

        expect(page.get_by_role("heading", level=1)).to_have_text("Pumps <b>& fans</b>")
        tile = page.locator(".tile")
        expect(tile.filter(has_text="Measurements awaited")).to_contain_text("100\u00a0% of the members")
        told = [k < 40 for k in range(MEMBERS)]
        body = {"call": 0, "measurements": [None] + [2.0] * 59, "mask": told}
        client.checked(client.post("/fleets/pumps/tell", json=body), 200)
        expect(tile.filter(has_text="Measurements awaited")).to_contain_text("20")
        expect(tile.filter(has_text="Service cost")).to_contain_text("78.0\u00a0kWh")
        expect(tile.filter(has_text="Service cost")).to_contain_text("39 measurements, 1 skipped, 2.00\u00a0kWh each")
        moved = sum(0.5 * action for action in first["action"])
        expect(tile.filter(has_text="Movement cost")).to_contain_text(f"{moved:.1f}\u00a0kWh60 moves")

        bars = page.get_by_role("table", name="Where 60 members are now").locator("tbody tr")
        shown = [int(text) for text in bars.locator("td:nth-child(3)").all_inner_texts()]
        assert shown == [first["action"].count(k) for k in range(3)]
        facts = page.get_by_role("region", name="What is set up")
        for words in ("0, 1, 2\u00a0bar", "0.5 kWh for each bar", "GP-MD", "7 to 66, one for each member"):
            expect(facts).to_contain_text(words)

        rows = page.locator(".members tbody tr")
        expect(rows).to_have_count(25)
        page.get_by_role("button", name="Next").click()
        expect(rows.first.get_by_role("rowheader")).to_have_text("25")
        page.get_by_label("Show members").select_option("whose measurement is awaited")
        expect(page.get_by_text("1 to 20 of 20 that fit")).to_be_visible()
        expect(rows.first).to_contain_text("awaited")
        page.get_by_label("from number").fill("55")
        expect(rows.locator("th")).to_have_text(["55", "56", "57", "58", "59"])

        page.get_by_role("button", name="Check the record").click()
        expect(page.get_by_text("all 60 decisions come out the same when repeated")).to_be_visible()
        page.emulate_media(reduced_motion="reduce")  # else colours take a moment
        page.get_by_role("button", name="light / dark").click()
        assert page.evaluate(FAINT_TEXT) == []
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390

        client.delete("/fleets/pumps", params={"name": PUMPS["name"], "reason": "sold"})
        expect(page.get_by_role("heading", level=1)).to_have_text("Controllers")
        page.get_by_text("Journal of the service").click()
        expect(page.get_by_text("a fleet, was deleted, with 60 members and 60 decisions.")).to_be_visible()
