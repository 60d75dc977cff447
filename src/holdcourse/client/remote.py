"""A service and its controllers, as seen from afar: the words of `Controller`, over HTTP."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from holdcourse.checks import one_number
from holdcourse.client.fleet import RemoteFleet
from holdcourse.client.sender import Sender, refusal
from holdcourse.errors import InvalidInput, shown

FIRST_LOOK, LONGEST_LOOK = 0.1, 2.0  # seconds between two looks at a job; doubled in between
OVER = ("done", "failed")
Progress: TypeAlias = Callable[[float, str], None]  # share of the work that is done, and what is being done
INTERRUPTED, TRIES_OF_A_JOB = "interrupted", 3  # the code of a job that the service's end cut off


def _refused(found: Mapping[str, Any]) -> Exception:
    """The error of one of several requests."""
    return refusal(found["status"], {"error": found["error"]}, f"a request to {found['controller']}")


@dataclass(frozen=True, eq=False)
class RemoteDecision:
    """A decision of the service for a round.

    Attributes
    ----------
    id
        Name of the decision, under which the measurement is told.
    round, episode
        Numbers of the round and the episode, counted from 0.
    epoch
        Number of the set of actions to which `action` belongs, from 1; a new one begins when the actions are changed.
    action, value
        What the machine should do now: the action's index, and its coordinate or label.
    act
        Whether the controller is in charge; if not, this is advice, or what the machine does already.
    mode, reason
        The controller's mode, and why `action` is not its proposal: "override", "observe"; None otherwise.
    proposed
        Choice of the policy; None while the controller only observes.
    probabilities
        As in `Decision`; None while the controller only observes.
    expected_cost
        Service cost that the model expects at `action`, or the negative gain if gains are measured; None if it cannot
        say.
    proposed_value
        The coordinate or label of `proposed`, as `value` is that of `action`.
    limited_by
        The limit that prevented what the policy, or an override, wanted; None if none did.
    forced
        Reason given for going to `action` whatever the limits say; None if they apply.
    whose_turn
        "policy" or "baseline" in a trial; None if there is no trial.

    Examples
    --------
    >>> import holdcourse as hc
    >>> which = {"id": "r0", "round": 0, "episode": 0, "epoch": 1}
    >>> advice = {"action": 2, "value": 300.0, "act": False, "mode": "advise", "reason": None, "proposed": 2}
    >>> decision = hc.RemoteDecision(**which, **advice, probabilities=None, expected_cost=1.5)
    >>> decision.act, decision.value  # not in charge: the operator may follow it
    (False, 300.0)
    """

    id: str
    round: int
    episode: int
    epoch: int
    action: int
    value: Any
    act: bool
    mode: str
    reason: str | None
    proposed: int | None
    probabilities: NDArray[np.float64] | None
    expected_cost: float | None
    proposed_value: Any = None
    limited_by: str | None = None
    forced: str | None = None
    whose_turn: str | None = None


def connect(url: str, token: str | None = None, *, patience: float = 60.0, timeout: float = 10.0) -> Service:
    """Return the service at this address.

    Parameters
    ----------
    url
        Address of the service, as `holdcourse serve` prints it.
    token
        Token from `holdcourse token make`, if the service requires one.
    patience
        Seconds to keep trying while the service cannot be reached.
    timeout
        Seconds to wait for one answer. The service does longer work, such as `create` with a long history, in the
        background; the client waits until it is done, however long that takes.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.connect("http://127.0.0.1:8000").controller("mill")
    RemoteController('mill' at http://127.0.0.1:8000)
    """
    return Service(url, token, patience=patience, timeout=timeout)


class Service:
    """A service that hosts controllers; made by `connect`. May be used by several threads.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.connect("http://127.0.0.1:8000")  # nothing is sent until something is asked
    Service(http://127.0.0.1:8000)
    """

    def __init__(self, url: str, token: str | None, *, patience: float, timeout: float) -> None:
        self._sender = Sender(url, token, patience=patience, timeout=timeout)
        self.url = url.rstrip("/")

    def controllers(self) -> list[dict[str, Any]]:
        """Return a summary of every controller that the token may see."""
        listed: list[dict[str, Any]] = self.request("GET", "/controllers")["controllers"]
        return listed

    def create(self, config: Mapping[str, Any], *, progress: Progress | None = None) -> RemoteController:
        """Set up a controller; the same configuration again is fine.

        Parameters
        ----------
        config
            Configuration, as the body of `POST /controllers`.
        progress
            Function that is called, if there is a long history to start from, with the share of the work that is done,
            from 0 to 1, and with what is being done.
        """
        made = self.work("/controllers", dict(config), progress)
        return self.controller(made["id"])

    def work(self, path: str, body: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Send a request that may take long, wait for the job that it starts, and return the answer.

        A request that was cut off because the service stopped is sent again, a few times.
        """
        for left in reversed(range(TRIES_OF_A_JOB)):
            status, answer = self._sender.request("POST", path, body, uuid.uuid4().hex, is_long=True)
            if status != 202:
                return answer
            job = self._followed(answer, progress)
            if job["state"] == "done":
                found: dict[str, Any] = job["result"]
                return found
            if job["error"]["code"] != INTERRUPTED or not left:
                raise refusal(job["status"], {"error": job["error"]}, f"job {job['id']}")
        raise AssertionError  # the last try returned or raised

    def _followed(self, job: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        """Look at a job until it is over."""
        pause, before = FIRST_LOOK, (0.0, "")
        while True:
            now = (job["progress"], job["words"])
            if progress is not None and now != before:
                progress(*now)
            before = now
            if job["state"] in OVER:
                return job
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_LOOK)
            job = self.request("GET", job["address"])

    def jobs(self) -> list[dict[str, Any]]:
        """Return past and present background jobs on controllers that the token may see; the newest last."""
        listed: list[dict[str, Any]] = self.request("GET", "/jobs")["jobs"]
        return listed

    def cancel(self, job: str) -> dict[str, Any]:
        """Cancel a running job by its id: nothing that it did counts."""
        return self.request("DELETE", f"/jobs/{quote(job, safe='')}")

    def create_from_file(self, path: str | Path, controller: str, /, **settings: Any) -> RemoteController:
        """Set up a controller whose policy is in a file, as ``holdcourse backtest --save`` writes it.

        Parameters
        ----------
        path
            Policy file. It contains the settings, how the policy decides and what it has learned.
        controller
            Its id.
        settings
            Other fields of the configuration, as in `create`: name, start, mode, seed, deadline_s, limits, guard, units
            and so on. Limits and units are those of the file unless given.

        Examples
        --------
        >>> import holdcourse as hc
        >>> service = hc.connect("http://127.0.0.1:8000")
        >>> try:
        ...     service.create_from_file("no/such.policy", "kite-1")
        ... except hc.errors.InvalidInput as error:
        ...     print(error)
        cannot read no/such.policy: No such file or directory; check the path
        """
        given = {**settings, "id": controller, "policy_file": _sent(path)}
        return self.create(given)

    def create_from_readings(
        self,
        path: str | Path,
        controller: str,
        /,
        *,
        action: str,
        cost: str,
        context: str,
        reading: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> RemoteController:
        """Set up a controller that starts from a plant's own table: CSV, Excel or Parquet.

        Parameters
        ----------
        path
            The table. Which settings there are, their units and the names of contexts come from it.
        controller
            Its id.
        action, cost, context
            Columns of the setting, of what was measured, and of what was known before, as in `read_readings`.
        reading
            How the table is written, where that is open: time, timezone, decimal, missing and so on.
        progress
            As in `create`.
        settings
            Other fields of the configuration, as in `create`: scale, fixed_cost, limits, policy, mode.

        Examples
        --------
        >>> import holdcourse as hc
        >>> service = hc.connect("http://127.0.0.1:8000")
        >>> try:
        ...     service.create_from_readings("no/such.csv", "mill", action="setting", cost="kWh", context="load")
        ... except hc.errors.InvalidInput as error:
        ...     print(error)
        cannot read no/such.csv: No such file or directory; check the path
        """
        table = {"file": _sent(path), "file_name": Path(path).name}
        columns = {"action": action, "cost": cost, "context": context}
        config = {**settings, "id": controller, "readings": {**(reading or {}), **columns, **table}}
        return self.create(config, progress=progress)

    def ask_many(self, asks: Sequence[Mapping[str, Any]]) -> list[RemoteDecision | Exception]:
        """Ask many controllers in one request; each question is answered on its own.

        Parameters
        ----------
        asks
            For each question the id of its ``controller``, and what `RemoteController.ask` takes: ``context``,
            ``allowed``, ``forecast``, ``round``, ``within``, ``key``.

        Returns
        -------
        list
            In the order of the questions: the decision, or the error that the question alone would have raised.
        """
        items = []
        for each in asks:
            given = dict(each)
            who, key = given.pop("controller"), given.pop("key", None) or uuid.uuid4().hex
            items.append({**_question(**given), "controller": who, "key": key})
        return [
            _decision(found["answer"]) if found["error"] is None else _refused(found)
            for found in self.request("POST", "/ask", {"asks": items})["results"]
        ]

    def tell_many(self, tells: Sequence[Mapping[str, Any]]) -> list[Exception | None]:
        """Tell many controllers what was measured, in one request; each tell is handled on its own.

        Parameters
        ----------
        tells
            For each the id of its ``controller`` and the ``decision``, and what `RemoteController.tell` takes:
            ``measurement``, ``applied``, ``applied_index``, ``epoch``, ``profile``, ``reference``.

        Returns
        -------
        list
            In the order of the tells: None, or the error that the tell alone would have raised.
        """
        items = []
        for each in tells:
            given = dict(each)
            who = given.pop("controller")
            items.append({**_measured(**given), "controller": who})
        results = self.request("POST", "/tell", {"tells": items})["results"]
        return [None if found["error"] is None else _refused(found) for found in results]

    def controller(self, name: str) -> RemoteController:
        """Return one of the controllers, by its id."""
        return RemoteController(self, name)

    def fleets(self) -> list[dict[str, Any]]:
        """Return a summary of every fleet that the token may see."""
        listed: list[dict[str, Any]] = self.request("GET", "/fleets")["fleets"]
        return listed

    def create_fleet(self, config: Mapping[str, Any], *, policy_file: str | Path | None = None) -> RemoteFleet:
        """Set up a fleet; the same configuration again is fine.

        Parameters
        ----------
        config
            Configuration, as the body of `POST /fleets`.
        policy_file
            File with the policy, instead of settings, prices, policy and options.
        """
        file = {} if policy_file is None else {"policy_file": _sent(policy_file)}
        made = self.request("POST", "/fleets", {**config, **file}, is_long=True)
        return self.fleet(made["id"])

    def fleet(self, name: str) -> RemoteFleet:
        """Return one of the fleets, by its id."""
        return RemoteFleet(self, name)

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        *,
        is_long: bool = False,
    ) -> dict[str, Any]:
        """Send a request until it is answered, and return the answer; refusals are raised.

        For a long request (`is_long`) the client waits as long as its patience lasts, because a repeated request would
        start again.
        """
        return self._sender.request(method, path, body, key, is_long=is_long)[1]

    def download(self, path: str, target: str | Path) -> int:
        """Write the content of an address of the service to a file; return the number of bytes."""
        return self._sender.download(path, Path(target))

    def close(self) -> None:
        """Close the connections to the service; a later request opens one again."""
        self._sender.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Service({self.url})"


class RemoteController:
    """A controller of a service; `ask` and `tell` are those of `Controller`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> mill = hc.connect("http://127.0.0.1:1", patience=0.0).controller("mill")
    >>> try:
    ...     mill.ask(context=0.4)
    ... except hc.errors.ServiceError as error:
    ...     print("no service there:", error.status)
    no service there: None
    """

    def __init__(self, service: Service, name: str) -> None:
        self.service, self.id = service, name

    def ask(
        self,
        context: Any = None,
        allowed: Any = None,
        forecast: Any = None,
        *,
        round: int | None = None,  # noqa: A002
        within: tuple[float | None, float | None] | None = None,
        key: str | None = None,
    ) -> RemoteDecision:
        """Decide the next round; see `Controller.ask`.

        Parameters
        ----------
        key
            Key of this question: asked again under the same key, even after a restart of the client, it gets the same
            decision. Default: a new key for every call.
        """
        body = _question(context, allowed, forecast, round, within)
        return _decision(self._post("ask", body, key or uuid.uuid4().hex))

    def tell(
        self,
        decision_id: str,
        measurement: float | None,
        applied: Any = None,
        *,
        epoch: int | None = None,
        applied_index: int | None = None,
        profile: Any = None,
        reference: float | None = None,
    ) -> None:
        """Tell what was measured, or None; telling the same again is fine.

        `applied` is the setting that ran, or `applied_index` its index. If the settings may have been changed in
        between, `epoch` says to which set the index belongs. `profile` and `reference` are as in `Controller.tell`.
        """
        body = _measured(decision_id, measurement, applied, epoch, applied_index, profile, reference)
        self._post("tell" if "measurement" in body or "profile" in body else "skip", body)

    def retract(self, decision_id: str, reason: str) -> dict[str, Any]:
        """Take back what was measured: it no longer counts. Taking it back again for the same reason is fine.

        The service replays the rounds since then; the client waits for that as long as its patience lasts.
        """
        return self._post("retract", {"decision": decision_id, "reason": reason}, is_long=True)

    def override(
        self, setting: Any, reason: str = "", *, force: bool = False, setting_index: int | None = None
    ) -> dict[str, Any]:
        """Hold the machine at a setting, or as near as limits permit; with None let the policy decide again.

        With `force` the machine goes there whatever mask and limits say; that needs a reason, which is recorded and
        shown.
        """
        held = {"setting": _plain(setting), "setting_index": setting_index}
        return self._post("override", {**held, "reason": reason, "force": force}, uuid.uuid4().hex)

    def new_episode(
        self, start: Any = None, *, force: str | None = None, start_index: int | None = None
    ) -> dict[str, Any]:
        """End the episode; the next one begins at the setting `start`, or the one with the index `start_index`.

        `force` is the reason for a start beyond the limits.
        """
        body = {"start": _plain(start), "start_index": start_index, "force": force is not None, "reason": force or ""}
        return self._post("episode", body, uuid.uuid4().hex)

    def mode(self, mode: str, reason: str = "") -> dict[str, Any]:
        """Switch to "observe", "shadow", "advise" or "act"."""
        return self._post("mode", {"mode": mode, "reason": reason}, uuid.uuid4().hex)

    def state(self) -> dict[str, Any]:
        """Return the present state, and figures of the run so far."""
        return self._get("state")

    def decisions(self, after: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Return decisions with what was told about them: those after a round, or the newest."""
        since = "" if after is None else f"after={after}&"
        rows: list[dict[str, Any]] = self._get(f"decisions?{since}limit={limit}")["decisions"]
        return rows

    def explain(self, decision_id: str) -> dict[str, Any]:
        """Return the reasons of a decision; the field "words" contains them in a few sentences."""
        return self._get(f"explain/{quote(decision_id, safe='')}", is_long=True)

    def export(self, path: str | Path) -> int:
        """Write all rounds of all epochs to a file, CSV or Parquet by its name; returns its size in bytes.

        Settings are values, times have the plant's offset from UTC, and headers name the units.

        Examples
        --------
        >>> import holdcourse as hc
        >>> try:
        ...     hc.connect("http://127.0.0.1:8000").controller("mill").export("rounds.xlsx")
        ... except hc.errors.InvalidInput as error:
        ...     print(error)
        rounds are exported to .csv or .parquet; rename 'rounds.xlsx'
        """
        target = Path(path)
        kind = target.suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise InvalidInput(f"rounds are exported to .csv or .parquet; rename {target.name!r}")
        return self.service.download(f"/controllers/{quote(self.id, safe='')}/rounds{kind}", target)

    def acknowledge(self, alarm: str, remark: str = "") -> dict[str, Any]:
        """Say that somebody has seen an open alarm, by its kind; a new one of that kind is not acknowledged."""
        return self._post(f"alarms/{quote(alarm, safe='')}/acknowledge", {"remark": remark}, uuid.uuid4().hex)

    def audit(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return who changed what, when and why; the newest change first."""
        deeds: list[dict[str, Any]] = self._get(f"audit?limit={limit}")["deeds"]
        return deeds

    def verify(self, *, full: bool | None = None, progress: Progress | None = None) -> dict[str, Any]:
        """Check the record from its first event to its last.

        Parameters
        ----------
        full
            Whether every round is decided again, which needs an admin's token. None: if there are few rounds. False:
            the record is only read.
        progress
            As in `Service.create`.
        """
        return self.service.work(self._address("verify"), {"full": full}, progress)

    def plan_trial(
        self,
        *,
        gain: float | None = None,
        hours: float | None = None,
        blocks: Sequence[int] | None = None,
        baseline: Any = None,
        rehearsals: int = 1,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Plan a trial of its policy, in a world fitted to its history and measurements.

        Parameters
        ----------
        gain
            The gain in % of the baseline's bill that the trial must detect; None: the gain in the simulation.
        hours
            Length of a round in hours; None: as in the controller's limits.
        blocks
            Block lengths to compare, in rounds.
        baseline
            Setting to compare with; None: the setting that ran most often.
        rehearsals
            Number of simulated trials, which show what learning from each other's blocks changes.
        progress
            As in `Service.create`.
        """
        wanted = {"gain": gain, "hours": hours, "blocks": None if blocks is None else _plain(list(blocks))}
        body = {**wanted, "baseline": _plain(baseline), "rehearsals": rehearsals}
        return self.service.work(self._address("trial/plan"), body, progress)

    def _post(
        self, what: str, body: Mapping[str, Any], key: str | None = None, *, is_long: bool = False
    ) -> dict[str, Any]:
        return self.service.request("POST", self._address(what), body, key, is_long=is_long)

    def _get(self, what: str, *, is_long: bool = False) -> dict[str, Any]:
        return self.service.request("GET", self._address(what), is_long=is_long)

    def _address(self, what: str) -> str:
        return f"/controllers/{quote(self.id, safe='')}/{what}"

    def __repr__(self) -> str:
        return f"RemoteController({self.id!r} at {self.service.url})"


def _question(
    context: Any = None,
    allowed: Any = None,
    forecast: Any = None,
    round: int | None = None,  # noqa: A002
    within: tuple[float | None, float | None] | None = None,
) -> dict[str, Any]:
    """A question as the service takes it."""
    is_time, has_profiles = isinstance(context, str | datetime | np.datetime64), isinstance(forecast, Mapping)
    return {
        "time" if is_time else "context": _plain(context),
        "allowed": None if allowed is None else _plain(list(allowed)),
        "profiles" if has_profiles else "forecast": _plain(forecast),
        "round": round,
        "within": None if within is None else list(within),
    }


def _decision(answer: Mapping[str, Any]) -> RemoteDecision:
    probabilities = answer.get("probabilities")
    return RemoteDecision(
        id=answer["decision"],
        round=answer["round"],
        episode=answer["episode"],
        epoch=answer["epoch"],
        action=answer["action"],
        value=answer["value"],
        act=answer["act"],
        mode=answer["mode"],
        reason=answer.get("reason"),
        proposed=answer.get("proposed"),
        probabilities=None if probabilities is None else np.array(probabilities, dtype=np.float64),
        expected_cost=answer.get("expected_cost"),
        proposed_value=answer.get("proposed_value"),
        limited_by=answer.get("limited_by"),
        forced=answer.get("forced"),
        whose_turn=(answer.get("turn") or {}).get("whose"),
    )


def _measured(
    decision: str,
    measurement: float | None = None,
    applied: Any = None,
    epoch: int | None = None,
    applied_index: int | None = None,
    profile: Any = None,
    reference: float | None = None,
) -> dict[str, Any]:
    """What was measured as the service takes it; without a measurement and a profile, nothing was."""
    body = {"decision": decision, "applied": _plain(applied), "applied_index": applied_index, "epoch": epoch}
    if measurement is not None:
        body["measurement"] = one_number(measurement, "a measurement")
    if profile is not None:
        try:
            heights, speeds = (profile["heights"], profile["speeds"]) if isinstance(profile, Mapping) else profile
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(f"a profile is a pair of lists, heights and speeds, got {shown(profile)}") from None
        body["profile"] = {"heights": _plain(heights), "speeds": _without_nan(_plain(speeds))}
    if reference is not None and (measurement is not None or profile is not None):
        body["reference"] = one_number(reference, "reference")
    return body


def _sent(path: str | Path) -> str:
    """A file as JSON can hold it."""
    try:
        return base64.b64encode(Path(path).read_bytes()).decode()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}; check the path") from None


def _without_nan(value: Any) -> Any:
    """Null where a number is missing, as JSON has no NaN."""
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and value != value else value


def _plain(value: Any) -> Any:
    """Numbers and arrays of any kind as JSON values."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return f"{value.astype('datetime64[s]')}Z"
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _without_nan(_plain(part)) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
