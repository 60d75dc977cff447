"""An operator's months on the page, in a real browser: a whole day, limits, prices, readings by hand, the archive."""

from __future__ import annotations

import csv
import math
import re

import pytest
from service.browsing import CHROMIUM, FAINT_TEXT, HEIGHTS, Machine, controller_page, page_of

import holdcourse as hc
from holdcourse.service.core import tokens

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
expect.set_options(timeout=15_000)


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "site.policy"
    winds = [3.0 + 6.0 * (k % 7) / 6 for k in range(66)]
    costs = [1 + ((HEIGHTS[k % 11] - 20 * wind) / 150) ** 2 + 0.2 * math.sin(7 * k) for k, wind in enumerate(winds)]
    history = [(k % 11, wind, cost) for k, (wind, cost) in enumerate(zip(winds, costs, strict=True))]
    policy = hc.gp_md(hc.Problem(HEIGHTS, scale=0.004), history=history)
    evidence = hc.Evidence(learned="66 readings", judged="a week", conclusion="It would have paid off here.")
    policy.save(path, units={"action": "m", "measurement": "kWh"}, evidence=evidence)
    return path


def confirm(page, title, press, **fields):
    """Fill in a dialog and confirm it; it closes when it was done."""
    dialog = page.get_by_role("dialog", name=title)
    for label, text in fields.items():
        field = dialog.get_by_label(label.replace("_", " "), exact=True)
        if field.evaluate("e => e.tagName") == "SELECT":
            field.select_option(label=text)
        else:
            field.fill(text)
    dialog.get_by_role("button", name=press).click()
    expect(dialog).to_have_count(0)


def switch(page, mode, reason=""):
    page.get_by_role("button", name=mode, exact=True).click()
    confirm(page, f"Switch to {mode}?", f"Switch to {mode}", Reason=reason)
    expect(page.get_by_role("button", name=mode, pressed=True)).to_be_visible()


