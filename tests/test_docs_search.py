"""The search of the documentation finds the right section and shows why, also on pages that are opened as files."""

from __future__ import annotations

import json

import pytest
from helpers.docs_search import searching
from helpers.pages import DOCS

SECTIONS = {
    "decisions/0001-stay": [
        ["", "1. Dwell times", "A dwell time was added. The dwell time is the least time of a stay.", ""]
    ],
    "how-to/operate": [
        ["", "Run the service", "A service with a page.", ""],
        ["alarms", "Get notified of alarms", "Alarms are sent by e-mail or to a webhook. " * 9, ""],
        [
            "limits",
            "Limits",
            f"{'Words about other things. ' * 8}Give a dwell time: it must stay for so long.",
            "min_dwell=3",
        ],
    ],
    "reference/running": [
        ["", "Controllers", "What runs.", ""],
        ["holdcourse.Limits", "Limits", "Limits of a machine.", "Limits(min_dwell, max_moves)"],
    ],
    "theory/movement": [["", "The movement engine", "Prices of moves, set-points <b>and</b> trees.", ""]],
}


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    (folder / "sections.js").write_text(f"const SECTIONS = {json.dumps(SECTIONS)};", encoding="utf-8")
    (folder / "search.js").write_bytes((DOCS / "_static" / "search.js").read_bytes())
    (folder / "search.html").write_text(
        '<!doctype html><meta charset="utf-8"><input id="query"><div id="found"></div>'
        '<script src="sections.js"></script><script src="search.js"></script>',
        encoding="utf-8",
    )
    with searching(folder / "search.html") as found:
        yield found


def addresses(found):
    return [address for address, _, _ in found]


def test_a_result_is_a_section_and_shows_the_sentence_with_the_words(search):
    address, excerpt, _ = search("dwell time")[0]
    assert address == "how-to/operate.html#limits"
    assert "Give a dwell time: it must stay" in excerpt
    assert len(excerpt) < 300
    assert search.tab.eval_on_selector_all(
        "ol.found li:first-child mark", "all => all.map(one => one.textContent)"
    ) == [
        "dwell",
        "time",
    ]


def test_decisions_come_after_guides(search):
    assert addresses(search("dwell time"))[:2] == ["how-to/operate.html#limits", "decisions/0001-stay.html"]


@pytest.mark.parametrize(
    ("query", "address"),
    [
        ("setpoint", "theory/movement.html"),  # written with a hyphen
        ("ALARM", "how-to/operate.html#alarms"),
        ("how do I get alarms", "how-to/operate.html#alarms"),
        ("e-mail alarm", "how-to/operate.html#alarms"),
        ("hook", None),
        ("hc.Limits", "reference/running.html#holdcourse.Limits"),  # as it stands in code: not what has this heading
        ("limits", "how-to/operate.html#limits"),
        ("webho", "how-to/operate.html#alarms"),  # the beginning of a word
        ("max_moves", "reference/running.html#holdcourse.Limits"),  # in code only
    ],
)
def test_what_is_found_first(search, query, address):
    assert addresses(search(query))[:1] == ([address] if address else [])


def test_a_text_is_shown_as_text(search):
    assert "<b>and</b>" in search("trees")[0][1]


def test_words_that_no_page_has_together(search):
    found = search("webhook trees")
    assert set(addresses(found)) == {"how-to/operate.html#alarms", "theory/movement.html"}
    assert search.tab.inner_text(".search-summary").startswith("No page contains all of these words.")
    assert search("unheard") == []
    assert "Nothing contains “unheard”" in search.tab.inner_text(".search-summary")


def test_it_searches_while_somebody_types(search):
    search("")
    search.tab.fill("#query", "alarms")
    assert search.tab.locator("ol.found > li").count() == 1
