"""Taking back over HTTP: the sums, the listing, keys and tokens, and what an earlier epoch was told."""

from __future__ import annotations

import zipfile
from io import BytesIO

import numpy as np
import pytest
from service.running import Client, Process, served
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.archive import unpack
from holdcourse.errors import Conflict, InvalidInput
from holdcourse.running import audit
from holdcourse.running.events import Learn, Retract, Tell
from holdcourse.running.log import Log
from holdcourse.service.core import configuration, epochs, tokens
from holdcourse.service.core.data_folder import DataFolder
from holdcourse.service.core.hosted import Hosted, SettingGiven
from holdcourse.service.core.requests import AskGiven, Config

WRONG = 1e6
FIGURES = ("measurements_sum", "service", "movement", "estimate", "rounds_told", "round", "action")


def figures(client, name):
    state = client.see(name, "state")
    return {figure: state[figure] for figure in FIGURES}


def play(client, name, rounds, wrong=()):
    """Rounds whose measurements are a function of the round."""
    for number in range(client.see(name, "state")["round"], rounds):
        random = np.random.default_rng(number)
        client.round(name, float(random.random()), WRONG if number in wrong else float(random.normal(1.0, 0.3)))


@pytest.mark.parametrize("options", [{}, {"policy": "stationary", "options": {}}], ids=["learning", "staying"])
@pytest.mark.parametrize("applied", [None, 0, 2])
def test_no_figure_knows_it_any_more(client, name, applied, options):
    """The twin skipped the round."""
    twin = f"{name}-twin"
    for each in (name, twin):
        client.create(id=each, history_index=[[0, 0.5, 2.0], [2, 0.5, 1.0]], **options)
        play(client, each, 5)
        client.do(each, "ask", context=0.4)
    client.do(name, "tell", decision="r5", measurement=WRONG, applied_index=applied)
    assert client.see(name, "state")["service"] > WRONG
    answer = client.do(name, "retract", decision="r5", reason="unplugged")
    assert (answer["measurement"], answer["reason"]) == (WRONG, "unplugged")
    client.do(twin, "skip", decision="r5", applied_index=applied)
    assert figures(client, name) == figures(client, twin)
    for each in (name, twin):
        play(client, each, 9)
    assert figures(client, name) == figures(client, twin)
    ours, theirs = (client.see(each, "decisions")["decisions"] for each in (name, twin))
    same = ("action", "expected_cost", "service", "cumulative_service", "cumulative_movement", "measurement")
    assert [[row[field] for field in same] for row in ours[6:]] == [
        [row[field] for field in same] for row in theirs[6:]
    ]
    metrics = client.get("/metrics").text.splitlines()
    costs = [line.split()[-1] for line in metrics if line.startswith("holdcourse_service_cost") and f'"{name}' in line]
    assert len(set(costs)) == 1


def test_gains_are_those_of_a_model_that_never_learned_it(client, name):
    """The twin was moved as this one was, and told the same but for the wrong measurement."""
    twin = f"{name}-twin"
    for each in (name, twin):
        client.create(id=each, history_index=[[0, 0.5, 2.0], [2, 0.5, 1.0]])
    play(client, name, 12, wrong={3})
    misled = client.saved(name)[0]
    client.do(name, "retract", decision="r3", reason="unplugged")
    for row in client.see(name, "decisions")["decisions"]:
        client.do(twin, "ask", context=row["context"])
        told = {"decision": row["decision"], "applied_index": row["applied_index"]}
        if row["retracted"]:
            client.do(twin, "skip", **told)
        else:
            client.do(twin, "tell", **told, measurement=row["measurement"])
    assert figures(client, name) == figures(client, twin)
    assert client.saved(name) == client.saved(twin)
    assert abs(client.saved(name)[0]) < 100 < abs(misled)