def test_an_operators_day(server, browser, policy_file):
    """Create from a policy's file, shadow, advise, act, an alarm, retract, override, hand back, trial, export."""
    operator = tokens.make(server.token_file, "Ada", ["admin"], [tokens.EVERYTHING])[1]
    with page_of(browser, operator) as page:
        page.goto(server.url)
        page.get_by_role("button", name="New controller").click()
        dialog = page.get_by_role("dialog", name="New controller")
        dialog.get_by_label("From a file").check()
        dialog.get_by_label("File of the policy").set_input_files(policy_file)
        expect(dialog.get_by_text("It would have paid off here.")).to_be_visible()
        dialog.get_by_label("Id").fill("day")
        dialog.get_by_label("The machine is at").select_option("100\u00a0m")
        dialog.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("day")
        machine = Machine(server, "day", made=True)

        page.get_by_role("button", name="Name and time zone").click()
        confirm(page, "Name and time zone", "Change", Name="Kite of the day", Time_zone_of_the_plant="Asia/Tokyo")
        expect(page.get_by_role("heading", level=1)).to_have_text("Kite of the day")
        expect(page.get_by_text("Asia/Tokyo", exact=True)).to_be_visible()

        # It is watched, then listened to, then trusted.
        expect(page.get_by_role("button", name="shadow", pressed=True)).to_be_visible()
        machine.run(2)
        expect(page.get_by_role("img", name=re.compile("Who was in charge.*operator, watched 100"))).to_be_visible()
        switch(page, "advise")
        machine.run(2)
        expect(page.get_by_role("img", name=re.compile("Who was in charge.*advice followed"))).to_be_visible()
        switch(page, "act", "two quiet weeks")
        machine.run(1)

        # The sensor freezes; somebody sees it, and the readings are taken back one by one.
        for _ in range(10):
            machine.tell(machine.ask() | {"measurement": 2.0})
        alarm = page.get_by_role("alert").filter(has_text="is the sensor frozen?")
        expect(alarm).to_be_visible()
        page.get_by_role("button", name="Acknowledge the alarm sensor").click()
        confirm(page, "Have you seen this alarm?", "I have seen it", Remark="the cable was loose")
        expect(alarm).to_contain_text("Seen by Ada")
        expect(alarm).to_contain_text("the cable was loose")
        expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
        page.get_by_role("button", name="Take back the measurement of round 14").click()
        confirm(page, "Take back the measurement of round 14?", "Take it back", Reason="the cable was loose")
        expect(page.get_by_role("row").filter(has_text="taken back: the cable was loose")).to_be_visible()
        expect(page.locator(".strip")).to_be_empty()  # fewer than ten are left in a row

        # A reading that the machine's program lost is entered by hand.
        machine.ask()
        page.get_by_role("button", name="Enter the reading").click()
        confirm(page, "Enter the reading of round 15?", "Enter", **{"Measured (kWh)": "1.75"})
        expect(page.locator(".decisions tbody tr").first).to_contain_text("1.75")

        # Held for an inspection, and handed back.
        page.get_by_role("button", name="Take over").click()
        confirm(page, "Hold the machine at one setting?", "Hold it there", Setting="250\u00a0m", Reason="inspection")
        expect(page.locator(".order")).to_have_text("Hold 250 m")
        machine.run(1)
        page.get_by_role("button", name="Release").click()
        confirm(page, "Hand control back?", "Release", Reason="done")
        expect(page.get_by_role("button", name="Release")).to_have_count(0)

        # A trial.
        page.get_by_role("button", name="Begin a trial").click()
        confirm(page, "Begin a trial?", "Begin the trial", Length_of_a_block="1", Reason="does it pay?")
        expect(page.get_by_role("heading", name="Trial: did it pay?")).to_be_visible()
        machine.run(4)
        expect(page.get_by_role("img", name=re.compile("baseline's turn"))).to_be_visible()
        page.get_by_role("button", name="End the trial").click()
        confirm(page, "End the trial?", "End the trial", Reason="enough")
        expect(page.get_by_role("button", name="Begin a trial")).to_be_visible()

        # Who did all that, and the rounds as a file.
        trail = page.get_by_role("table", name="Changes, the newest first")
        expect(trail.get_by_role("row").nth(1)).to_contain_text("The trial was ended.")
        for row in ("Ada The mode is act. two quiet weeks", "Ada Held at 250 m. inspection", "the cable was loose"):
            expect(trail.get_by_role("row").filter(has_text=re.compile(row.replace(" ", r"\s*"))).first).to_be_visible()
        page.get_by_label("Show", exact=False).last.select_option("acknowledge")
        expect(trail.get_by_role("row")).to_have_count(2)
        for kind in ("CSV", "Parquet"):
            with page.expect_download() as saved:
                page.get_by_role("button", name=f"Export all rounds as {kind}").click()
            assert saved.value.suggested_filename == f"day.{kind.lower()}"
            if kind == "CSV":
                with open(saved.value.path(), encoding="utf-8", newline="") as file:
                    rows = list(csv.DictReader(file))
        assert len(rows) == 21
        assert rows[0]["asked_at"].endswith("+09:00")
        assert {"operator", "policy", "override", "baseline"} <= {row["in_charge"] for row in rows}
        assert (rows[14]["retracted_reason"], rows[15]["told_by"]) == ("the cable was loose", "Ada")
        assert page.evaluate(FAINT_TEXT) == []
    assert server.client.see("day", "verify")["ok"]


def test_limits_and_the_price_of_moving_are_changed_with_a_reason(server, browser):
    machine = Machine(server, "edited", limits={"min_dwell": 2})
    machine.run(2)
    with page_of(browser, server.token, expected="status of 422") as page:
        controller_page(page, server, "edited")
        page.get_by_role("button", name="Limits …").click()
        dialog = page.get_by_role("dialog", name="Change the limits?")
        expect(dialog.get_by_label("Minimum dwell time")).to_have_value("2")
        dialog.get_by_role("button", name="Change the limits").click()
        expect(dialog).to_be_visible()  # it wants a reason
        dialog.get_by_label("Reason").fill("a new gearbox")
        dialog.get_by_role("button", name="Change the limits").click()
        expect(dialog.get_by_role("alert")).to_have_text("Nothing was changed.")
        dialog.get_by_label("Maximum number of moves").fill("3")
        dialog.get_by_role("button", name="Change the limits").click()
        expect(dialog.get_by_role("alert")).to_contain_text("max_moves and window belong together")
        dialog.get_by_label("Window").fill("10")
        dialog.get_by_label("Longest single move").fill("0,05 km")
        dialog.get_by_role("button", name="Change the limits").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_text("3 in any 10 rounds")).to_be_visible()
        limits = server.client.see("edited", "config")["limits"]
        assert (limits["min_dwell"], limits["max_moves"], limits["max_step"]) == (2, 3, 50.0)

        page.get_by_role("button", name="Price of moving …").click()
        confirm(page, "Change the price", "Change the price", Cost_of_moving_by_one_unit="10 Wh/m", Reason="tariff")
        expect(page.get_by_text("0.01 kWh for each m")).to_be_visible()
        assert machine.state()["epoch"] == 3
        machine.run(1)
        reasons = [deed["reason"] for deed in server.client.see("edited", "audit", kind=["limits", "price"])["deeds"]]
        assert reasons == ["tariff", "a new gearbox"]


