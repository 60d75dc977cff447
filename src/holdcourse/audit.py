"""What a record of decisions proves, and what another policy would have done with it.

Examples
--------
>>> import holdcourse as hc
>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> path = folder.name + "/valve.log"
>>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])), log=path) as controller:
...     for load in (0.2, 0.4, 0.6):
...         controller.tell(controller.ask(context=load).id, 1.0 - load)
>>> found = hc.audit.verify(path)
>>> found.decisions, found.verified
(3, True)
>>> folder.cleanup()
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdcourse import archive, recipe
from holdcourse.costs import maximises
from holdcourse.decision import Record
from holdcourse.errors import InvalidInput
from holdcourse.log import Event, Log, versions
from holdcourse.offline import Path as Bill
from holdcourse.offline import optimal_path, price_path
from holdcourse.pilot import Pilot
from holdcourse.policy import Learning, Policy
from holdcourse.request import Request
from holdcourse.session import Session

# What to do with a record that does not hold its policy.
VERIFIED = "make it there as it was made for the record, and check: holdcourse.audit.verify(path, policy)"
REPLAYED = "replay is for the policies that a record can hold; holdcourse.audit.verify(path, policy) checks this one"
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True)
class Verification:
    """What came of deciding every recorded round again.

    Attributes
    ----------
    decisions, tells
        How many the record holds.
    differences
        What came out differently; empty when the record is verified.
    versions
        Parts whose version is not the one that wrote the record: name, then, now. They explain differences.
    """

    decisions: int
    tells: int
    differences: tuple[str, ...]
    versions: tuple[tuple[str, str, str], ...]

    @property
    def verified(self) -> bool:
        """Whether every decision came out bit-identical."""
        return not self.differences


def verify(path: str | Path, policy: Policy | None = None) -> Verification:
    """Decide every recorded round again, from the beginning, and compare to the last bit.

    `policy` is needed only where the record cannot make it by itself (a prior mean that is a function, say).
    """
    log = Log.read(Path(path))
    try:
        session = _from_beginning(log, policy)
        differences: list[str] = []
        counts = Counter[str]()
        for event in log.events():
            differences += session.repeat(event.kind, event.body)
            counts[event.kind] += 1
        return Verification(counts["ask"], counts["tell"], tuple(differences), tuple(_other_versions(log)))
    finally:
        log.close()


def rebuilt(log: Log, policy: Policy, asked: Event) -> Record:
    """A decision with all that explains it, by living again through the record from the last snapshot before it."""
    session = Session.of_identity(policy, log.about["identity"])
    position, content = log.newest_snapshot(at_most=asked.number - 1)
    session.restore(*archive.unpack(content, f"a snapshot in {log.path}"))
    for event in log.events(after=position):
        session.repeat(event.kind, event.body)
        if event.number == asked.number:
            break
    return session.record(f"r{asked.body['round']}")


@dataclass(frozen=True)
class Replay:
    """What another policy would have done in the recorded contexts. All costs are the record's own model's.

    Attributes
    ----------
    rounds
        How many were replayed: the recorded ones up to the first new episode, if there is one.
    recorded, other, optimum
        Bills by the model: of the actions that were really taken, of the other policy, and of perfect foresight.
    measured
        Sum of the measurements told, and how many.
    """

    rounds: int
    recorded: Bill
    other: Bill
    optimum: Bill
    measured: tuple[float, int]


def replay(path: str | Path, maker: str) -> Replay:
    """What another policy would have done, estimated by the model that the recorded policy ended with.

    `maker` is its name, such as "cgp-lcb" or "cgp_lcb".

    The other policy gets the recorded contexts and masks, is told what the model expects at its own actions, and has
    the recorded policy's options as far as it takes them. This is an estimate: the record knows only the costs of the
    actions that were taken.
    """
    log = Log.read(Path(path))
    try:
        session = _from_beginning(log, recipe.make(_recipe(log, REPLAYED)))
        first = session.pilot.state
        requests: list[Request] = []
        measured: list[float] = []
        ran: dict[str, int] = {}  # by the id of the decision: the action that the machine really took
        for event in log.events():
            if event.kind == "episode" and requests:
                break
            session.repeat(event.kind, event.body)
            if event.kind == "episode":  # nothing was decided before it
                first = session.pilot.state
            elif event.kind == "ask":
                requests.append(Request.from_data(event.body["request"]))
                ran[f"r{event.body['round']}"] = event.body.get("order", event.body)["action"]
            elif event.kind == "redirect":
                ran[f"r{event.body['round']}"] = event.body["order"]["action"]
            elif event.kind == "tell" and event.body["applied"] is not None:
                ran[event.body["id"]] = event.body["applied"]
            if event.kind in ("tell", "learn") and event.body["measurement"] is not None:
                measured.append(event.body["measurement"])
        problem = session.policy.problem
        if not requests:
            raise InvalidInput(f"{path} holds no decision yet; there is nothing to replay")
        model = session.pilot.model
        expected = np.array([model.estimate(request.context, request.costs).expected for request in requests])
        costs = np.where([request.mask(problem.n) for request in requests], expected, np.inf)
        other = Pilot(_other(log, maker), first.action, first.seed)
        # Estimates are costs; who measures gains is told gains.
        told = -expected if maximises(other.model) else expected
        chosen = []
        for t, request in enumerate(requests):
            _, view = other.look(request.context, request.mask(problem.n), request.forecast, told[t])
            choice = other.decide(view)
            other.accept(choice)
            other.learn(choice.action, request.context, float(told[t, choice.action]))
            chosen.append(choice.action)
        return Replay(
            len(requests),
            price_path(list(ran.values()), expected, problem, first.action),
            price_path(chosen, expected, problem, first.action),
            optimal_path(costs, problem, first.action),
            (float(sum(measured)), len(measured)),
        )
    finally:
        log.close()


def _from_beginning(log: Log, policy: Policy | None) -> Session:
    """The session as it was before the first event."""
    identity = log.about["identity"]
    if policy is None:
        policy = recipe.make(_recipe(log, VERIFIED))
    if policy.fingerprint != identity["policy"]:
        raise InvalidInput(
            f"{log.path} was written by {identity['policy_name']}, fingerprint {identity['policy']}; "
            f"the policy given is {policy.name}, {policy.fingerprint}"
        )
    session = Session.of_identity(policy, identity)
    session.restore(*archive.unpack(log.newest_snapshot(at_most=0)[1], f"the first snapshot in {log.path}"))
    return session


def _recipe(log: Log, remedy: str) -> dict[str, Any]:
    found: dict[str, Any] | None = log.about["recipe"]
    if found is None:
        raise InvalidInput(f"{log.path} does not hold its policy ({log.about['recipe_missing']}); {remedy}")
    return found


def _other(log: Log, maker: str) -> Policy:
    found = _recipe(log, REPLAYED)
    made_by = maker.replace("-", "_")
    if made_by not in recipe.MAKERS:
        known = ", ".join(name.replace("_", "-") for name in sorted(recipe.MAKERS))
        raise InvalidInput(f"policy {maker!r} is not known; there are {known}")
    own = inspect.signature(recipe.MAKERS[made_by]).parameters
    learned = Learning.__annotations__ if "learning" in own else {}
    taken = {name: value for name, value in found["options"].items() if name in own or name in learned}
    needed = [name for name, option in own.items() if option.default is option.empty and option.kind in NAMED]
    missing = [name for name in needed if name not in ("problem", *taken)]
    if missing:
        needs = ", ".join(missing)
        raise InvalidInput(f"policy {maker!r} needs {needs}, which {log.path} does not say; replay another one")
    return recipe.make({**found, "policy": made_by, "options": taken})


def _other_versions(log: Log) -> Iterator[tuple[str, str, str]]:
    here = versions()
    for name, then in log.about["versions"].items():
        if then != here.get(name):
            yield name, then, here.get(name, "none")
