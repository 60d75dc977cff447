"""A fleet on the other side of HTTP, asked and told like one in the same process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.checks import float_array


class Requests(Protocol):
    """A service, as its fleets see it."""

    url: str

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        *,
        is_long: bool = False,
    ) -> dict[str, Any]:
        """Send a request until it is answered."""
        ...

    def work(
        self, path: str, body: Mapping[str, Any], progress: Callable[[float, str], None] | None = None
    ) -> dict[str, Any]:
        """Send something that may take long, and follow the job that it becomes."""
        ...


@dataclass(frozen=True, eq=False)
class RemoteFleetDecisions:
    """What each member of a fleet should do now; members that were not asked stay where they are.

    Attributes
    ----------
    call
        Number of the call, under which the measurements are told.
    action, setting
        Chosen setting of each member: its index, (count,), and its coordinate or label.
    probabilities
        Probability of each setting, (count, n); None unless they were requested, NaN for members that were not asked.
    expected_cost
        Expected cost of the chosen setting, (count,); None and NaN as for `probabilities`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> import numpy as np
    >>> decisions = hc.RemoteFleetDecisions(call=0, action=np.array([0, 2]), setting=[100.0, 300.0])
    >>> decisions.setting[1]
    300.0
    """

    call: int
    action: NDArray[np.int64]
    setting: list[Any]
    probabilities: NDArray[np.float64] | None = None
    expected_cost: NDArray[np.float64] | None = None


class RemoteFleet:
    """A fleet of a service, by its id; made by `Service.fleet` and `Service.create_fleet`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> hc.connect("http://127.0.0.1:8000").fleet("pumps")
    RemoteFleet('pumps' at http://127.0.0.1:8000)
    """

    def __init__(self, service: Requests, name: str) -> None:
        self.service, self.id = service, name

    def ask(
        self,
        contexts: Any,
        allowed: Sequence[Any] | None = None,
        mask: ArrayLike | None = None,
        call: int | None = None,
        *,
        with_probabilities: bool = False,
    ) -> RemoteFleetDecisions:
        """Decide the next round of every member, or of those in the mask; asking again gives the same answer.

        Parameters
        ----------
        contexts
            Context of each member, (count,) or (count, d); or a single number, or a time, for all.
        allowed
            Settings that all members may choose, or one boolean per setting.
        mask
            Members that are asked, (count,); default: all.
        call
            As in `Fleet.ask`.
        with_probabilities
            Whether the answer should contain probabilities and expected costs.
        """
        parts = ["setting", "action", *(("probabilities", "expected_cost") if with_probabilities else ())]
        body = {**_contexts(contexts), "call": call, "answer": parts}
        if allowed is not None:
            body["allowed"] = [each.tolist() if hasattr(each, "tolist") else each for each in allowed]
        answer = self._post("ask", body | _masked(mask))
        rows, expected = answer.get("probabilities"), answer.get("expected_cost")
        if rows is not None:
            n = max((len(row) for row in rows if row is not None), default=0)
            rows = np.array([[np.nan] * n if row is None else row for row in rows], dtype=np.float64)
        return RemoteFleetDecisions(
            answer["call"],
            np.array(answer["action"], dtype=np.int64),
            answer["setting"],
            rows,
            None if expected is None else np.array(expected, dtype=np.float64),
        )

    def tell(self, measurements: ArrayLike, mask: ArrayLike | None = None, *, call: int) -> None:
        """Tell what the members asked in a call, or those in the mask, measured; telling the same again is fine.

        Parameters
        ----------
        measurements
            Measurement of each member, (count,); NaN if nothing was measured, and for members that are not told.
        mask
            Members that are told, (count,).
        call
            Call in which they were asked, `RemoteFleetDecisions.call`.
        """
        measured = _with_null(float_array(measurements, "measurements"))
        self._post("tell", {"call": call, "measurements": measured} | _masked(mask))

    def state(self) -> dict[str, Any]:
        """Return the present state of the fleet; `next_call` is the number of the next ask."""
        return self.service.request("GET", self._address(""))

    def members(self) -> dict[str, Any]:
        """Return where every member is, and which members wait for a measurement, as lists by name."""
        return self.service.request("GET", self._address("/members"))

    def verify(
        self, *, full: bool | None = None, progress: Callable[[float, str], None] | None = None
    ) -> dict[str, Any]:
        """Check that the record is intact: `ok`, `events` and `message`.

        Parameters
        ----------
        full
            Whether every call is decided again; None: if the record is short. True needs an admin's token.
        progress
            Function that is called with the share of the work that is done, from 0 to 1, and with what is being done.
        """
        return self.service.work(self._address("/verify"), {"full": full}, progress)

    def delete(self, name: str, reason: str) -> dict[str, Any]:
        """Delete the fleet with its record, for good; `name` is its name, typed again."""
        return self.service.request("DELETE", self._address("?" + urlencode({"name": name, "reason": reason})))

    def _post(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.service.request("POST", self._address(f"/{what}"), body, is_long=True)

    def _address(self, what: str) -> str:
        return f"/fleets/{quote(self.id, safe='')}{what}"

    def __repr__(self) -> str:
        return f"RemoteFleet({self.id!r} at {self.service.url})"


def _contexts(given: Any) -> dict[str, Any]:
    """Return contexts as the service takes them."""
    if isinstance(given, datetime):
        return {"time": given.isoformat()}
    if isinstance(given, np.datetime64):
        return {"time": f"{given.astype('datetime64[s]')}Z"}
    if isinstance(given, str):
        return {"time": given}
    contexts = float_array(given, "contexts")
    if contexts.ndim == 0:
        return {"context": float(contexts)}
    if contexts.ndim == 1:
        return {"contexts": _with_null(contexts)}
    return {"contexts": [None if any(x != x for x in row) else row for row in contexts.tolist()]}


def _masked(mask: ArrayLike | None) -> dict[str, Any]:
    return {} if mask is None else {"mask": np.asarray(mask).tolist()}


def _with_null(values: NDArray[np.float64]) -> list[float | None]:
    """Null where a number is missing, as JSON has no NaN."""
    return [None if y != y else y for y in values.tolist()]