def test_a_round_in_which_nothing_was_measured_is_skipped_by_hand(server, browser):
    machine = Machine(server, "by-hand")
    machine.ask()
    with page_of(browser, server.token) as page:
        controller_page(page, server, "by-hand")
        page.get_by_role("button", name="Enter the reading").click()
        dialog = page.get_by_role("dialog", name="Enter the reading of round 0?")
        dialog.get_by_label("Measured (kWh)").fill("twelve")
        dialog.get_by_role("button", name="Enter").click()
        expect(dialog.get_by_role("alert")).to_contain_text("is not a number")
        dialog.get_by_label("Nothing was measured").check()
        dialog.get_by_label("Setting that ran").select_option(label="200\u00a0m")
        dialog.get_by_role("button", name="Enter").click()
        expect(page.locator(".decisions tbody tr").first).to_contain_text("skipped")
        expect(page.locator(".readout")).to_contain_text("Round 0: 200\u00a0m, skipped")
        expect(page.get_by_text("The last decision has been measured or skipped.")).to_be_visible()
        assert machine.state()["value"] == 200.0


def test_the_model_is_checked_on_the_page_while_rounds_go_on(server, browser):
    machine = Machine(server, "checked")
    machine.run(25)
    with page_of(browser, server.token) as page:
        controller_page(page, server, "checked")
        page.get_by_role("button", name="Check the model").click()
        machine.run(2)  # nobody waits for it
        expect(page.get_by_text(re.compile("of the 2[567] readings was predicted"))).to_be_visible(timeout=60_000)
        picture = re.compile("Predicted against measured, in kWh, of 2[567] readings")
        expect(page.get_by_role("img", name=picture)).to_be_visible()
        expect(page.get_by_role("table", name="Share of readings within the model's bands")).to_contain_text(
            "95\u00a0%"
        )


@pytest.mark.slow  # over HTTP it is tested in make test
def test_a_controller_is_archived_brought_back_and_deleted_on_the_page(server, browser):
    Machine(server, "worn", name="Worn mill").run(1)
    visitor = tokens.make(server.token_file, "visitor", ["tell"], [tokens.EVERYTHING])[1]
    gone = "status of 404"  # a page may ask once more for what has just been deleted
    with page_of(browser, server.token, gone) as page, page_of(browser, visitor, gone) as other:
        for each in (page, other):
            controller_page(each, server, "worn")
        page.get_by_role("button", name="Archive …").click()
        confirm(page, "Archive Worn mill?", "Archive", Reason="dismantled")
        for each in (page, other):
            expect(each.get_by_text(re.compile("Archived .* by tests: dismantled"))).to_be_visible()
        for name in ("Take over", "act", "Limits", "Take back", "Begin a trial"):
            expect(page.get_by_role("button", name=name)).to_have_count(0)
        expect(other.get_by_role("button", name="Bring back")).to_have_count(0)
        page.get_by_role("link", name="All controllers").click()
        expect(page.get_by_text("1 archived controller")).to_be_visible()
        expect(page.get_by_role("link", name="Worn mill")).to_be_hidden()
        page.get_by_text("1 archived controller").click()
        page.get_by_role("link", name="Worn mill").click()

        page.get_by_role("button", name="Bring back").click()
        confirm(page, "Bring Worn mill back?", "Bring back", Reason="rebuilt")
        expect(page.get_by_role("button", name="Take over")).to_be_visible()
        page.get_by_role("button", name="Archive …").click()
        confirm(page, "Archive Worn mill?", "Archive", Reason="dismantled again")
        page.get_by_role("button", name="Delete for good").click()
        dialog = page.get_by_role("dialog", name="Delete Worn mill for good?")
        dialog.get_by_label("Reason").fill("sold")
        dialog.get_by_label("Type its name").fill("worn mill")
        dialog.get_by_role("button", name="Delete for good").click()
        expect(dialog.get_by_role("alert")).to_contain_text("Worn mill")
        assert server.client.see("worn", "state")["status"] == "archived"
        dialog.get_by_label("Type its name").fill("Worn mill")
        dialog.get_by_role("button", name="Delete for good").click()
        for each in (page, other):
            expect(each.get_by_role("heading", level=1)).to_have_text("Controllers")
            expect(each.get_by_role("link", name="Worn mill")).to_have_count(0)
    with page_of(browser, server.token) as page, page_of(browser, visitor) as other:
        for each in (page, other):
            each.goto(server.url)
            expect(each.get_by_text("live", exact=True)).to_be_visible()
        page.get_by_text("Journal of the service").click()
        row = page.get_by_role("table", name="Journal").get_by_role("row").filter(has_text="Worn mill was deleted")
        expect(row).to_contain_text("sold")
        expect(other.get_by_text("Journal of the service")).to_be_hidden()
    line = server.client.get("/journal").json()["lines"][0]
    assert (line["controller"], line["reason"], line["by"]["name"]) == ("worn", "sold", "tests")


