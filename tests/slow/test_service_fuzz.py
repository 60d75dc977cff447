"""Whatever is sent: never a 5xx, always an answer as the OpenAPI description says, and a message with every refusal."""

from __future__ import annotations

import copy
import http.client
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from service.running import KERNEL, Client, Process

from holdcourse.service.core import tokens

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="the slow extra is not installed")
pytest.importorskip("schemathesis", reason="the slow extra is not installed")
pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("HOLDCOURSE_EXAMPLES", "100"))  # of schemathesis, per operation
BODIES = int(os.environ.get("HOLDCOURSE_BODIES", "10000"))
CONNECTIONS = 4
OPTIONS = {"kernel": KERNEL.to_json(), "noise_std": 0.1, "context_bounds": [[0.0, 1.0]]}
CONFIG = {"actions": [0.0, 1.0, 2.0, 3.0], "scale": 0.1, "policy": "gp-md", "options": OPTIONS}


class Guarded:
    """A server with a controller that the description's examples name, and a token for everything."""

    def __init__(self, server, token_file, token):
        self.url, self.token_file, self.token = server.url, token_file, token
        with Client(self.url, token) as client:
            client.create(**CONFIG, id="turbine-1", max_pending=3)
            for _ in range(14):
                decision = client.do("turbine-1", "ask", context=0.5, key=f"first{_}")
                client.do("turbine-1", "tell", decision=decision["decision"], measurement=1.0)
            self.description = client.get("/openapi.json").json()

    def operations(self):
        for path, methods in self.description["paths"].items():
            for method in methods:
                yield method.upper(), path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    _, secret = tokens.make(folder / "tokens.json", "everything", ["admin"], ["*"])
    with Process(folder / "data", "--token-file", str(folder / "tokens.json")) as server:
        yield Guarded(server, folder / "tokens.json", secret)
        assert server.started.poll() is None, "the server is gone"


# -- schemathesis ------------------------------------------------------------------------------------------------------


