"""What is shipped for Prometheus and Grafana fits what a running service exports."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from service.running import Client, served

from holdcourse.service.core.notices import NotifyFile

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FOLDER / "alert-rules.yml").read_text(encoding="utf-8"))
PROMTOOL = shutil.which("promtool")
NAME = re.compile(r"\bholdcourse_\w+")
WIDTH = 24  # columns of a dashboard
KNOWN_PANELS = {"stat", "timeseries", "state-timeline", "table"}


def queries():
    """Every expression of the dashboard, with its variables filled in."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [expression.replace("$controller", ".*") for expression in found]


def alert_rules():
    return [rule for group in RULES["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """What a service exports with a controller that learns, and somebody to be told."""
    nobody = NotifyFile.model_validate({"webhook": [{"name": 'a "hook"', "url": "http://127.0.0.1:1/"}]})
    with served(tmp_path_factory.mktemp("service") / "data", notify=nobody) as url, Client(url) as client:
        history = [[float(k % 4), [0.1 * (k % 7)], 1.0 + 0.1 * (k % 4)] for k in range(12)]
        client.create(id="mill", policy="recommended", options={}, scale=0.1, history=history, mode="advise")
        client.round("mill", [0.5], 1.0)
        client.do("mill", "override", setting=2.0, reason="inspection")
        yield client.get("/metrics").text


def exported(figures):
    """Names of time series; of a histogram with its parts."""
    families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", figures, re.MULTILINE))
    parts = {
        f"{name}{end}"
        for name, kind in families.items()
        if kind == "histogram"
        for end in ("_bucket", "_sum", "_count")
    }
    return set(families) | parts


def test_every_metric_of_the_dashboard_and_the_rules_is_exported(figures):
    used = set(NAME.findall(" ".join([*queries(), *(rule["expr"] for rule in alert_rules())])))
    assert len(used) > 15
    assert used <= exported(figures)


def test_figures_of_a_controller(figures):
    lines = figures.splitlines()
    for line in (
        'holdcourse_setting{controller="mill"} 0',
        'holdcourse_mode{controller="mill",mode="advise"} 1',
        'holdcourse_mode{controller="mill",mode="act"} 0',
        'holdcourse_override{controller="mill"} 1',
        'holdcourse_notifications_waiting{target="a \\"hook\\""} 0',
    ):
        assert line in lines
    allowed, left, used = (
        float(re.search(rf'^holdcourse_promise_{name}{{controller="mill"}} (\S+)$', figures, re.MULTILINE)[1])
        for name in ("allowed", "left", "used")
    )
    assert used == max(allowed - left, 0.0)
    assert re.search(r'^holdcourse_band_widening{controller="mill"} ', figures, re.MULTILINE)


def test_every_family_is_written_once_in_one_block(figures):
    kinds = re.findall(r"^# TYPE (\w+) ", figures, re.MULTILINE)
    assert len(kinds) == len(set(kinds))
    for line in figures.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{(\w+=\"(\\.|[^\"\\])*\",?)*\})? \S+", line), line


def test_the_dashboard_has_what_grafana_wants():
    """The rules of its JSON model: who is who, a grid of 24 columns, one source of data, variables that exist."""
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", DASHBOARD["uid"])
    assert DASHBOARD["title"]
    assert isinstance(DASHBOARD["schemaVersion"], int)
    assert {"from", "to"} <= DASHBOARD["time"].keys()
    assert "id" not in DASHBOARD  # of the one who imports it
    variables = {each["name"]: each["type"] for each in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "controller": "query"}
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in KNOWN_PANELS
        assert panel["title"]
        assert panel["description"]
        assert {"defaults", "overrides"} <= panel["fieldConfig"].keys()
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        assert min(place.values()) >= 0
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart, "two panels lie over each other"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([panel["targets"] for panel in panels])))
    assert used <= variables.keys()


def test_the_rules_say_what_is_wrong_and_what_to_do():
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed; the system's package prometheus has it")
def test_promtool_takes_the_rules_the_queries_and_the_figures(figures, tmp_path):
    subprocess.run([PROMTOOL, "check", "rules", FOLDER / "alert-rules.yml"], check=True, capture_output=True)
    recorded = [{"record": f"query:{k}", "expr": expression} for k, expression in enumerate(queries())]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}))
    subprocess.run([PROMTOOL, "check", "rules", tmp_path / "queries.yml"], check=True, capture_output=True)
    said = subprocess.run([PROMTOOL, "check", "metrics"], input=figures, text=True, capture_output=True)
    assert "error while linting" not in said.stderr, said.stderr
    assert "parsing" not in said.stderr, said.stderr