def test_rounds_whose_epoch_was_moved_away_are_not_waited_for(server, browser, tmp_path):
    machine = Machine(server, "moved")
    machine.run(3)
    server.client.change("moved", limits={"min_dwell": 2})
    machine.run(2)
    server.kill()
    for path in (server.data / "controllers" / "moved").glob("epoch-0001.db*"):
        path.rename(tmp_path / path.name)
    server.start()
    with page_of(browser, server.token) as page:
        controller_page(page, server, "moved")
        page.get_by_label("Show last").select_option("1000")
        expect(page.get_by_label("Show last")).to_be_enabled()
        expect(page.get_by_role("button", name="Explain round 3")).to_be_visible()
        expect(page.get_by_role("button", name="Explain round 2")).to_have_count(0)
        trail = page.get_by_role("table", name="Changes, the newest first")
        expect(trail.get_by_role("row")).to_have_count(2)  # what was done before is in the other file


# Everything that can be used or says something by its looks must have a name.
NAMELESS = """() => {
  const given = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length;
  const name = (e) => given(e) || e.textContent.trim() || e.title;
  const shown = (e) => e.checkVisibility() && e.getAttribute("aria-hidden") !== "true";
  const kinds = "button, a[href], input, select, textarea, canvas, [role=img], [role=region], [tabindex='0']";
  const nameless = [...document.querySelectorAll(kinds)].filter((e) => shown(e) && !name(e));
  return nameless.map((e) => e.outerHTML.slice(0, 120));
}"""


def test_every_part_has_a_name_fits_a_phone_and_can_be_read(server, browser):
    name, width, scheme = "named", 390, "dark"
    units = {"action": "m", "measurement": "kWh", "contexts": ["m/s"]}
    machine = Machine(server, name, zone="Europe/Berlin", units=units, context_names=["wind"], mode="shadow")
    machine.run(2)
    for _ in range(10):
        machine.tell(machine.ask() | {"measurement": 2.0})
    machine.ask()
    with page_of(browser, server.token, color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
        controller_page(page, server, name)
        expect(page.get_by_role("button", name="Acknowledge the alarm sensor")).to_be_visible()
        expect(page.get_by_text("Europe/Berlin").first).to_be_visible()
        expect(page.locator(".readout")).to_contain_text("wind")
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXT) == []
        for button in ("Limits …", "Price of moving …", "Name and time zone …", "Enter the reading …", "Archive …"):
            page.get_by_role("button", name=button).click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_be_visible()
            assert page.evaluate(NAMELESS) == []
            assert dialog.evaluate("e => e.scrollWidth <= e.clientWidth")
            assert page.evaluate(FAINT_TEXT) == []
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(page.get_by_role("button", name=button)).to_be_focused()


def test_a_print_is_light_and_has_nothing_to_press(server, browser):
    Machine(server, "printed").run(3)
    with page_of(browser, server.token, color_scheme="dark") as page:
        controller_page(page, server, "printed")
        expect(page.get_by_role("button", name="Explain round 2")).to_be_visible()
        page.emulate_media(media="print", color_scheme="dark")
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        pressed = "[...document.querySelectorAll('button, select, input')].filter((e) => e.checkVisibility())"
        shown = page.evaluate(f"{pressed}.map((e) => e.getAttribute('aria-label'))")
        assert set(shown) <= {f"Explain round {k}" for k in range(3)} | {"Colours compare each setting with"}  # as text
        page.set_viewport_size({"width": 760, "height": 1000})  # about a sheet of paper
        assert page.evaluate("document.documentElement.scrollWidth") <= 760
        expect(page.locator(".plot.field")).to_be_visible()
        page.emulate_media(media="screen", color_scheme="dark")
        expect(page.locator("html")).not_to_have_attribute("data-theme", "light")