def test_schemathesis_finds_nothing(guarded, tmp_path, record_property):
    """All its checks but one: what JSON Schema allows may still be refused, since it cannot say how fields depend."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{guarded.url}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {guarded.token}"]
    command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
    command += ["--max-examples", str(EXAMPLES), "--seed", "1", "--request-timeout", "60", "--no-color"]
    command += ["--exclude-path-regex", "events$"]  # streams, which have no end
    tried = [path for _, path in guarded.operations() if not path.endswith("events")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    record_property("schemathesis", " ".join(re.findall(r"^\s+(\d+ generated.*)$", done.stdout, re.MULTILINE)))
    tested = re.search(r"Tested:\s+(\d+)", done.stdout)
    assert int(tested[1]) == len(tried)


def test_the_description_says_every_bound_in_the_words_of_json_schema(guarded):
    def words(part):
        if isinstance(part, dict):
            for name, value in part.items():
                yield name
                if name not in ("properties", "example", "examples", "default"):
                    yield from words(value)
                elif name == "properties":
                    for each in value.values():
                        yield from words(each)
        elif isinstance(part, list):
            for each in part:
                yield from words(each)

    assert not {"ge", "gt", "le", "lt", "strict"} & {*words(guarded.description["components"]["schemas"])}


# -- bodies ------------------------------------------------------------------------------------------------------------


class Raw(str):
    """Goes into the body as it stands, quoted or not, JSON or not."""


NASTY = [
    *(None, True, False, 0, -1, 1, 3, 4, 4999, 5000, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63)),
    *(0.5, -0.5, 1e-300, 5e-324, 1e30, -1e30, 1.0000001e30, 1e308, -1e308, 1.0, -0.0),
    *map(Raw, ("NaN", "Infinity", "-Infinity", "1e999", "1" * 500, "0x10", "01", "'", '"\\ud800"', "nul", "-")),
    *("", " ", "0", "r0", "r12", "r99999999999999999", "null", "a" * 1000, "\x00", "\u202e", "é", "🙂", "../../etc"),
    *([], {}, [[]], [None], [0.5], [0.5] * 300, [[0.5]] * 5, [True] * 4, {"": ""}, {"a": {"b": []}}),
]  # fmt: skip


class Fuzzer:
    """Requests that are nearly right."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed, self.count, self.latest = seed, 0, "r0"

    def request(self):
        """Method, path, the path in the description, headers, body."""
        chance = self.random
        self.count += 1
        method, what, body = chance.choices(self._right_ones(), weights=(12, 10, 4, 3, 3, 3, 4, 3))[0]
        for _ in range(chance.choice((0, 0, 1, 1, 1, 5))):
            body = self._spoilt(copy.deepcopy(body))
        content = self._content(body)
        headers = {"Content-Type": "application/json"}
        if chance.random() < 0.03:
            headers["Content-Type"] = chance.choice(("text/plain", "application/json; charset=utf-16", "", "x"))
        if chance.random() < 0.3:
            headers["Idempotency-Key"] = chance.choice(("k", f"k{self.count}", "a b", "k" * 201, "é", "k" * 200))
        if what == "create":
            return method, "/controllers", "/controllers", headers, content
        name = f"fuzz{self.seed}" if what != "change" else f"changed{self.seed}-{self.count // 400}"
        name = name if chance.random() < 0.97 else chance.choice(("nobody", "A", "%00", "..%2f", "a" * 65))
        end = "" if what == "change" else f"/{what}"
        return method, f"/controllers/{name}{end}", f"/controllers/{{id}}{end}", headers, content

    def _right_ones(self):
        chance = self.random
        decision = self.latest if chance.random() < 0.8 else f"r{chance.randrange(20)}"
        new = f"fuzz{self.seed}" if chance.random() < 0.7 else f"new{self.seed}-{self.count}"
        create = CONFIG | {
            "id": new,
            "start_index": 1,
            "limits": {"min_dwell": 2},
            "history_index": [[0, 0.5, 1.0], [1, 0.2, 2.0]],
        }
        if chance.random() < 0.3:
            create |= {"policy": chance.choice(("stationary", "recommended", "fixed-at", "cgp-lcb")), "options": {}}
        changes = chance.choice(
            (
                {"limits": {"max_step_cost": 0.2}},
                {"actions": [0.0, 0.5, 2.0], "rho": 2.0},
                {"deadline_s": 60, "fallback_index": 1, "units": {"action": "m"}},
                {"policy": "stationary", "options": {"kernel": None, "noise_std": None, "context_bounds": None}},
                {"guard": {"threshold": 5.0, "revert_to_index": 0}},
            )
        )
        forecast = chance.choice((None, [0.1, 0.2], [[0.1], [0.2]]))
        return [
            ("POST", "ask", {"context": chance.random(), "allowed": None, "forecast": forecast, "round": None}),
            ("POST", "tell", {"decision": decision, "measurement": chance.gauss(0, 1), "applied": None}),
            ("POST", "skip", {"decision": decision, "applied_index": 1}),
            ("POST", "override", {"action": chance.choice((None, 1)), "reason": "look"}),
            ("POST", "mode", {"mode": chance.choice(("act", "observe", "shadow", "advise")), "reason": ""}),
            ("POST", "episode", {"start_index": 1}),
            ("POST", "create", create),
            ("PATCH", "change", changes),
        ]

    def _spoilt(self, body):
        chance = self.random
        holder, place = None, None
        part = body
        while isinstance(part, dict | list) and part and (holder is None or chance.random() < 0.5):
            holder = part
            place = chance.choice(list(part)) if isinstance(part, dict) else chance.randrange(len(part))
            part = part[place]
        if holder is None or chance.random() < 0.03:
            return chance.choice(NASTY)
        match chance.randrange(8):
            case 0:
                del holder[place]
            case 1 if isinstance(holder, dict):
                holder[chance.choice(("colour", "", "id", "__class__", "round"))] = chance.choice(NASTY)
            case 2 if isinstance(holder, list):
                holder.extend(holder * chance.choice((1, 50)))
            case 3:
                for _ in range(chance.choice((1, 3, 33))):
                    part = [part] if chance.random() < 0.7 else {"a": part}
                holder[place] = part
            case _:
                holder[place] = chance.choice(NASTY)
        return body

    def _content(self, body):
        chance = self.random
        content = bytearray(_as_text(body).encode("utf-8", "surrogatepass"))
        if chance.random() < 0.15:
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(content) + 1)
                match chance.randrange(4):
                    case 0:
                        del content[at:]
                    case 1:
                        content[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
                    case 2:
                        del content[at : at + chance.randrange(1, 9)]
                    case 3:
                        content[at:at] = chance.choice((b"[" * 40, b'{"a":' * 40, b",", b"}", b"\x00", b"\xff", b"{}"))
        return bytes(content)


def _as_text(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(name))}: {_as_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_text, value)) + "]"
    return json.dumps(value)