def test_several_taken_back_in_any_order_leave_the_same_figures(client, name):
    for each, order in ((name, ("r3", "r7", "r5")), (f"{name}-other", ("r7", "r5", "r3"))):
        client.create(id=each)
        play(client, each, 10, wrong={3, 5, 7})
        for decision in order:
            client.do(each, "retract", decision=decision, reason="unplugged")
    assert figures(client, name) == figures(client, f"{name}-other")
    assert client.see(name, "state")["rounds_told"] == 7
    assert abs(client.see(name, "state")["service"]) < 100


def test_the_listing_shows_both_facts_and_sums_without_it(client, name):
    client.create(id=name)
    play(client, name, 10, wrong={3})
    client.do(name, "retract", decision="r3", reason="unplugged")
    play(client, name, 12)
    rows = client.see(name, "decisions")["decisions"]
    assert (rows[3]["measurement"], rows[3]["service"]) == (None, None)
    said = rows[3]["retracted"]
    assert (said["measurement"], said["reason"], said["by"]["token"]) == (WRONG, "unplugged", None)
    assert [row["round"] for row in rows if row["retracted"]] == [3]
    right = np.cumsum([row["service"] or 0.0 for row in rows])
    assert [row["cumulative_service"] for row in rows] == pytest.approx(right.tolist())
    assert client.see(name, "state")["service"] == pytest.approx(right[-1])
    assert client.see(name, "state")["rounds_told"] == 11
    assert client.see(name, "verify", full=True)["ok"]


def test_where_a_sum_was_lost_in_it_none_is_listed_and_the_state_is_exact(client, name):
    client.create(id=name)
    play(client, name, 2)
    client.round(name, 0.5, 1e30)
    client.round(name, 0.5, 1.0)
    client.do(name, "retract", decision="r2", reason="overflow")
    rows = client.see(name, "decisions")["decisions"]
    assert [row["cumulative_service"] for row in rows[2:]] == [None, None]
    assert client.see(name, "state")["service"] == rows[1]["cumulative_service"] + 1.0


def test_the_same_again_changes_nothing_and_another_is_refused(client, name):
    client.create(id=name)
    play(client, name, 4)
    first = client.do(name, "retract", decision="r1", reason="unplugged", key="k1")
    before = client.see(name, "verify")["events"]
    assert client.do(name, "retract", decision="r1", reason="unplugged", key="k1") == first
    assert client.do(name, "retract", decision="r1", reason="unplugged") == first
    assert client.do(name, "retract", decision="r1", reason="unplugged", key="k2") == first
    refused = client.do(name, "retract", decision="r1", reason="other", status=409)
    assert (refused["recorded"]["reason"], refused["given"]["reason"]) == ("unplugged", "other")
    client.do(name, "retract", decision="r2", reason="unplugged", key="k1", status=409)
    assert "retract r1" in client.do(name, "tell", decision="r2", measurement=1.0, key="k1", status=409)["message"]
    assert client.see(name, "verify")["events"] == before
    told = client.see(name, "decisions")["decisions"][1]["retracted"]["measurement"]
    assert client.do(name, "tell", decision="r1", measurement=told)["told"]["measurement"] == told


def test_what_cannot_be_taken_back_is_refused(client, name):
    client.create(id=name)
    play(client, name, 2)
    client.do(name, "skip", decision=client.do(name, "ask", context=0.1)["decision"])
    client.do(name, "ask", context=0.1)
    assert "r3 still wait" in client.do(name, "retract", decision="r3", reason="x", status=409)["message"]
    assert "nothing was measured in r2" in client.do(name, "retract", decision="r2", reason="x", status=422)["message"]
    client.do(name, "retract", decision="r9", reason="x", status=404)
    client.do(name, "retract", decision="r1", reason=" ", status=422)
    client.do(name, "retract", decision="r1", status=422)
    client.do(name, "retract", decision="1", reason="x", status=422)


def test_an_alarm_that_it_kept_open_is_over(client, name):
    client.create(id=name, policy="stationary", options={})
    for _ in range(10):
        client.round(name, 0.5, 1.0)
    assert [alarm["kind"] for alarm in client.see(name, "state")["alarms"]] == ["sensor"]
    client.do(name, "retract", decision="r9", reason="frozen")
    assert client.see(name, "state")["alarms"] == []


