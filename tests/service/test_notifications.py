"""People are told of alarms, over a real HTTP receiver and a real mail server; and it is seen when they cannot be."""

from __future__ import annotations

import email
import hashlib
import hmac
import http.server
import json
import re
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from aiosmtpd.controller import Controller as MailServer
from service.running import Client, served, wait_for

from holdcourse.errors import InvalidInput
from holdcourse.service.core import notifications
from holdcourse.service.core.notices import KINDS, UNTOLD, Notice, NotifyFile, load_notify, signature
from holdcourse.service.core.notifications import Notifier, OpenAlarm
from holdcourse.service.http import responses

SECRET = "a secret of sixteen characters or more"


class Receiver:
    """Takes webhooks; `status` is what it answers."""

    def __init__(self):
        self.got, self.status = [], 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((json.loads(body), dict(self.headers), body))
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alarms"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def events(self, kind=None):
        return [body["event"] for body, *_ in self.got if kind in (None, body["kind"])]


class Mailbox:
    """What a mail server has taken."""

    def __init__(self):
        self.mails = []

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 taken"


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(notifications, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(notifications, "FIRST_PAUSE_S", 0.05)


def file_of(folder, url, more="", repeat="never"):
    (folder / "secret").write_text(SECRET + "\n")
    path = folder / "notify.toml"
    path.write_text(f'repeat = "{repeat}"\n[[webhook]]\nname = "hook"\nurl = "{url}"\nsecret_file = "secret"\n{more}')
    return load_notify(path)


def silent_controller(client, name="mill"):
    """A controller whose alarm, silent, is open half a second later."""
    client.create(id=name, deadline_s=0.2, name="Mill 1")
    client.round(name, [0.5], 1.0)


# -- the whole way -----------------------------------------------------------------------------------------------------


def test_an_alarm_goes_out_signed_and_by_mail_and_so_does_its_end(tmp_path, receiver, quick):
    mailbox = Mailbox()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = MailServer(mailbox, hostname="127.0.0.1", port=port)
    server.start()
    try:
        mail = f'[[email]]\nhost = "127.0.0.1"\nport = {port}\ntls = "none"\nfrom = "h@plant.example"\n'
        notify = file_of(tmp_path, receiver.url, mail + 'to = ["a@plant.example", "b@plant.example"]\n')
        with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
            silent_controller(client)
            wait_for(lambda: receiver.got and mailbox.mails, "somebody to be told")
            client.do("mill", "ask", context=[0.5])
            wait_for(lambda: "cleared" in receiver.events("silent"), "its end to be told")
            found = client.get("/notifications").json()
            figures = client.get("/metrics").text
    finally:
        server.stop()
    said, headers, body = receiver.got[0]
    assert (said["event"], said["controller"], said["name"], said["kind"]) == ("raised", "mill", "Mill 1", "silent")
    assert "nobody asked within 0.2 s" in said["message"]
    assert headers["Holdcourse-Delivery"] == said["id"]
    at = int(headers["Holdcourse-Signature"].split(",")[0].removeprefix("t="))
    assert abs(at - time.time()) < 60
    proof = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Holdcourse-Signature"] == f"t={at},v1={proof}" == signature(SECRET.encode(), body, at)
    to, mail = mailbox.mails[0]
    assert to == ["a@plant.example", "b@plant.example"]
    assert mail["Subject"] == "[holdcourse] Mill 1: alarm (silent)"
    assert "Nobody asked within 0.2 s" in mail.get_payload()
    assert {target["name"]: target["failing_s"] for target in found["targets"]} == {
        "hook": None,
        "e-mail to a@plant.example": None,
    }
    assert 'holdcourse_notifications_total{target="hook",outcome="sent"} 2' in figures


def test_a_target_that_fails_is_tried_again_and_is_an_alarm(tmp_path, receiver, quick, monkeypatch):
    monkeypatch.setattr(notifications, "UNTOLD_S", 0.3)
    receiver.status = 307  # a redirected POST would be lost
    with served(tmp_path / "data", notify=file_of(tmp_path, receiver.url)) as url, Client(url) as client:
        silent_controller(client)

        def kinds():
            return {alarm["kind"]: alarm for alarm in client.see("mill", "state")["alarms"]}

        wait_for(lambda: "notification" in kinds(), "the alarm that nobody was told")
        assert kinds()["notification"]["message"].startswith("its alarms could not be sent (hook);")
        assert "HTTPError" in client.get("/notifications").json()["targets"][0]["error"]
        assert 'holdcourse_alarm{controller="mill",kind="notification"} 1' in client.get("/metrics").text
        found = client.get("/notifications").json()["targets"][0]
        assert found["failed"] >= 2
        assert found["waiting"] == 1
        assert found["failing_s"] > 0.3
        client.round("mill", [0.4], 1.0)  # nobody waits for the receiver
        receiver.status = 200
        wait_for(lambda: "notification" not in kinds(), "all to be well again")
    assert {body["id"] for body, *_ in receiver.got if body["event"] == "raised" and body["kind"] == "silent"}


def test_a_target_that_works_again_after_a_restart_ends_its_alarm(tmp_path, receiver, quick, monkeypatch):
    monkeypatch.setattr(notifications, "UNTOLD_S", 0.3)
    notify = file_of(tmp_path, receiver.url)

    def kinds(client):
        return [alarm["kind"] for alarm in client.see("mill", "state")["alarms"]]

    receiver.status = 500
    with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
        silent_controller(client)
        wait_for(lambda: "notification" in kinds(client), "the alarm that nobody was told")
        client.do("mill", "archive", reason="out of use")
    receiver.status = 200
    with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
        time.sleep(0.5)
        assert "notification" in kinds(client)  # it is only looked at
        client.do("mill", "restore", reason="in use again")
        wait_for(lambda: "notification" not in kinds(client), "the alarm to be over")


def test_a_restart_neither_forgets_an_alarm_nor_says_it_twice(tmp_path, receiver, quick):
    receiver.status = 500
    notify = file_of(tmp_path, receiver.url)
    with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
        silent_controller(client)
        wait_for(lambda: receiver.got, "a try")
    receiver.status = 200
    receiver.got.clear()
    with served(tmp_path / "data", notify=notify):
        wait_for(lambda: "raised" in receiver.events(), "it to be told after the restart")
        kept = tmp_path / "data" / "notified.json"
        wait_for(lambda: kept.exists() and json.loads(kept.read_text())["said"]["hook"], "it to be kept")
    with served(tmp_path / "data", notify=notify):
        time.sleep(0.5)
    assert receiver.events("silent") == ["raised"]


def test_silences_over_http(tmp_path, receiver, quick):
    with served(tmp_path / "data", notify=file_of(tmp_path, receiver.url)) as url, Client(url) as client:
        until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        client.create(id="mill")

        def post(status, **body):
            answer = client.post("/notifications/silences", json=body)
            assert answer.status_code == status, answer.text
            return answer.json()

        made = post(200, until=until, controller="mill", kind="silent", reason="maintenance")
        assert post(200, until=until, controller="mill", kind="silent", reason="maintenance") == made
        assert "in the future" in post(422, until="2020-01-01T00:00:00Z")["error"]["message"]
        assert "zone" in post(422, until="2020-01-01T00:00:00")["error"]["message"]
        assert "must be one of stale, silent" in post(422, until=until, kind="stael")["error"]["message"]
        for wrong in ("tomorrow", "9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"):
            assert "such as 2026" in post(422, until=wrong)["error"]["message"]
        post(404, until=until, controller="none")
        silent_controller(client, "other")
        client.change("mill", deadline_s=0.2)
        client.round("mill", [0.5], 1.0)
        wait_for(lambda: "silent" in str(client.see("mill", "state")["alarms"]), "the alarm")
        wait_for(lambda: receiver.got, "the alarm of another")
        time.sleep(0.3)
        assert {body["controller"] for body, *_ in receiver.got} == {"other"}
        name = made["silences"][0]["id"]
        assert client.delete(f"/notifications/silences/{name}").status_code == 200
        assert client.delete(f"/notifications/silences/{name}").status_code == 404
        wait_for(lambda: "mill" in {body["controller"] for body, *_ in receiver.got}, "it after the silence")
        assert client.post("/notifications/test").status_code == 200
        wait_for(lambda: "test" in receiver.events(), "the test")


def test_acknowledged_over_http_it_is_not_repeated(tmp_path, receiver, quick):
    notify = file_of(tmp_path, receiver.url, repeat="0.3 s")
    with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
        silent_controller(client)
        wait_for(lambda: receiver.events("silent").count("repeated") >= 2, "it to be repeated")
        seen = client.post("/controllers/mill/alarms/silent/acknowledge", json={})
        if seen.status_code == 404:
            pytest.skip("alarms cannot be acknowledged in this version")
        assert seen.status_code == 200, seen.text
        time.sleep(0.3)
        known = len(receiver.got)
        time.sleep(1.0)
        assert len(receiver.got) == known


def test_a_controller_that_the_file_names_and_that_is_not_there_is_in_the_log(tmp_path, receiver, quick, caplog):
    notify = file_of(tmp_path, receiver.url, 'controllers = ["mill", "kiln", "mil"]\n')
    with served(tmp_path / "data", notify=notify) as url, Client(url) as client:
        client.create(id="mill")
    caplog.clear()
    with served(tmp_path / "data", notify=notify):
        pass
    assert [record.getMessage() for record in caplog.records if "notified" in record.getMessage()] == [
        "hook is to be notified of alarms of kiln, mil, of which there is no record yet; "
        "check the names in the file of --notify"
    ]


def test_without_a_file_nobody_is_told_and_it_says_so(client):
    assert client.get("/notifications").json() == {"targets": [], "silences": []}
    answer = client.post("/notifications/test")
    assert answer.status_code == 422
    assert "a file that says who does: holdcourse serve --notify FILE" in answer.json()["error"]["message"]


# -- what is said when -------------------------------------------------------------------------------------------------


class Heard:
    """A target in this process."""

    called, together = "heard", 50

    def __init__(self):
        self.notices, self.error = [], None

    def wants(self, controller, kind):
        return True

    def send(self, notices):
        if self.error is not None:
            raise self.error
        self.notices += notices

    @property
    def events(self):
        return [notice.event for notice in self.notices]


class Scene:
    """A notifier that is driven by hand."""

    def __init__(self, folder, repeat=60.0):
        self.heard, self.now, self.open = Heard(), 1_000_000.0, []
        self.file = NotifyFile.model_construct(repeat=repeat, say_cleared=True, webhook=(self.heard,), email=())
        self.folder, self.unknown = folder, set()
        self.begin()

    def begin(self):
        self.notifier = Notifier(self.file, self.folder, lambda: (self.open, self.unknown), wall=lambda: self.now)
        (self.outbox,) = self.notifier.outboxes.values()

    def step(self, seconds=1.0):
        self.now += seconds
        self.notifier.look()
        return self.notifier.deliver(self.outbox)


def alarm(kind="stale", controller="mill", at="2026-01-01T00:00:00+00:00", acknowledged=False):
    return OpenAlarm(controller, controller, kind, f"{kind} it is", at, acknowledged)


def test_it_is_repeated_until_somebody_acknowledges_it(tmp_path):
    scene = Scene(tmp_path)
    scene.open = [alarm()]
    for _ in range(130):
        scene.step()
    assert scene.heard.events == ["raised", "repeated", "repeated"]
    assert len({notice.id for notice in scene.heard.notices}) == 3
    scene.open = [alarm(acknowledged=True)]
    for _ in range(130):
        scene.step()
    assert len(scene.heard.notices) == 3
    scene.open = []
    scene.step()
    assert scene.heard.events[-1] == "cleared"
    scene.step()
    assert len(scene.heard.notices) == 4
    scene.open = [alarm(at="2026-01-02T00:00:00+00:00")]  # a new one of its kind
    scene.step()
    assert scene.heard.events[-1] == "raised"


def test_one_that_is_acknowledged_before_anybody_was_told_is_not_told(tmp_path):
    scene = Scene(tmp_path)
    scene.heard.error = OSError("away")
    scene.open = [alarm()]
    assert not scene.step()
    scene.open = [alarm(acknowledged=True)]
    scene.heard.error = None
    scene.step()
    assert scene.heard.notices == []


def test_one_that_is_over_before_it_could_be_told_is_told_once(tmp_path):
    scene = Scene(tmp_path)
    scene.heard.error = OSError("away")
    scene.open = [alarm()]
    scene.step()
    scene.open, scene.heard.error = [], None
    scene.step()
    scene.step()
    assert scene.heard.events == ["cleared"]


def test_the_queue_is_bounded_and_nothing_open_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(notifications, "MOST_WAITING", 10)
    scene = Scene(tmp_path)
    scene.heard.error = OSError("away")
    scene.open = [alarm(controller=f"c{k}") for k in range(35)]
    for _ in range(5):
        scene.step()
    assert len(scene.outbox.waiting) == 10
    assert scene.outbox.counts["dropped"] > 0
    scene.heard.error = None
    for _ in range(5):
        scene.step()
    assert sorted(notice.controller for notice in scene.heard.notices) == sorted(f"c{k}" for k in range(35))


def test_silence_by_kind_ends_at_its_time(tmp_path):
    scene = Scene(tmp_path)
    until = datetime.fromtimestamp(scene.now + 10, UTC).isoformat()
    scene.notifier.silence(until, None, "stale", "maintenance", "somebody")
    scene.begin()  # it is kept
    scene.open = [alarm(), alarm("sensor")]
    for _ in range(5):
        scene.step()
    assert [notice.kind for notice in scene.heard.notices] == ["sensor"]
    for _ in range(10):
        scene.step()
    assert [notice.kind for notice in scene.heard.notices] == ["sensor", "stale"]


def test_nothing_is_said_to_be_over_while_its_controller_is_not_open(tmp_path):
    scene = Scene(tmp_path)
    scene.open = [alarm()]
    scene.step()
    scene.open, scene.unknown = [], {"mill"}
    scene.step()
    assert scene.heard.events == ["raised"]
    scene.unknown = set()
    scene.step()
    assert scene.heard.events == ["raised", "cleared"]


def test_a_record_that_breaks_again_is_another_alarm(tmp_path):
    scene, broken = Scene(tmp_path, repeat=None), [alarm("broken", at="")]
    for scene.open in (broken, [], broken):
        scene.step()
        scene.begin()  # only a restart opens a record again
        scene.step()
    first, over, again = scene.heard.notices
    assert [first.event, over.event, again.event] == ["raised", "cleared", "raised"]
    assert datetime.fromisoformat(first.at) == datetime.fromisoformat(over.at) < datetime.fromisoformat(again.at)
    assert first.id != again.id


def test_a_damaged_file_of_what_was_said_only_says_it_again(tmp_path, caplog):
    (tmp_path / "notified.json").write_text('{"silences": 3}')
    scene = Scene(tmp_path)
    assert "open alarms are reported again" in caplog.text
    scene.open = [alarm()]
    scene.step()
    assert scene.heard.events == ["raised"]


def test_a_line_break_in_a_name_does_not_get_into_the_head_of_a_mail():
    notice = Notice("1", "raised", "mill", "Mill\r\nBcc: x@y.example", "stale", "words", "now")
    assert "\n" not in notice.words


def test_a_notice_is_made_of_whole_sentences():
    """Of an alarm that is over nobody should think that there is something to do."""
    events = ("raised", "repeated", "cleared")
    said = {event: Notice("1", event, "mill", "Mill 1", "stale", "no reading; report it", "now") for event in events}
    assert {event: f"{notice.words}. {notice.sentence}" for event, notice in said.items()} == {
        "raised": "[holdcourse] Mill 1: alarm (stale). No reading; report it.",
        "repeated": "[holdcourse] Mill 1: alarm still open (stale). No reading; report it.",
        "cleared": "[holdcourse] Mill 1: alarm over (stale). The alarm was: No reading; report it.",
    }


def test_the_file_on_the_page_is_whole(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
    (shown,) = (
        block for block in re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if "repeat" in block
    )
    for name in ("webhook.secret", "mail.password"):
        (tmp_path / name).write_text(SECRET)
    (tmp_path / "notify.toml").write_text(shown)
    file = load_notify(tmp_path / "notify.toml")
    assert [target.called for target in file.targets] == ["webhook example.com", "e-mail to control-room@example.com"]
    assert file.targets[0].wants("turbine-1", "stale")
    assert not file.targets[0].wants("turbine-1", "sensor")
    assert not file.targets[0].wants("turbine-2", "stale")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nobody would receive alarms: give a section [[webhook]] or [[email]]"),
        ('[[webhook]]\nurl = "ftp://x"', "must look like https://example.com/alarms, got 'ftp://x'"),
        (
            '[[webhook]]\nurl = "http://x"\nsecret = "y"',
            "key 'webhook[0].secret' is not known; did you mean 'secret_file'?",
        ),
        ('[[webhook]]\nurl = "http://x"\nsecret_file = "none"', "cannot read"),
        ('[[webhook]]\nurl = "http://x"\nsecret_file = "short"', "but needs 16 or more"),
        (
            '[[webhook]]\nurl = "http://x"\n[[webhook]]\nurl = "http://x"',
            "two targets are called 'webhook x'; give each its own name",
        ),
        ('[[email]]\nhost = "m"\nfrom = "a@b"\nto = ["c"]', "must be addresses like control@example.com, got 'c'"),
        ('[[email]]\nhost = "m"\nfrom = "a@b"\nto = ["c@d"]\nuser = "u"\ntls = "none"', "not sent unencrypted"),
        ('[[email]]\nhost = "m"\nfrom = "a@b"\nto = ["c@d"]\nuser = "u"', "user and password_file belong together"),
        ('[[webhook]]\nurl = "http://x:99999/y"', "must look like https://example.com/alarms"),
        ('[[webhook]]\nurl = "http://x/a b"', "must look like https://example.com/alarms"),
        ('[[webhook]]\nurl = "http://x"\nkinds = ["stael"]', "must be some of stale, silent,"),
        ('repeat = "often"\n[[webhook]]\nurl = "http://x"', "write a time as '1 h', or 'never'"),
        ("repeat =", "notify.toml is not valid TOML: "),
    ],
)
def test_mistakes_in_the_file(tmp_path, text, words):
    (tmp_path / "short").write_text("abc")
    path = tmp_path / "notify.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as error:
        load_notify(path)
    assert words in str(error.value)


def test_kinds_of_alarms_that_people_are_told_of_are_those_that_there_are():
    there_are = get_args(responses.Alarm.model_fields["kind"].annotation)
    assert set(KINDS) == {*there_are, "broken"} - {UNTOLD}
