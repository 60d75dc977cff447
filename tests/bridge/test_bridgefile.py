"""A bridge file says in one line what is wrong with it, and how to mend that."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from holdcourse.bridge.bridgefile import load_bridge
from holdcourse.errors import InvalidInput

EXAMPLES = Path(__file__).parents[2] / "examples"
GOOD = """
controller = "mill"
period = "15 min"
[service]
url = "http://127.0.0.1:8000"
[opcua]
url = "opc.tcp://10.0.0.5:4840"
[[contexts]]
name = "load"
node = "ns=2;s=Load"
[measurement]
node = "ns=2;s=Power"
[setpoint]
node = "ns=2;s=SetPoint"
low = 0
high = 100
[heartbeat]
node = "ns=2;s=Heartbeat"
[control]
node = "ns=2;s=Control"
"""


def loaded(tmp_path, text):
    path = tmp_path / "mill.toml"
    path.write_text(text)
    return load_bridge(path)


def test_a_good_file_and_its_defaults(tmp_path):
    file = loaded(tmp_path, GOOD)
    assert (file.period, file.heartbeat.every, file.measurement.over_the_round) == (900.0, 1.0, "mean")
    assert set(file.points()) == {"context load", "measurement", "setpoint", "heartbeat", "control"}
    assert [file.may_write(value) for value in (0, 100, 100.1, -1, "high")] == [True, True, False, False, True]


@pytest.mark.parametrize("name", ["bridge_opcua.toml", "bridge_mqtt.toml"])
def test_the_examples_are_whole(name):
    assert load_bridge(EXAMPLES / name).controller


def test_the_file_on_the_page_is_whole(tmp_path):
    page = (EXAMPLES.parent / "docs" / "how-to" / "wire-it-in.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^ *```toml\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    file = loaded(tmp_path, textwrap.dedent(shown))
    assert (file.controller, file.period, file.safe.setpoint) == ("mill", 900.0, 30)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"15 min"', '"soon"', "period: 'soon' must begin with a number; write a time as '15 min'"),
        ('"15 min"', "0", "period must be more than 0, got 0"),
        ('"15 min"', '"3 km"', "period"),
        ("http://127.0.0.1:8000", "127.0.0.1", "service.url must look like http://127.0.0.1:8000, got '127.0.0.1'"),
        ("opc.tcp://", "http://", "opcua.url must look like opc.tcp://10.0.0.5:4840"),
        ("[opcua]", '[opcua]\nsecurity = "Basic256Sha256,Sign"', "opcua.security must name a policy, a mode, our cert"),
        (
            "[opcua]",
            '[opcua]\nsecurity = "Sha1,Sign,a,b"',
            "has the policy 'Sha1', but it must be one of Basic256Sha256",
        ),
        (
            "[opcua]",
            '[opcua]\nsecurity = "Basic256,No,a,b"',
            "has the mode 'No', but it must be SignAndEncrypt or Sign",
        ),
        ("[measurement]\nnode", "[measurement]\nnod", "key 'measurement.nod' is not known; did you mean 'node'?"),
        ("[measurement]\nnode", "[measurement]\ntopic", "measurement needs a node, because the plant speaks OPC UA"),
        (
            '[control]\nnode = "ns=2;s=Control"',
            "",
            "the file does not say what happens when a connection is lost: give",
        ),
        ('[opcua]\nurl = "opc.tcp://10.0.0.5:4840"', "", "give exactly one of the sections [opcua] and [mqtt]"),
        ("[heartbeat]", '[heartbeat]\nevery = "10 min"', "heartbeat.every must be at most a quarter of the period"),
        (
            "[control]",
            "[safe]\nsetpoint = 101\n[control]",
            "safe.setpoint 101 is not between setpoint.low and setpoint.high",
        ),
        ("low = 0", "low = 0\nfactor = 0", "setpoint.factor must not be 0"),
        ('name = "load"', 'name = "load"\nlow = 2\nhigh = 1', "low must be below high, got 2 and 1"),
        ("[measurement]", '[[contexts]]\nname = "load"\nnode = "x"\n[measurement]', "two contexts are called 'load'"),
        ("controller =", "time = true\ncontroller =", "leave out [[contexts]]"),
        ('[heartbeat]\nnode = "ns=2;s=Heartbeat"', "", "key 'heartbeat' is missing"),
        ("[service]", '[service]\ntoken_file = "a"\ntoken_env = "B"', "give token_file or token_env, not both"),
        ("controller =", "controller ==", "mill.toml is not valid TOML: "),
        ('"mill"', '"../mill"', "controller must be 1 to 64 small letters"),
        ("ns=2;s=Heartbeat", "ns=2;s=SetPoint", "setpoint and heartbeat are both 'ns=2;s=SetPoint'"),
        ("ns=2;s=Control", "ns=2;s=Load", "control and context load are both 'ns=2;s=Load'"),
        ("[control]", '[advice]\nnode = "ns=2;s=SetPoint"\n[control]', "give each a node or topic of its own"),
        ("low = 0", "low = 200", "setpoint: low must be below high, got 200 and 100"),
        ("low = 0", "low = nan", "low and high must be numbers, got nan"),
        ("low = 0", "tolerance = inf", "setpoint.tolerance must be"),
        (
            "low = 0\nhigh = 100",
            "[safe]\nsetpoint = nan",
            "safe.setpoint must be a number that a machine can be set to",
        ),
    ],
)
def test_mistakes_are_named_with_the_remedy(tmp_path, old, new, words):
    assert old in GOOD
    with pytest.raises(InvalidInput) as error:
        loaded(tmp_path, GOOD.replace(old, new))
    assert words in str(error.value)
    assert str(tmp_path / "mill.toml") in str(error.value)
    assert "\n" not in str(error.value)


def test_of_mqtt(tmp_path):
    spoken = GOOD.replace("node =", "topic =").replace("ns=2;s=", "plc/")
    spoken = spoken.replace('[opcua]\nurl = "opc.tcp://10.0.0.5:4840"', '[mqtt]\nhost = "broker"')
    with pytest.raises(InvalidInput, match=r"leave \[control\] out"):
        loaded(tmp_path, spoken)
    spoken = spoken.replace('[control]\ntopic = "plc/Control"', "")
    with pytest.raises(InvalidInput, match=r"needs \[setpoint.read_back\] topic"):
        loaded(tmp_path, spoken)
    spoken = spoken.replace("low = 0", 'low = 0\nread_back.topic = "plc/taken"')
    assert loaded(tmp_path, spoken).setpoint.read_back.stale_after is None
    with pytest.raises(InvalidInput, match="must be one topic"):
        loaded(tmp_path, spoken.replace("plc/Load", "plc/#"))
    with pytest.raises(InvalidInput, match=r"setpoint and setpoint.read_back are both"):  # it would hear itself
        loaded(tmp_path, spoken.replace("plc/taken", "plc/SetPoint"))


def test_of_opcua_the_set_point_may_be_read_back_where_it_is_written(tmp_path):
    file = loaded(tmp_path, GOOD.replace("low = 0", 'low = 0\nread_back.node = "ns=2;s=SetPoint"'))
    assert file.read_back.node == file.setpoint.node


def test_where_the_token_is(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("abc\n")
    (tmp_path / "empty").write_text("\n")

    def token(line):
        return loaded(tmp_path, GOOD.replace("[service]", f"[service]\n{line}")).service.token(tmp_path)

    assert token("") is None
    assert token('token_file = "secret"') == "abc"
    monkeypatch.setenv("MILL_TOKEN", "def")
    assert token('token_env = "MILL_TOKEN"') == "def"
    with pytest.raises(InvalidInput, match="the environment variable OTHER is not set"):
        token('token_env = "OTHER"')
    with pytest.raises(InvalidInput, match="it must contain the token"):
        token('token_file = "empty"')
    with pytest.raises(InvalidInput, match="No such file or directory; it must contain the token"):
        token('token_file = "none"')
