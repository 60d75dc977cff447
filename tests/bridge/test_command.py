"""The command `holdcourse bridge`, as far as it comes without a plant; with one, see `test_interruptions`."""

from __future__ import annotations

import fcntl
import json

import pytest
from bridge.interrupting import needs
from bridge.rig import free_port
from typer.testing import CliRunner

from holdcourse.cli.root import app
from holdcourse.errors import InvalidInput

FILE = """
controller = "mill"
period = 60
timeout = 0.3
[service]
url = "http://127.0.0.1:{service}"
timeout = 0.3
[opcua]
url = "opc.tcp://127.0.0.1:{plant}"
[measurement]
node = "ns=2;s=Power"
[setpoint]
node = "ns=2;s=SetPoint"
[heartbeat]
node = "ns=2;s=Beat"
[safe]
setpoint = 1.0
"""


@pytest.fixture
def config(tmp_path):
    needs("opcua")
    path = tmp_path / "mill.toml"
    path.write_text(FILE.format(service=free_port(), plant=free_port()))
    return path


def run(*words):
    return CliRunner().invoke(app, ["bridge", *map(str, words)], prog_name="holdcourse")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_check_of_what_is_not_there_fails_in_words(config, as_json):
    shown = run(config, "--check", *(["--json"] if as_json else []))
    assert shown.exit_code == 1
    lines = json.loads(shown.output)["lines"] if as_json else shown.output.splitlines()
    assert any(line.startswith("  WRONG the service: ") for line in lines)
    (plant,) = (line for line in lines if line.startswith("  WRONG the plant: nobody listens at opc.tcp://127.0.0.1:"))
    assert plant.endswith("; check the address and the port, and whether an OPC UA server runs there")
    assert lines[-1] == "2 to correct; nothing was written"


def test_a_second_bridge_on_the_same_file_refuses(config):
    with config.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = run(config)
    assert isinstance(refused.exception, InvalidInput)
    assert f"another bridge is already running with {config}, for mill" in str(refused.exception)


def test_a_file_that_is_wrong_or_missing(config):
    config.write_text(config.read_text().replace("controller", "controler"))
    assert "did you mean 'controller'?" in str(run(config).exception)
    assert "cannot read" in str(run(config.with_name("none.toml")).exception)
