"""Whatever is asked, told, refused, saved and crashed, in any order: two controllers against a plain model.

One controller has a log and crashes, the other is saved and loaded. Both live through the same events. The model is a
few lists: what was decided, what was told, where the machine really was.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from helpers.driving import KERNEL, LINE, crash_copy, operation_of, seen, state_of
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oracles.limits import breaches, end, right_action, sent, violations

import holdcourse as hc
from holdcourse.errors import Conflict, InvalidInput, NoActionLeft
from holdcourse.running import operation

CONTEXTS = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
MASKS = st.none() | st.lists(st.booleans(), min_size=LINE.n, max_size=LINE.n).filter(any)
MEASUREMENTS = st.sampled_from([-2.0, 0.0, 0.5, 3.0])
ACTIONS = st.integers(0, LINE.n - 1)
WISHES = st.one_of(
    st.just({}),
    st.just({"watching": True}),
    st.builds(lambda action: {"instructed_index": action}, ACTIONS),
    st.builds(lambda action: {"instructed_index": action, "force": "storm"}, ACTIONS),
)
LIMITS = st.builds(
    lambda dwell, step, moves: hc.Limits(dwell, None, *moves, max_step_cost=step),
    st.integers(1, 3),
    st.sampled_from([None, 0.3, 0.5]),
    st.sampled_from([(None, None), (1, 4), (2, 5)]),
)
SNAPSHOT_EVERY = 5


class ControllerMachine(RuleBasedStateMachine):
    """The rules are what may happen; the invariants what must be true at any time."""

    @initialize(
        limits=LIMITS, max_pending=st.integers(1, 3), guarded=st.booleans(), every=st.sampled_from(["round", "episode"])
    )
    def begin(self, limits, max_pending, guarded, every):
        self.usual = operation.SNAPSHOT_EVERY
        operation.SNAPSHOT_EVERY = SNAPSHOT_EVERY
        self.folder = Path(tempfile.mkdtemp())
        self.crashes = 0
        self.path = self.folder / "record0"
        self.every = every
        guard = hc.Guard(2.5, revert_to_index=5, cool_down=2) if guarded else None
        self.options = {"start_index": 1, "seed": 7, "limits": limits, "guard": guard, "max_pending": max_pending}
        self.logged = hc.Controller(self.policy(), **self.options, log=self.path)
        self.saved = hc.Controller(self.policy(), **self.options)
        self.asked = {}  # round -> question
        self.decided = {}  # round -> decision, to the last bit
        self.pending = []  # rounds
        self.told = {}  # round -> (measurement, applied)
        self.learned, self.waiting = {}, {}  # round -> (action, context, measurement) as told; not yet let in
        self.reachable = set()  # rounds whose measurement the controller without a record can take back
        self.played, self.first = [1], 0  # played[t + 1 - first] is what the machine did in round t
        self.trips = {}  # round -> until when its measurement made the guard cool down
        self.mask = [True] * LINE.n  # of the newest question

    def policy(self):
        return hc.gp_md(LINE, kernel=KERNEL, noise_std=0.2, method="exact", every=self.every)

    def both(self):
        return (self.logged, self.saved)

    @property
    def cooling_until(self):
        return list(self.trips.values())[-1] if self.trips else 0

    @property
    def next_round(self):
        return len(self.decided)

    # -- what may happen -----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.pending) < self.options["max_pending"])
    @rule(context=CONTEXTS, mask=MASKS, wish=WISHES)
    def ask(self, context, mask, wish):
        now, limits = self.next_round, self.options["limits"]
        question = {"context": context, "allowed": mask}
        allowed = [True] * LINE.n if mask is None else mask
        try:
            decision = self.logged.ask(**question, round=now, **wish)
        except NoActionLeft:
            assert right_action(self.played, limits, LINE.distances, 0, allowed) is None
            refuses(self.saved, NoActionLeft, lambda c: c.ask(**question, round=now, **wish))
            return
        twin = self.saved.ask(**question, round=now, **wish)
        assert seen(decision) == seen(twin)
        assert decision.round == now
        stuck = right_action(self.played, limits, LINE.distances, 0, allowed) is None
        assert stuck <= ("force" in wish or "watching" in wish)  # only then is there a decision, which nobody goes by
        if not stuck:
            assert violations(self.played, limits, LINE.distances, decision.action, allowed) == []
        guard = self.options["guard"]
        aim = guard.revert_to_index if guard is not None and now < self.cooling_until else decision.wanted
        right = right_action(self.played, limits, LINE.distances, aim, allowed) or (end(self.played[-1]), "max_step")
        assert decision.action == right[0]
        assert all(decision.probabilities[x] == 0 for x in range(LINE.n) if not allowed[x])
        self.asked[now], self.decided[now] = question, seen(decision)
        self.pending.append(now)
        self.mask = allowed
        self.played.append(self.right_order(wish, decision, allowed))

    def right_order(self, wish, decision, allowed):
        """What the machine is to do in a round in which somebody wishes something."""
        if "force" in wish:
            return wish["instructed_index"]
        if "instructed_index" in wish:
            return right_action(self.played, self.options["limits"], LINE.distances, wish["instructed_index"], allowed)[
                0
            ]
        return end(self.played[-1]) if wish else decision.action

    @precondition(lambda self: self.next_round - 1 in self.pending)
    @rule(wanted=ACTIONS)
    def redirect(self, wanted):
        limits = self.options["limits"]
        right = right_action(self.played, limits, LINE.distances, wanted, self.mask, within=True)
        orders = [controller.redirect(wanted_index=wanted) for controller in self.both()]
        assert orders[0] == orders[1]
        assert (orders[0].action, orders[0].limited_by) == (right or (end(self.played[-1]), "max_step"))
        if right is not None:
            assert violations(self.played, limits, LINE.distances, orders[0].action, self.mask, within=True) == []
        sent(self.played, orders[0].action)

    @precondition(lambda self: self.decided)
    @rule(data=st.data())
    def ask_again(self, data):
        now = data.draw(st.sampled_from(sorted(self.decided)))
        for controller in self.both():
            assert seen(controller.ask(**self.asked[now], round=now)) == self.decided[now]
            if self.pending == [now] and self.options["max_pending"] == 1:
                assert seen(controller.ask(**self.asked[now])) == self.decided[now]

    @precondition(lambda self: self.decided)
    @rule(data=st.data(), context=CONTEXTS, mask=MASKS)
    def ask_something_else(self, data, context, mask):
        now = data.draw(st.sampled_from(sorted(self.decided)))
        assume({"context": context, "allowed": mask} != self.asked[now])
        for controller in self.both():
            refuses(controller, Conflict, lambda c: c.ask(context, mask, round=now))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), measurement=st.none() | MEASUREMENTS, applied=st.none() | ACTIONS)
    def tell(self, data, measurement, applied):
        now = data.draw(st.sampled_from(self.pending))
        for controller in self.both():
            controller.tell(f"r{now}", measurement, applied_index=applied)
        self.pending.remove(now)
        self.told[now] = (measurement, applied)
        if applied is not None and applied != end(self.played[now + 1 - self.first]):
            self.played[now + 1 - self.first] = applied
        if measurement is not None:
            record = (end(self.played[now + 1 - self.first]), self.asked[now]["context"], measurement)
            (self.learned if self.every == "round" else self.waiting)[now] = record
            self.reachable.add(now)
            guard = self.options["guard"]
            if guard is not None and measurement > guard.threshold:
                self.trips[now] = self.next_round + guard.cool_down

    @precondition(lambda self: self.reachable)
    @rule(data=st.data())
    def retract(self, data):
        now = data.draw(st.sampled_from(sorted(self.reachable)))
        for controller in self.both():
            controller.retract(f"r{now}", "unplugged")
            controller.retract(f"r{now}", "unplugged")
        for known in (self.learned, self.waiting, self.trips):
            known.pop(now, None)
        self.reachable.discard(now)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def tell_again(self, data):
        now = data.draw(st.sampled_from(sorted(self.told)))
        measurement, applied = self.told[now]
        for controller in self.both():
            before = state_of(controller)
            controller.tell(f"r{now}", measurement, applied_index=applied)
            assert state_of(controller) == before

    @precondition(lambda self: self.told)
    @rule(data=st.data(), measurement=st.none() | MEASUREMENTS, applied=st.none() | ACTIONS)
    def tell_something_else(self, data, measurement, applied):
        now = data.draw(st.sampled_from(sorted(self.told)))
        assume((measurement, applied) != self.told[now])
        for controller in self.both():
            refuses(controller, Conflict, lambda c: c.tell(f"r{now}", measurement, applied_index=applied))

    @rule(kind=st.integers(0, 7))
    def wrong_input(self, kind):
        now = self.next_round
        calls = [
            lambda c: c.ask(float("nan"), round=now),
            lambda c: c.ask([0.5, 0.5, [1.0]], round=now),
            lambda c: c.ask(0.5, [False] * LINE.n, round=now),
            lambda c: c.ask(0.5, round=now + 1),
            lambda c: c.tell(f"r{now}", 1.0),
            lambda c: c.tell(f"r{(self.pending or [now])[0]}", float("inf")),
            lambda c: c.tell(f"r{(self.pending or [now])[0]}", 1.0, applied_index=LINE.n),
            lambda c: c.retract(f"r{(self.pending or [now])[0]}", "unplugged"),
        ]
        for controller in self.both():
            refuses(controller, InvalidInput, calls[kind])

    @rule(start=ACTIONS, force=st.none() | st.just("it was towed there"))
    def new_episode(self, start, force):
        here, limits = end(self.played[-1]), self.options["limits"]
        wrong = [] if start == here else breaches(limits, LINE.distances, here, start, self.mask)
        if self.pending or (wrong and force is None):
            for controller in self.both():
                refuses(controller, InvalidInput, lambda c: c.new_episode(start_index=start, force=force))
            return
        for controller in self.both():
            controller.new_episode(start_index=start, force=force)
        self.learned |= self.waiting
        self.waiting = {}
        self.played, self.first, self.trips = [start], self.next_round, {}

    @rule()
    def save_and_load(self):
        self.saved.save(self.folder / "state")
        loaded = hc.Controller.load(self.folder / "state", self.policy())
        assert state_of(loaded) == state_of(self.saved)
        self.saved = loaded
        self.reachable = set()

    @rule(closed=st.booleans())
    def crash_and_reopen(self, closed):
        before = state_of(self.logged)
        if not closed:
            self.crashes += 1
            self.path = crash_copy(self.path, self.folder / f"record{self.crashes}")
        self.logged.close()
        self.logged = hc.Controller(self.policy(), **self.options, log=self.path)
        assert state_of(self.logged) == before

    # -- what must be true ---------------------------------------------------------------------------------------------

    @invariant()
    def both_are_the_same_and_as_the_model_says(self):
        if not hasattr(self, "logged"):
            return
        assert state_of(self.logged) == state_of(self.saved)
        for controller in self.both():
            assert controller.round == self.next_round
            assert controller.action == end(self.played[-1])
            assert [seen(decision) for decision in controller.pending] == [self.decided[t] for t in self.pending]
            history = operation_of(controller).session.pilot.model.posterior.history
            columns = (history.actions, history.contexts.reshape(-1), history.measurements)
            assert list(zip(*(column.tolist() for column in columns), strict=True)) == list(self.learned.values())

    def teardown(self):
        if hasattr(self, "logged"):
            operation.SNAPSHOT_EVERY = self.usual
            self.logged.close()
            shutil.rmtree(self.folder)


def refuses(controller, kind, call):
    """The call raises, and changes nothing."""
    before = state_of(controller)
    try:
        call(controller)
    except kind:
        assert state_of(controller) == before
    else:
        raise AssertionError(f"{kind.__name__} was expected")


TestController = ControllerMachine.TestCase
TestController.settings = settings(max_examples=max(10, settings().max_examples // 6), stateful_step_count=40)


def test_the_model_can_tell_right_from_wrong():
    """The twin that judges the limits finds a move made too early."""
    limits = hc.Limits(min_dwell=3)
    assert violations([0, 2], limits, LINE.distances, 4, np.ones(LINE.n, dtype=bool)) == ["min_dwell"]
    assert violations([0, 2, 2, 2], limits, LINE.distances, 4, np.ones(LINE.n, dtype=bool)) == []


def test_the_model_counts_every_move_within_a_round():
    limits, everywhere = hc.Limits(max_moves=2, window=2), np.ones(LINE.n, dtype=bool)
    assert violations([0, (2, 0)], limits, LINE.distances, 2, everywhere, within=True) == ["max_moves"]
    assert violations([0, 2], limits, LINE.distances, 0, everywhere, within=True) == []
    assert violations([0, 2, 4], limits, LINE.distances, 2, everywhere, within=True) == ["max_moves"]
    assert violations([0, 2, 4], limits, LINE.distances, 2, everywhere) == []
