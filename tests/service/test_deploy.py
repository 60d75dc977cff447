"""The files of examples/deploy: they can be read, and the commands in them are ones that we take."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from holdcourse.cli import serve, tokens

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
UNIT_KEYS = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec"},
    "Service": {
        "User",
        "EnvironmentFile",
        "Environment",
        "ExecStart",
        "Restart",
        "RestartSec",
        "CacheDirectory",
        "NoNewPrivileges",
        "ProtectSystem",
        "ProtectHome",
        "PrivateTmp",
    },
    "Install": {"WantedBy"},
}


def parsed(words):
    """The options of a command line of ours, as it would take them; an error where it would not."""
    assert words[0].rpartition("/")[2] == "holdcourse"
    module, name, given = (serve, "serve", words[2:]) if words[1] == "serve" else (tokens, words[2], words[3:])
    command = typer.main.get_command(module.app).commands[name]
    return command.make_context(words[1], list(given)).params


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_compose_file_names_only_what_it_defines(compose):
    assert set(compose["services"]) == {"database", "one", "two", "proxy"}
    for service in compose["services"].values():
        assert {"image", "build"} & set(service)
        assert set(service.get("depends_on", ())) <= set(compose["services"])
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        for volume in service.get("volumes", ()):
            name = volume.partition(":")[0]
            assert name in compose["volumes"] or (DEPLOY / name).exists()


def test_the_servers_of_the_compose_file_start_as_we_would_start_them(compose, monkeypatch):
    addresses = []
    for name in ("one", "two"):
        service = compose["services"][name]
        shell, flag, script = service["command"]
        assert (shell, flag) == ("sh", "-c")
        setting, _, command = script.replace("$$", "$").partition("exec ")
        assert setting.startswith('HOLDCOURSE_DATABASE="postgresql://holdcourse:$(cat /run/secrets/database)@database/')
        for variable, value in service["environment"].items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setenv("HOLDCOURSE_DATABASE", "postgresql://holdcourse:x@database/holdcourse")
        options = parsed(shlex.split(command))
        assert options["database"].startswith("postgresql://")
        assert options["data"] is None
        assert str(options["token_file"]) == "/etc/holdcourse/tokens.json"
        addresses.append(options["address"])
    assert addresses == ["http://one:8000", "http://two:8000"]


def test_the_command_that_makes_the_first_token_is_one(compose):
    (line,) = re.findall(r"one (holdcourse token make .*)", (DEPLOY / "compose.yaml").read_text())
    assert list(parsed(shlex.split(line))["scope"]) == ["admin"]  # a tuple in older versions


def test_the_proxy_knows_the_servers_of_the_compose_file(compose):
    text = (DEPLOY / "nginx.conf").read_text()
    assert re.findall(r"server (\w+):8000", text) == ["one", "two"]
    assert text.count("{") == text.count("}")


def test_the_unit_of_systemd():
    path = DEPLOY / "holdcourse@.service"
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    unit.read(path)
    assert {section: set(unit[section]) for section in unit.sections()} == UNIT_KEYS
    words = shlex.split(unit["Service"]["ExecStart"].replace("%i", "8001").replace("%H", "plant-1"))
    options = parsed(words)
    assert (options["port"], options["address"], options["lease"]) == (8001, "http://plant-1:8001", 10.0)
    if shutil.which("systemd-analyze") is None:
        return
    run = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert "Unknown" not in run.stderr