class Description:
    """Tells whether an answer is as the OpenAPI description says."""

    def __init__(self, description):
        self._validators = {}
        for path, operations in description["paths"].items():
            for method, operation in operations.items():
                for status, response in operation["responses"].items():
                    schema = response.get("content", {}).get("application/json", {}).get("schema")
                    if schema is not None:
                        whole = {**schema, "components": description["components"]}
                        validator = jsonschema_rs.Draft202012Validator(whole)
                        self._validators[method.upper(), path, int(status)] = validator

    def flaw(self, method, path, status, content):
        """What is wrong with an answer; None if nothing is."""
        if status >= 500:
            return "a server error"
        validator = self._validators.get((method, path, status))
        if validator is None:
            return "a status that is not described"
        try:
            answer = json.loads(content)
        except ValueError:
            return "no JSON"
        wrong = next(iter(validator.iter_errors(answer)), None)
        if wrong is not None:
            return f"not as described: {wrong}"
        if status >= 400 and not answer["error"]["message"]:
            return "no message"
        return None


def fuzzed(guarded, seed, count):
    """Send `count` requests over one connection that stays open; returns statuses, and requests that went wrong."""
    described, fuzzer = Description(guarded.description), Fuzzer(seed)
    statuses, wrong = Counter(), []
    with Client(guarded.url, guarded.token) as client:
        client.create(**CONFIG, id=f"fuzz{seed}", max_pending=5)
    address = urlsplit(guarded.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    for number in range(count):
        if number % 400 == 0:
            with Client(guarded.url, guarded.token) as client:
                client.create(**CONFIG, id=f"changed{seed}-{(fuzzer.count + 1) // 400}", status=201)
        method, path, template, headers, content = fuzzer.request()
        headers["Authorization"] = f"Bearer {guarded.token}"
        if not headers["Content-Type"]:
            del headers["Content-Type"]
        headers = {name: value.encode("utf-8") for name, value in headers.items()}
        connection.request(method, path, content, headers)
        reply = connection.getresponse()
        answer = reply.read()
        statuses[reply.status] += 1
        if reply.status == 200 and template.endswith("/ask"):
            fuzzer.latest = json.loads(answer)["decision"]
        if "..%2f" in path:  # another address, where there is nothing
            flaw = None if reply.status in (404, 405) else f"status {reply.status}"
        else:
            flaw = described.flaw(method, template, reply.status, answer)
        if flaw is not None:
            wrong.append(f"{flaw}: {method} {path} {content[:500]!r} -> {reply.status} {answer[:500]!r}")
    connection.close()
    return statuses, wrong


def test_fuzzed_bodies(guarded, record_property):
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = [BODIES // CONNECTIONS] * CONNECTIONS
        found = list(pool.map(lambda seed: fuzzed(guarded, seed, parts[seed]), range(CONNECTIONS)))
    statuses = sum((counted for counted, _ in found), Counter())
    wrong = [line for _, lines in found for line in lines]
    record_property(f"{BODIES} fuzzed bodies", ", ".join(f"{k}: {v}" for k, v in sorted(statuses.items())))
    assert not wrong, "\n".join([f"{len(wrong)} answers are wrong", *wrong[:10]])
    assert statuses[200] > BODIES / 20  # they are not all turned away at the door
    assert statuses[422] > BODIES / 10
    with Client(guarded.url, guarded.token) as client:
        for summary in client.get("/controllers").json()["controllers"]:
            assert summary["status"] != "broken", summary
        for seed in range(CONNECTIONS):
            found = client.see(f"fuzz{seed}", "verify", full=True)
            assert found["ok"], found["message"]


# -- doors -------------------------------------------------------------------------------------------------------------


def test_every_address_wants_a_token_that_is_for_it(guarded):
    _, other = tokens.make(guarded.token_file, "other", ["ask", "tell"], ["another"])
    _, reads = tokens.make(guarded.token_file, "asks", ["ask"], ["turbine-1"])
    admin_only = {"override", "mode", "episode", "backup", "controllers", "{id}"}
    checked = 0
    for method, path in guarded.operations():
        if path in ("/healthz", "/readyz"):
            continue
        address = path.replace("{id}", "turbine-1").replace("{decision}", "r12")
        body = None if method == "GET" else {"id": "turbine-1"} | CONFIG if path == "/controllers" else {}
        for token in (None, "hc_wrong", "*", guarded.token[:-1], guarded.token + "x", guarded.token.upper()):
            refused(guarded, token, method, address, body, 401)
        if "{id}" in path:
            refused(guarded, other, method, address, body, 403)
        if method != "GET" and path.rpartition("/")[2] in admin_only:
            refused(guarded, reads, method, address, body, 403)
        checked += 1
    assert checked >= 18
    with Client(guarded.url, other) as client:
        assert client.get("/controllers").json() == {"controllers": []}
        assert "turbine-1" not in client.get("/metrics").text


def refused(guarded, token, method, path, body, status):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with Client(guarded.url) as client:
        response = client.request(method, path, headers=headers, json=body)
        assert response.status_code == status, (method, path, token, response.text)
        assert response.json()["error"]["message"]


def test_large_deep_and_endless_bodies_are_refused(guarded):
    headers = {"Content-Type": "application/json"}
    large = [
        (b'{"context": [' + b"0.5, " * 10_485_760 + b"0.5]}", 413),  # 50 MB
        (b'{"context": 0.5}' + b" " * 50 * 2**20, 413),
        (b"[" * 30_000 + b"]" * 30_000, 422),  # within the least length that any address takes
        (b'{"context":' * 33 + b"1" + b"}" * 33, 422),
        (b'{"context": NaN}', 422),
        (b'{"context": [Infinity]}', 422),
        (b'{"forecast": [[-Infinity]]}', 422),
        (b'{"context": 1e400}', 422),
    ]
    with Client(guarded.url, guarded.token) as client:
        before = client.see("turbine-1", "state")["round"]
        bodies = {
            (method.upper(), path): about.get("requestBody", {"content": ()})["content"]
            for path, methods in guarded.description["paths"].items()
            for method, about in methods.items()
        }
        taken = [operation for operation, content in bodies.items() if "application/json" in content]
        assert len(taken) > 20
        for method, path in taken:
            address = path.replace("{id}", "turbine-1").replace("{fleet}", "pumps").replace("{kind}", "silent")
            for content, status in large:
                response = client.request(method, address, content=content, headers=headers)
                assert response.status_code == status, (address, response.text)
                assert response.json()["error"]["message"]
        pieces = (b" " * 2**20 for _ in range(50))  # does not say how long it is
        assert client.post("/controllers/turbine-1/ask", content=pieces, headers=headers).status_code == 413
        assert client.see("turbine-1", "state")["round"] == before
