"""The controller: a policy beside a running system, asked and told round by round.

Each `ask` computes a decision without changing anything, commits it to the record if there is one, and only then goes
on; so a failure at any point leaves the state as it was. The steps themselves are those of an `Operation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse import archive
from holdcourse.checks import file_path, flag
from holdcourse.deciding.policy import Policy, require_policy
from holdcourse.deciding.policyfile import Trust
from holdcourse.deciding.promise import Budget
from holdcourse.errors import DamagedFile, InvalidInput
from holdcourse.learning.costs import Calibration, CostModel, calibration_of, maximises
from holdcourse.movement.problem import Problem
from holdcourse.movement.settings import chosen, required
from holdcourse.running import database
from holdcourse.running.decision import Decision, Entry, Explanation, Order, Request
from holdcourse.running.events import Identity, from_plain
from holdcourse.running.identity import differences, in_words, resumed
from holdcourse.running.limits import Guard, Limits, settings_within
from holdcourse.running.log import Log
from holdcourse.running.operation import UNCHANGED, Operation, Recording, Unchanged, check_force
from holdcourse.running.session import Session, Wish
from holdcourse.running.witness import Witness


class Controller:
    """Run a policy at a machine: ask it for decisions and report what was measured, within limits.

    Threads may share a controller: they take turns. Forked processes may not. While it is open, a record belongs to one
    controller; other processes may read it and copy it.

    Settings are named by value or label: one that the problem does not have is an error, and is never taken for an
    index. An index, or an action, is a number 0..n-1.

    Parameters
    ----------
    policy
        The policy, which decides.
    start
        The setting before the first round, by its value or label; by default the first one.
    seed
        Seed of every random number.
    log
        File of the append-only record. If it exists, the controller continues where the record ends.
    limits
        Limits of the machine; see `Limits`.
    guard
        Guard that sends the machine to a safe setting; see `Guard`.
    max_pending
        Number of decisions that may wait for their measurement; if more than one, `ask` needs `round`.
    witness
        Witness of the record's length; see `Witness`.
    start_index
        The setting before the first round by its index, instead of `start`.

    Examples
    --------
    >>> import holdcourse as hc
    >>> controller = hc.Controller(hc.minc_known(hc.Problem([100.0, 200.0, 300.0])), start=100.0)
    >>> decision = controller.ask(context=None, costs=[3.0, 1.0, 2.0])
    >>> decision.value
    200.0
    >>> controller.tell(decision.id, measurement=1.1)
    """

    def __init__(
        self,
        policy: Policy,
        start: Any = None,
        seed: int = 0,
        log: str | Path | None = None,
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        max_pending: int = 1,
        witness: Witness | None = None,
        start_index: int | None = None,
    ) -> None:
        require_policy(policy)
        first = chosen(policy.problem, start, start_index, "start")
        self._operation = Operation.begin(
            policy,
            0 if first is None else first,
            seed,
            None if log is None else file_path(log, "log"),
            limits=limits,
            guard=guard,
            max_pending=max_pending,
            witness=witness,
        )

    @property
    def policy(self) -> Policy:
        """Return the policy, which decides."""
        return self._operation.session.policy

    @property
    def limits(self) -> Limits:
        """Return the limits on what the machine may do."""
        return self._operation.session.limits

    @property
    def guard(self) -> Guard | None:
        """Return the guard, which sends the machine to a safe setting; None if there is none."""
        guard = self._operation.session.guard
        return None if guard is None else guard.in_words_of(self.policy.problem)

    @property
    def max_pending(self) -> int:
        """Return how many decisions may wait for their measurement."""
        return self._operation.session.max_pending

    @property
    def log(self) -> Log:
        """Return the record; it is an error where there is none."""
        return self._operation.log

    @property
    def model(self) -> CostModel:
        """Return what has been learned; it goes on learning, so look at a copy."""
        return self._operation.session.pilot.model

    @property
    def action(self) -> int:
        """Return the action at which the machine is, an index."""
        return self._operation.session.where.action

    @property
    def setting(self) -> Any:
        """Return the setting at which the machine is: its value or label."""
        return self.policy.problem.value(self.action)

    @property
    def round(self) -> int:
        """Return the number of the next round to be decided."""
        return self._operation.session.round

    @property
    def episode(self) -> int:
        """Return the number of the present episode."""
        return self._operation.session.episode

    @property
    def pending(self) -> list[Decision]:
        """Return the decisions that are not told yet, oldest first."""
        return self._operation.pending

    @property
    def promise(self) -> Budget | None:
        """Return the account of the policy's promise against its baseline; None if there is no promise.

        Examples
        --------
        >>> import holdcourse as hc
        >>> controller = hc.Controller(hc.recommended(hc.Problem([0.0, 0.5, 1.0]), at_most=0.02, budget=5.0))
        >>> controller.promise.allowed, controller.promise.left
        (5.0, 5.0)
        """
        return self._operation.promise

    @property
    def calibration(self) -> Calibration | None:
        """Return how well the model agrees with its measurements; None if it trusts them all."""
        return calibration_of(self.model)

    def ask(
        self,
        context: Any = None,
        allowed: Any = None,
        forecast: Any = None,
        *,
        costs: ArrayLike | None = None,
        round: int | None = None,  # noqa: A002
        instructed: Any = None,
        force: str | None = None,
        watching: bool = False,
        instructed_index: int | None = None,
        within: tuple[float | None, float | None] | None = None,
    ) -> Decision:
        """Decide the next round; asking the same again gives the same decision.

        If somebody else decides what the machine does, `action` says afterwards what that is, a `tell` without
        `applied` means that, and limits count from there.

        Parameters
        ----------
        context
            Context, which is what is known now: a number, a list of numbers, or None. For a policy whose contexts are
            times, also a time: a `datetime` or text such as ``"2026-03-01T07:00Z"``.
        allowed
            Settings that may be chosen: a list of settings, or n booleans; default: all.
        forecast
            Contexts expected in the next rounds, for policies that plan; for the wind policy speeds, one row per round
            to come, or a forecast of profiles with `times`, `heights` and `speeds` (see `WindData.forecast`).
        costs
            The true costs, for policies that know them.
        round
            Number of the round; needed only if several decisions may be pending.
        instructed
            The setting that somebody wants instead of the decision. `allowed` and all limits apply to it as well: the
            machine goes as near as it may.
        force
            The reason why the machine is to go to `instructed` whatever mask and limits say; it is recorded.
        watching
            Nobody moves the machine in this round: it stays where it is, whatever is decided.
        instructed_index
            Index of the setting that is wanted, instead of `instructed`.
        within
            Lowest and highest setting that may be chosen now, such as the limits of the airspace; None: no limit. For
            settings that are single numbers.
        """
        if within is not None:
            allowed = _within(self.policy.problem, within, allowed)
        wish = None
        watching = flag(watching, "watching")
        if watching or force is not None or instructed is not None or instructed_index is not None:
            wanted = chosen(self.policy.problem, instructed, instructed_index, "instructed")
            wish = _wish(wanted, force, watching)
        return self._operation.ask(context, allowed, forecast, costs, round, wish)

    def tell(
        self,
        decision_id: str,
        measurement: float | None,
        applied: Any = None,
        *,
        applied_index: int | None = None,
        profile: Any = None,
        reference: float | None = None,
    ) -> None:
        """Tell what was measured; telling the same again is fine.

        Parameters
        ----------
        decision_id
            `Decision.id`.
        measurement
            Measurement, or None if nothing was measured.
        applied
            Setting that really ran, if it was not the decided one; the measurement is learned for it. If there is no
            later decision, the machine is there, and the rule starts again from there.
        applied_index
            Index of the setting that really ran, instead of `applied`.
        profile
            Measurements at other settings at the same time, for policies that learn from them: heights and speeds, as a
            pair of lists. If it covers the setting that ran, it tells the measurement too. Values that were not
            measured may be None or NaN.
        reference
            Signal that varies with the measurement and that no decision affects: a mast, a twin machine. It makes the
            answer of a trial more precise; nothing is learned from it.
        """
        action = chosen(self.policy.problem, applied, applied_index, "applied")
        self._operation.tell(decision_id, measurement, action, profile=profile, reference=reference)

    def retract(self, decision_id: str, reason: str, progress: Callable[[int, int], None] | None = None) -> None:
        """Take back what was measured: it no longer counts, and decisions from now on are as if it had not been told.

        What was decided and done meanwhile stays as it is. All events since a state from before
        the measurement are replayed, which takes about as long as deciding those rounds did. With a `log`
        every measurement can be taken back, without one those of the newest 64 decisions. Taking one back again for the
        same reason is fine; an error changes nothing.

        Parameters
        ----------
        decision_id
            `Decision.id`.
        reason
            Why, in words; it is recorded.
        progress
            Function that is called with the number of events replayed so far and the total.

        Examples
        --------
        >>> import holdcourse as hc
        >>> controller = hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])))
        >>> decision = controller.ask(context=0.2)
        >>> controller.tell(decision.id, 1e6)
        >>> controller.retract(decision.id, "the sensor was unplugged")
        >>> controller.entry(decision.id).retracted
        'the sensor was unplugged'
        """
        self._operation.retract(decision_id, reason, progress)

    def permitted(self, wanted: Any = None, *, wanted_index: int | None = None) -> Order:
        """Return where the machine may go now if somebody wants it at `wanted`, given the newest mask and all limits.

        `wanted` is a setting, or `wanted_index` its index. This changes nothing. If a forbidden setting cannot be left
        within `max_step`, the machine stays.
        """
        return self._operation.permitted(required(self.policy.problem, wanted, wanted_index, "wanted"))

    def redirect(self, wanted: Any = None, *, wanted_index: int | None = None) -> Order:
        """Send the machine elsewhere within the round in progress, as far as `permitted` says.

        `wanted` is a setting, or `wanted_index` its index. A `tell` of that round without `applied` then refers to the
        new setting, and limits count from there. Each redirection is a move of that round.
        """
        return self._operation.redirect(required(self.policy.problem, wanted, wanted_index, "wanted"))

    def new_episode(self, start: Any = None, *, force: str | None = None, start_index: int | None = None) -> None:
        """End the episode. The next one begins at the setting `start`, and limits and guard start again.

        `start_index` is the index of that setting, instead of `start`. A start that was not allowed at the newest
        question, or that is farther than `max_step` from where the machine is, is refused unless `force` says why; the
        reason is recorded.
        """
        self._operation.new_episode(required(self.policy.problem, start, start_index, "start"), force)

    def change(
        self,
        *,
        limits: Limits | Unchanged | None = UNCHANGED,
        guard: Guard | Unchanged | None = UNCHANGED,
        max_pending: int | Unchanged = UNCHANGED,
        scale: Any = None,
        fixed_cost: float | str | None = None,
        metric: ArrayLike | None = None,
    ) -> None:
        """Continue with other limits, another guard or another price of movement; what was learned stays.

        The change is a part of the record, and `verify` follows it. When you open the record later, give the new
        values, or go on from the record alone: `resume`. Arguments that you leave out stay as they are; None removes
        limits or guard. If the price changes, the rule starts again where the machine is, with all that was learned of
        costs; decisions must have been told, and a promise against a baseline begins a new account.

        Parameters
        ----------
        limits, guard, max_pending
            As in `Controller`.
        scale, fixed_cost, metric
            The price of movement, as in `Problem`; `metric` is a matrix, for those who gave one. Of `hc.knobs` only the
            fixed cost can be changed: each knob has a price of its own.

        Examples
        --------
        >>> import holdcourse as hc
        >>> controller = hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0], unit="m")), start=0.5)
        >>> controller.tell(controller.ask(context=0.2).id, 1.0)
        >>> controller.change(limits=hc.Limits(max_step="50 cm"), scale=2.0)
        >>> controller.limits.max_step, controller.policy.problem.distance(0, 1)
        (0.5, 1.0)
        """
        prices = {"scale": scale, "fixed_cost": fixed_cost, "metric": metric}
        given = {name: value for name, value in prices.items() if value is not None}
        self._operation.change(limits, guard, max_pending, given)

    def entry(self, decision_id: str) -> Entry:
        """Return a pending decision, or one of the newest others, with all that explains it."""
        return self._operation.entry(decision_id)

    def explain(self, decision_id: str) -> Explanation:
        """Explain why a decision was taken, as data and in words: bounds, probabilities, movement prices, limits."""
        return self.entry(decision_id).explain(self._shown_problem(), maximise=maximises(self.model))

    def _shown_problem(self) -> Problem:
        """The problem as people read it: with the units that a policy's file names, if it has none of its own."""
        problem, units = self.policy.problem, self.policy.units
        if problem.in_groups or any(problem.units) or problem.cost_unit or problem.actions.shape[1] > 1:
            return problem
        shown = units.get("action", ""), units.get("cost", "")
        return problem.with_units(*shown, problem.context_names, problem.context_units)

    def save(self, path: str | Path) -> None:
        """Write the whole state to a file, atomically. With a `log` this is not needed."""
        self._operation.save(file_path(path))

    def backup(self, path: str | Path) -> None:
        """Write a whole copy of the record to a new file; a plain copy of one in use may miss its newest events."""
        self._operation.backup(file_path(path))

    @classmethod
    def load(cls, path: str | Path, policy: Policy) -> Controller:
        """Continue from the state that `save` wrote to the file `path`; `policy` must be equal to the saved policy."""
        path = file_path(path)
        if database.is_record(path):  # which nobody but SQLite may open
            raise InvalidInput(f"{path} is a record, not a saved state; continue it with Controller(policy, log=path)")
        content = archive.read_file(path)
        state, arrays = archive.unpack(content, str(path))
        found = state.get("identity")
        if state.get("holds") == "policy":
            raise InvalidInput(f"{path} contains a policy, not the state of a controller; read it with hc.load_policy")
        if not isinstance(found, dict):
            raise DamagedFile(f"{path} does not contain a controller; give a file that controller.save wrote")
        identity = from_plain(Identity, found, f"the state in {path}")
        if identity.policy != policy.fingerprint:
            ours = replace(identity, policy=policy.fingerprint)
            words = in_words(list(differences(identity, ours, policy, state.get("recipe"))))
            raise InvalidInput(
                f"{path} was saved by another policy: {words}. Make it with the same problem and options"
            )
        session = Session.of_identity(policy, identity)
        session.restore(state, arrays)
        controller = cls.__new__(cls)  # a session of its own would be made only to be thrown away
        controller._operation = Operation(Recording(session))
        return controller

    @classmethod
    def resume(cls, log: str | Path, *, trust: Trust = (), witness: Witness | None = None) -> Controller:
        """Continue from a record alone, with its policy, limits and guard, changes included.

        Parameters
        ----------
        log
            The record.
        trust
            Import paths of code that is not ours and may be run to make the policy; as in `load_policy`.
        witness
            As in `Controller`.

        Examples
        --------
        >>> import holdcourse as hc
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with hc.Controller(hc.gp_md(hc.Problem([0.0, 0.5, 1.0])), log=folder.name + "/valve.log") as controller:
        ...     controller.tell(controller.ask(context=0.2).id, 1.0)
        ...     controller.change(scale=2.0)
        >>> with hc.Controller.resume(folder.name + "/valve.log") as controller:
        ...     controller.round, controller.policy.problem.distance(0, 1)
        (1, 1.0)
        >>> folder.cleanup()
        """
        remedy = "make it as it was made, and open the record with Controller(policy, log=...)"
        policy, identity = resumed(file_path(log, "log"), trust, remedy)
        controller = cls.__new__(cls)
        controller._operation = Operation.begin(
            policy,
            identity.start,
            identity.seed,
            Path(log),
            limits=identity.limits,
            guard=identity.guard,
            max_pending=identity.max_pending,
            witness=witness,
        )
        return controller

    def close(self) -> None:
        """Close the record's files."""
        self._operation.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        place = self.policy.problem.text(self.action)
        return f"Controller({self.policy.name}, round {self.round}, at {place}, {len(self.pending)} pending)"


def _within(problem: Problem, within: tuple[float | None, float | None], allowed: Any) -> NDArray[np.bool_]:
    """Which actions may be chosen, of those allowed, by the lowest and the highest setting."""
    mask = settings_within(problem, within)
    if allowed is not None:
        mask &= Request.of(problem, None, allowed, None, None).mask(problem.n)
        if not mask.any():
            raise InvalidInput(f"allowed forbids every setting within {list(within)}; allow at least one of them")
    return mask


def _wish(wanted: int | None, force: str | None, watching: bool) -> Wish | None:
    """What somebody wants in place of the decision, if anything, checked."""
    check_force(force)
    if watching and (wanted is not None or force is not None):
        raise InvalidInput("with watching=True nobody moves the machine; leave out instructed and force")
    if force is not None and wanted is None:
        raise InvalidInput("force is the reason for an instruction; give instructed= too, the setting to go to")
    if watching:
        return Wish(None)
    return None if wanted is None else Wish(wanted, force)
