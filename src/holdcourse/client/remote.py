"""A service and its controllers, as seen from afar: the words of `Controller`, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.client.sending import Sender


@dataclass(frozen=True, eq=False)
class RemoteDecision:
    """What to do this round.

    Attributes
    ----------
    id
        To tell the measurement under.
    round, episode
        Counted from 0.
    epoch
        Which set of actions `action` counts in, from 1; a new one begins when the actions are changed.
    action, value
        What the machine shall do now: the action's index, and its coordinate or label.
    act
        Whether the controller is in charge; if not, this is advice, or what the machine does already.
    mode, reason
        The controller's mode, and why `action` is not its proposal: "override", "observe"; None otherwise.
    proposed
        The policy's own choice; None while the controller only observes.
    probabilities
        As in `Decision`; None while the controller only observes.
    expected_cost
        Service cost that the model expects at `action`, where gains are measured with a minus; None where it cannot
        say.
    proposed_value
        The coordinate or label of `proposed`, as `value` is that of `action`.
    limited_by
        The limit that kept `action` from being what the policy, or an override, wanted; None where none did.
    forced
        The reason given for going to `action` whatever the limits say; None where they hold.

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


def connect(url: str, token: str | None = None, *, patience: float = 60.0, timeout: float = 10.0) -> Service:
    """The service at this address.

    Parameters
    ----------
    url
        As `holdcourse serve` prints it.
    token
        From `holdcourse token make`, where the service asks for one.
    patience
        How many seconds to go on trying while the service cannot be reached.
    timeout
        How many seconds to wait for one answer; `create`, which may have to fit a model, waits for `patience`.

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
        """A summary of every controller that the token may see."""
        listed: list[dict[str, Any]] = self.request("GET", "/controllers")["controllers"]
        return listed

    def create(self, config: Mapping[str, Any]) -> RemoteController:
        """Set up a controller; the same configuration again is fine."""
        made = self.request("POST", "/controllers", dict(config), is_long=True)
        return self.controller(made["id"])

    def controller(self, name: str) -> RemoteController:
        """One of the controllers, by its id."""
        return RemoteController(self, name)

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

        What takes long (`is_long`) is waited for as long as patience lasts: sent again, it would only begin again.
        """
        return self._sender.request(method, path, body, key, is_long=is_long)

    def close(self) -> None:
        """Hang up."""
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
        allowed: ArrayLike | None = None,
        forecast: Any = None,
        *,
        round: int | None = None,  # noqa: A002
        key: str | None = None,
    ) -> RemoteDecision:
        """Decide the next round; see `Controller.ask`.

        Parameters
        ----------
        key
            Names this question for good: asked again under the same key, even after a restart of the client, it gets
            the same decision. By default a new one for every call.
        """
        body = {
            "context": _plain(context),
            "allowed": None if allowed is None else [bool(each) for each in np.asarray(allowed)],
            "forecast": _plain(forecast),
            "round": round,
        }
        answer = self._post("ask", body, key or uuid.uuid4().hex)
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
        )

    def tell(
        self, decision_id: str, measurement: float | None, applied: int | None = None, *, epoch: int | None = None
    ) -> None:
        """Say what was measured, or None; telling the same again is fine.

        Where the actions may have been changed meanwhile, `epoch` says in which set `applied` counts.
        """
        body = {"decision": decision_id, "applied": applied, "epoch": epoch}
        if measurement is None:
            self._post("skip", body)
        else:
            self._post("tell", {**body, "measurement": float(measurement)})

    def override(self, action: int | None, reason: str = "", *, force: bool = False) -> dict[str, Any]:
        """Hold the machine at an action, or as near as limits permit; with None let the policy decide again.

        With `force` it goes there whatever mask and limits say; that needs a reason, which is recorded and shown.
        """
        return self._post("override", {"action": action, "reason": reason, "force": force}, uuid.uuid4().hex)

    def new_episode(self, start: int, *, force: str | None = None) -> dict[str, Any]:
        """End the episode; the next one begins at `start`. `force` is the reason for a start beyond the limits."""
        body = {"start": start, "force": force is not None, "reason": force or ""}
        return self._post("episode", body, uuid.uuid4().hex)

    def mode(self, mode: str, reason: str = "") -> dict[str, Any]:
        """Switch to "observe", "shadow", "advise" or "act"."""
        return self._post("mode", {"mode": mode, "reason": reason}, uuid.uuid4().hex)

    def state(self) -> dict[str, Any]:
        """What it does now, and how it has done so far."""
        return self._get("state")

    def decisions(self, after: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Decisions with what was told about them: those after a round, or the newest."""
        since = "" if after is None else f"after={after}&"
        rows: list[dict[str, Any]] = self._get(f"decisions?{since}limit={limit}")["decisions"]
        return rows

    def explain(self, decision_id: str) -> dict[str, Any]:
        """Why a decision was taken; its "words" say it in a few sentences."""
        return self._get(f"explain/{quote(decision_id, safe='')}", is_long=True)

    def verify(self) -> dict[str, Any]:
        """Check the record from its first event to its last."""
        return self._get("verify", is_long=True)

    def _post(self, what: str, body: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        return self.service.request("POST", f"/controllers/{quote(self.id, safe='')}/{what}", body, key)

    def _get(self, what: str, *, is_long: bool = False) -> dict[str, Any]:
        return self.service.request("GET", f"/controllers/{quote(self.id, safe='')}/{what}", is_long=is_long)

    def __repr__(self) -> str:
        return f"RemoteController({self.id!r} at {self.service.url})"


def _plain(value: Any) -> Any:
    """Numbers and arrays of any kind as JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
