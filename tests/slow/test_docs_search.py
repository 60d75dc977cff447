"""The documentation, built: what people look for is among the first three results, with an excerpt."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.docs_search import searching
from helpers.pages import DOCS

pytestmark = pytest.mark.slow
MB = 2**20


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("furo", "latex2mathml", "myst_parser", "sphinx", "sphinx_design"):
        pytest.importorskip(module, reason='needs pip install "holdcourse[docs]"')
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-b",
        "html",
        "-d",
        str(folder / "trees"),
        str(DOCS),
        str(folder / "html"),
    ]
    subprocess.run(command, check=True)
    return folder / "html"


@pytest.fixture(scope="module")
def search(site):
    with searching(site / "search.html") as found:
        yield found


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        (
            "dwell time",
            "how-to/run-a-controller how-to/operate reference/running tutorials/operate-a-controller",
        ),
        (
            "switching cost",
            "start tutorials/bring-your-own-problem theory/movement how-to/learn-costs reference/movement",
        ),
        ("CSV decimal comma", "how-to/plant-readings how-to/wind-data troubleshooting"),
        (
            "resume after crash",
            "how-to/run-a-controller durability how-to/operate tutorials/operate-a-controller troubleshooting",
        ),
        ("OPC UA", "how-to/wire-it-in"),
        ("capacity factor", "how-to/wind-backtest how-to/wind-map how-to/wind-machines"),
        ("regret", "theory/algorithm beyond reproduction reference/experiments"),
        (
            "context",
            "start architecture theory/learning tutorials/bring-your-own-problem how-to/run-a-controller start",
        ),
        (
            "restart price",
            "how-to/plant-readings how-to/learn-costs theory/movement how-to/knobs start",
        ),
        ("install", "start index"),
        ("MQTT", "how-to/wire-it-in"),
        ("confidence interval", "how-to/plant-backtest how-to/wind-backtest trials how-to/run-a-trial"),
        ("override", "how-to/operate tutorials/operate-a-controller how-to/run-a-controller"),
        ("token", "how-to/operate"),
        ("min_dwell", "reference/running how-to/run-a-controller"),
        ("PostgreSQL", "how-to/many-servers tutorials/database"),
        ("nginx TLS", "how-to/reverse-proxy"),
        ("time zone", "how-to/plant-readings how-to/wind-data how-to/wind-backtest"),
        ("alarm email webhook", "how-to/operate"),
        ("GPU", "how-to/fleets"),
        ("FLORIS yaw", "how-to/wake-steering tutorials/wake-steering wake-steering"),
        ("ERA5 lidar", "how-to/wind-data tutorials/wind-site"),
        ("baseline promise", "how-to/run-a-controller theory/planning how-to/operate"),
        ("A/B test", "how-to/run-a-trial trials"),
        ("missing measurement", "how-to/run-a-controller how-to/operate troubleshooting"),
        ("Excel", "how-to/plant-readings how-to/wind-data"),
        ("power curve", "how-to/wind-machines"),
        ("max_step", "how-to/run-a-controller reference/running how-to/operate"),
        ("BoTorch", "tutorials/botorch how-to/other-libraries benchmark-table"),
        ("hc.Controller", "reference/running"),
        ("hc.audit.verify(", "reference/running"),
        ("how do I stop the controller", "how-to/run-a-controller"),
        ("set-point limits", "how-to/run-a-controller tutorials/operate-a-controller how-to/operate"),
    ],
)
def test_what_people_look_for_is_among_the_first_three(search, query, pages):
    first = search(query)[:3]
    assert {address.partition(".html")[0] for address, _, _ in first} & set(pages.split())
    assert all(len(excerpt) > 20 for _, excerpt, _ in first)


def test_its_words_are_no_burden(site):
    assert (site / "_static" / "sections.js").stat().st_size < 2 * MB
    assert not (site / "searchindex.js").exists()


def test_its_words_are_those_that_a_reader_sees(site):
    found = (site / "_static" / "sections.js").read_text(encoding="utf-8")
    assert "<span" not in found
    assert "<br" not in found


def test_every_result_leads_to_a_place_that_is_there(site, search):
    for query in ("limits", "price", "holdcourse"):
        for address, _, others in search(query):
            for each in (address, *others):
                page, _, place = each.partition("#")
                assert f'id="{place}"' in (site / page).read_text(encoding="utf-8") or not place, each