def test_an_earlier_epoch_begins_a_new_one_that_never_knew_it(tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        client.create(id="mill")
        play(client, "mill", 6, wrong={2})
        client.do("mill", "ask", context=0.3)
        client.change("mill", limits={"min_dwell": 2})
        client.do("mill", "tell", decision="r6", measurement=WRONG)  # of a decision of the epoch before
        play(client, "mill", 9)
        client.do("mill", "retract", decision="r2", reason="unplugged")
        assert client.see("mill", "state")["epoch"] == 3
        client.do("mill", "retract", decision="r6", reason="unplugged as well")
        assert client.see("mill", "state")["epoch"] == 4  # epoch 3 began with it
        rows = client.see("mill", "decisions")["decisions"]
        total = sum(row["service"] for row in rows if row["service"] is not None)
        state = client.see("mill", "state")
        assert (state["service"], state["rounds_told"]) == (pytest.approx(total), 7)
        assert [row["cumulative_service"] for row in rows] == pytest.approx(
            np.cumsum([row["service"] or 0.0 for row in rows]).tolist(), rel=1e-6
        )
        assert client.see("mill", "verify", full=True)["ok"]
        play(client, "mill", 12)
        client.do("mill", "retract", decision="r10", reason="unplugged again")
        client.change("mill", limits={"min_dwell": 1})  # nor does any later one know it
        state = client.see("mill", "state")
    with served(tmp_path / "data") as url, Client(url) as client:
        assert client.see("mill", "state") == state
        archive = zipfile.ZipFile(BytesIO(client.get("/controllers/mill/backup").content))
        archive.extractall(tmp_path / "copy")
    told, retracted, began_with = [], [], []
    for path in sorted((tmp_path / "copy").rglob("epoch-*.db")):
        log = Log.read(path)
        told += [event.body for event in log.events() if isinstance(event.body, Tell | Learn)]
        retracted += [event.body for event in log.events() if isinstance(event.body, Retract)]
        learned = unpack(log.newest_snapshot(at_most=0)[1], "the beginning")[1]  # it began with what was told before
        began_with.append(int(learned["pilot.model.posterior.observations"]))
        log.close()
    assert [body.measurement for body in told if body.id in ("r2", "r6")] == [WRONG, WRONG]
    assert began_with == [0, 6, 8, 7, 9]  # of 6, 9, 9 and 12 measurements
    assert [(body.id, body.event is None) for body in retracted] == [("r2", True), ("r6", True), ("r10", False)]


@pytest.mark.parametrize("settings", [[0.0, 1.0], [1.0, 0.5, 0.0]])
def test_a_suspect_of_an_earlier_epoch_is_known_by_its_number_of_now(tmp_path, settings):
    store, kernel = DataFolder(tmp_path), hc.Kernel(RBF(1.0), RBF(0.5))
    given = {"id": "mill", "actions": [0.0, 0.5, 1.0], "policy": "gp-md", "max_pending": 2}
    given["options"] = {"kernel": kernel.to_json(), "noise_std": 0.1}
    epochs.begin(store, configuration.settings_of(Config.model_validate(given)), None)
    hosted = Hosted(store, "mill")
    try:
        for number, measurement in enumerate((1.0, 1.0, 50.0)):
            hosted.ask(AskGiven(context=0.3, round=number), None)
            hosted.tell(f"r{number}", measurement, SettingGiven(1.0))
        assert hosted.ledger.watched.suspect.action == 2
        hosted.change({"actions": settings}, None)
        hosted.retract("r0", "unplugged", None)
        suspect = hosted.ledger.watched.suspect
        assert (suspect.decision, settings[suspect.action]) == ("r2", 1.0)
    finally:
        hosted.close()
        store.close()


def test_while_epochs_are_archived_that_must_be_accepted(tmp_path):
    with served(tmp_path / "data") as url, Client(url) as client:
        client.create(id="mill")
        for dwell in (2, 3):
            play(client, "mill", 3 * dwell)
            client.change("mill", limits={"min_dwell": dwell})
    (tmp_path / "data" / "controllers" / "mill" / "epoch-0001.db").rename(tmp_path / "archived")
    with served(tmp_path / "data") as url, Client(url) as client:
        client.do("mill", "retract", decision="r2", reason="unplugged", status=404)  # it is in the archived one
        refused = client.do("mill", "retract", decision="r7", reason="unplugged", status=409)
        assert "without_archived" in refused["message"]
        assert client.see("mill", "state")["epoch"] == 3
        before = client.see("mill", "state")["rounds_told"]
        client.do("mill", "retract?without_archived=true", decision="r7", reason="unplugged")
        state = client.see("mill", "state")
        assert (state["epoch"], state["rounds_told"]) == (4, before - 1)


def test_what_was_told_in_this_epoch_of_an_earlier_decision_needs_no_new_one(client, name):
    client.create(id=name)
    play(client, name, 3)
    client.do(name, "ask", context=0.3)
    client.change(name, limits={"min_dwell": 2})
    before = figures(client, name)
    client.do(name, "tell", decision="r3", measurement=WRONG)
    client.do(name, "retract", decision="r3", reason="unplugged")
    assert client.see(name, "state")["epoch"] == 2
    assert figures(client, name) == before | {"movement": client.see(name, "state")["movement"]}


def test_who_may_tell_may_take_back_and_is_named(tmp_path):
    file = tmp_path / "tokens"
    admin, teller, reader = (
        tokens.make(file, who, scopes, ["*"])[1] for who, scopes in [("a", ["admin"]), ("t", ["tell"]), ("r", ["ask"])]
    )
    with served(tmp_path / "data", file) as url:
        with Client(url, admin) as client:
            client.create()
            play(client, "quick", 3)
        with Client(url, reader) as client:
            client.do("quick", "retract", decision="r1", reason="x", status=403)
        with Client(url, teller) as client:
            assert client.do("quick", "retract", decision="r1", reason="x")["by"]["name"] == "t"
        with Client(url, admin) as client:
            assert client.see("quick", "decisions")["decisions"][1]["retracted"]["by"]["name"] == "t"
            client.do("quick", "retract", decision="r2", reason="x")


def test_killed_and_started_again_it_stays_taken_back(tmp_path):
    with Process(tmp_path / "data") as process, Client(process.url) as client:
        client.create()
        play(client, "quick", 8, wrong={3})
        client.do("quick", "retract", decision="r3", reason="unplugged")
        before = client.see("quick", "state")
        process.kill()
    with Process(tmp_path / "data") as process, Client(process.url) as client:
        assert client.see("quick", "state") == before
        play(client, "quick", 10)
        process.stop()
    (path,) = (tmp_path / "data").rglob("epoch-*.db")
    found = audit.verify(path)
    assert (found.verified, found.retractions) == (True, 1)


def test_those_who_watch_hear_of_it(url, client, name):
    client.create(id=name)
    play(client, name, 2)
    with Client(url) as other, other.stream("GET", f"/controllers/{name}/events") as stream:
        lines = stream.iter_lines()
        client.do(name, "retract", decision="r1", reason="unplugged")
        assert next(line for line in lines if line.startswith("event: ") and "retract" in line) == "event: retract"


# -- from afar ---------------------------------------------------------------------------------------------------------


def test_a_client_takes_back(url, client, name):
    client.create(id=name)
    play(client, name, 3)
    with hc.connect(url, patience=5.0) as service:
        remote = service.controller(name)
        assert remote.retract("r1", "unplugged")["reason"] == "unplugged"
        remote.retract("r1", "unplugged")
        with pytest.raises(Conflict, match="taken back"):
            remote.retract("r1", "other")
        with pytest.raises(InvalidInput, match="r9"):
            remote.retract("r9", "unplugged")
        assert remote.decisions()[1]["retracted"]["reason"] == "unplugged"
