"""What must hold of a controller that is stopped, killed, cut short and limited; the counts are the caller's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
from helpers import killed
from helpers.driving import POLICIES, crash_copy, half_rounds, state_of
from helpers.spaces import KINDS, random_problem
from oracles.limits import breaches, end, right_action, sent, violations

import holdcourse as hc
from holdcourse.errors import HoldcourseError, InvalidInput, NoActionLeft
from holdcourse.running.log import Log

TESTS = Path(__file__).parents[1]
LIMITS = ("allowed", "max_step", "min_dwell", "max_moves")
BITES = (  # what a fuzz of the limits must have come across
    *(*LIMITS, "cool_down", "no action left", "watching", "forced", "redirected", "applied"),
    *(f"instructed, {limit}" for limit in LIMITS),
    *("episode", "episode forced", "start refused"),
)


def run_program(name, *arguments):
    """Run a program of this folder; gives what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "helpers" / name), *map(str, arguments)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


# -- stop and go on ----------------------------------------------------------------------------------------------------


def check_resume_from_files(name, splits, seed, folder, rounds=40):
    """Save and load at `splits` random moments, also between ask and tell; each time run on to the end."""
    moments = np.random.default_rng(seed).choice(2 * rounds, splits, replace=splits > 2 * rounds).tolist()
    whole, known = [], {}
    controller = hc.Controller(POLICIES[name](), start_index=1, seed=3)
    for moment, decided in enumerate(half_rounds(controller, name, rounds)):
        whole += [decided] if decided else []
        if moment in moments:
            controller.save(folder / f"state{moment}")
            known[moment] = len(whole)
    end = state_of(controller)
    for moment in moments:
        again = hc.Controller.load(folder / f"state{moment}", POLICIES[name]())
        later = [decided for decided in half_rounds(again, name, rounds) if decided]
        # If it was saved between ask and tell, the pending decision is given once more.
        assert later == whole[len(whole) - len(later) :]
        assert len(later) in (len(whole) - known[moment], len(whole) - known[moment] + 1)
        assert state_of(again) == end


def check_resume_from_log(name, splits, seed, folder, rounds=24):
    """Reopen a log at random moments of a run, `splits` in all; half of the times the process did not close it."""
    reference = hc.Controller(POLICIES[name](), start_index=1, seed=3)
    whole = [decided for decided in half_rounds(reference, name, rounds) if decided]
    random, made = np.random.default_rng(seed), 0
    while made < splits:
        path = folder / f"{name}-{made}"
        decided = {}
        controller = hc.Controller(POLICIES[name](), start_index=1, seed=3, log=path)
        going = True
        while going:
            going = False
            for step, decision in enumerate(half_rounds(controller, name, rounds), 1):
                if decision is not None:
                    assert decided.setdefault(decision[0], decision) == decision
                if step > 1 and random.random() < 0.3 and made < splits:
                    going = True
                    break
            if going:
                made += 1
                if random.random() < 0.5:
                    path = crash_copy(path, folder / f"{name}-{made}-copy")
                live = state_of(controller)
                controller.close()
                controller = hc.Controller(POLICIES[name](), start_index=1, seed=3, log=path)
                assert state_of(controller) == live
        assert list(decided.values()) == whole
        assert state_of(controller) == state_of(reference)
        controller.close()


# -- kill --------------------------------------------------------------------------------------------------------------


def check_kills(kills, seed, path, policy=killed.NAME):
    """Kill a process at random moments; what it had said was done must be in the record, once, and as said.

    Returns how many rounds there were and how often a decision was pending when a process began.
    """
    lines = [json.loads(line) for line in run_program("killed.py", path, kills, seed, policy).splitlines()]
    log = Log.read(path)
    events = list(log.events())
    log.close()
    asks = {event.body.round: event.body for event in events if event.kind == "ask"}
    tells = {event.body.id: event.body for event in events if event.kind == "tell"}
    assert len(asks) == sum(event.kind == "ask" for event in events), "a round was decided twice"
    assert len(tells) == sum(event.kind == "tell" for event in events), "a round was told twice"
    assert sorted(asks) == list(range(len(asks)))
    resumed_pending = 0
    said = set()
    for line in lines:
        if "ask" in line:
            recorded = asks[line["ask"]]
            assert (line["action"], line["probabilities"]) == (recorded.action, recorded.probabilities)
            resumed_pending += line["ask"] in said
            said.add(line["ask"])
        elif "tell" in line:
            recorded = tells[f"r{line['tell']}"]
            assert (line["measurement"], line["applied"]) == (recorded.measurement, recorded.applied)
    undisturbed, expected = killed.made(path.with_name("undisturbed"), policy), []
    while undisturbed.round < len(asks):
        killed.step(undisturbed, lambda what: expected.append(what) if "ask" in what else None)
    for line in expected:
        recorded = asks[line["ask"]]
        assert (line["action"], line["probabilities"]) == (recorded.action, recorded.probabilities)
    undisturbed.close()
    return {
        "kills": kills,
        "rounds": len(asks),
        "looks": sum("looked" in line for line in lines),
        "lives that decided": sum("opened" in line for line in lines),
        "decisions given again": resumed_pending,
    }


# -- damage ------------------------------------------------------------------------------------------------------------


def recorded_run(folder, name="gp_md exact", rounds=25):
    """Records in three conditions (all in the WAL, partly, all in the database), and the state after every event."""
    records, states = {}, {}
    controller = hc.Controller(POLICIES[name](), start_index=1, seed=3, log=folder / "live")
    states[0] = state_of(controller)
    for step, _ in enumerate(half_rounds(controller, name, rounds)):
        for number in range(max(states) + 1, controller.log.last + 1):  # of a tell and the snapshot after it
            states[number] = state_of(controller)
        if step == rounds // 2:
            records["wal only"] = crash_copy(folder / "live", folder / "wal-only")
            # As a checkpoint that comes by itself does: nothing of ours asks for one at will.
            controller.log._storage._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    records["both"] = crash_copy(folder / "live", folder / "both")
    controller.close()
    records["database only"] = crash_copy(folder / "live", folder / "closed")
    return records, states, name


def check_damage(times, seed, folder, damage):
    """Damage a copy of a record at random places; opening it must fail clearly, or give the state after the last event.

    Where the mark beside it is gone as well, it may also give the state after an earlier one.
    """
    records, states, name = recorded_run(folder)
    ends = {}
    for kind, path in records.items():
        with closing(Log.read(crash_copy(path, folder / f"{kind} end"))) as log:
            ends[kind] = log.last
    random = np.random.default_rng(seed)
    outcomes = {"refused": 0, "recovered": 0, "lost events": 0}
    for number in range(times):
        kind = list(records)[number % len(records)]
        copy = crash_copy(records[kind], folder / f"damaged{number}")
        files = [file for file in (copy, copy.with_name(copy.name + "-wal")) if file.exists()]
        for file in files if random.random() < 0.2 else [files[random.integers(len(files))]]:
            damage(file, random)
        marked = random.random() < 0.5
        if not marked:
            copy.with_name(copy.name + "-mark").unlink()
        try:
            controller = hc.Controller(POLICIES[name](), start_index=1, seed=3, log=copy)
        except HoldcourseError as error:
            outcomes["refused"] += str(copy) in str(error)
        else:
            last = controller.log.last
            assert last in states, f"{kind}: event {last} never happened"
            assert not marked or last == ends[kind], f"{kind}: event {last} passes for the last one"
            assert state_of(controller) == states[last], f"{kind}: not the state after event {last}"
            for _ in half_rounds(controller, name, controller.round + 2):  # and it goes on from there
                pass
            controller.close()
            outcomes["recovered"] += 1
            outcomes["lost events"] += last < max(states)
        for file in folder.glob(f"damaged{number}*"):
            file.unlink()
    assert outcomes["refused"] + outcomes["recovered"] == times, "an error that does not name the file"
    return outcomes


def truncate(file, random):
    """Cut a file at a random place, half of the times at the border of a page or frame, where it hurts least."""
    length = file.stat().st_size
    at = int(random.integers(length))
    if random.random() < 0.5:
        head, unit = (32, 4096 + 24) if file.name.endswith("-wal") else (0, 4096)
        at = head + (at - head) // unit * unit if at >= head else 0
    os.truncate(file, at)


def flip(file, random):
    """Change a few neighbouring bytes."""
    content = bytearray(file.read_bytes())
    at = int(random.integers(len(content)))
    for k in range(at, min(at + int(random.integers(1, 9)), len(content))):
        content[k] ^= int(random.integers(1, 256))
    file.write_bytes(content)


# -- limits ------------------------------------------------------------------------------------------------------------


def check_limits_hold(rounds, seed):
    """Random masks, limits, guards, instructions, redirections, episodes and late tells, some of them forced.

    Every round is judged by what the limits mean, whoever decided it. Returns how often each limit bit.
    """
    random = np.random.default_rng(seed)
    bites, done = Counter(), 0
    while done < rounds:
        length = min(int(random.integers(20, 200)), rounds - done)
        Fuzzed(random, bites).run(length)
        done += length
    return dict(bites)


class Fuzzed:
    """One controller under random limits, and what its machine did: `played[t + 1 - first]` in round t."""

    def __init__(self, random, bites):
        self.random, self.bites = random, bites
        kind = KINDS[random.integers(len(KINDS))]
        problem = random_problem(kind, int(random.integers(2, 9)), int(random.integers(2**16)))
        self.n, self.distances = problem.n, problem.distances.tolist()
        self.scale = float(problem.distances.max())
        moves = int(random.integers(0, 4)) if random.random() < 0.6 else None
        self.limits = hc.Limits(
            min_dwell=int(random.integers(1, 6)),
            max_step_cost=float(random.uniform(0.1, 1.0) * self.scale) if random.random() < 0.6 else None,
            max_moves=moves,
            window=None if moves is None else int(random.integers(1, 9)),
        )
        guarded = random.random() < 0.3
        self.guard = (
            hc.Guard(2.0, revert_to_index=self.any_action(), cool_down=int(random.integers(1, 5))) if guarded else None
        )
        start = self.any_action()
        self.controller = hc.Controller(
            hc.md_known(problem) if random.random() < 0.5 else hc.minc_known(problem),
            start_index=start,
            seed=int(random.integers(2**32)),
            limits=self.limits,
            guard=self.guard,
            max_pending=int(random.integers(1, 4)),
        )
        self.played, self.first, self.cooling_until = [start], 0, 0
        self.mask = [True] * self.n  # of the newest question

    def any_action(self):
        return int(self.random.integers(self.n))

    def run(self, rounds):
        while self.controller.round < rounds:
            self.one_round()
            while self.random.random() < 0.05:
                self.redirect()
            self.tell()
            assert self.controller.action == end(self.played[-1])
            if not self.controller.pending and self.random.random() < 0.05:
                self.new_episode()

    def right(self, wanted, allowed, *, within=False):
        return right_action(self.played, self.limits, self.distances, wanted, allowed, within=within)

    def judge(self, action, allowed, by, *, within=False):
        wrong = violations(self.played, self.limits, self.distances, action, allowed, within=within)
        assert not wrong, f"round {self.controller.round}: {wrong} broken by {by} after {self.played}"

    def one_round(self):
        random, now = self.random, self.controller.round
        allowed = np.ones(self.n, dtype=bool)
        if random.random() < 0.5:
            allowed = random.random(self.n) < random.uniform(0.2, 0.9)
            allowed[random.integers(self.n)] = True
        costs = random.exponential(self.scale, self.n)
        who, wish = self.wish()
        try:
            decision = self.controller.ask(costs=costs, allowed=allowed, round=now, **wish)
        except NoActionLeft:
            assert self.right(0, allowed.tolist()) is None
            self.bites["no action left"] += 1
            allowed[end(self.played[-1])] = True
            decision = self.controller.ask(costs=costs, allowed=allowed, round=now, **wish)
        self.mask = allowed = allowed.tolist()
        self.judge_decision(decision, allowed, followed=who in ("nobody", "instructed"))
        self.judge_order(who, wish, self.controller.entry(decision.id), allowed)
        self.played.append(self.controller.action)

    def wish(self):
        """Who decides what the machine does in a round, and what is asked for them."""
        chance, wanted = self.random.random(), self.any_action()
        if chance < 0.7:
            return "nobody", {}
        if chance < 0.8:
            return "watching", {"watching": True}
        if chance < 0.95:
            return "instructed", {"instructed_index": wanted}
        return "forced", {"instructed_index": wanted, "force": "the crane is in the way"}

    def judge_decision(self, decision, allowed, *, followed):
        if followed or self.right(0, allowed) is not None:  # else nothing is in reach, and nobody goes by it
            self.judge(decision.action, allowed, decision)
        cooling = self.guard is not None and decision.round < self.cooling_until
        aim = self.guard.revert_to_index if cooling else decision.wanted
        right, limit = self.right(aim, allowed) or (end(self.played[-1]), "max_step")
        assert decision.action == right, f"round {decision.round}: {decision} after {self.played}"
        if limit is None and right != decision.wanted:
            limit = "cool_down"
        assert decision.limited_by == limit
        self.bites[limit] += 1

    def judge_order(self, who, wish, record, allowed):
        order, told = record.order, self.controller.action
        assert told == record.meant
        if who == "nobody":
            assert (order, told) == (None, record.decision.action)
            return
        self.bites[who] += 1
        if who == "watching":
            assert told == end(self.played[-1])
        elif who == "forced":
            assert (told, order.force) == (wish["instructed_index"], wish["force"])
        else:
            self.judge(told, allowed, order)
            assert (told, order.limited_by) == self.right(wish["instructed_index"], allowed)
            if order.limited_by is not None:
                self.bites[f"instructed, {order.limited_by}"] += 1

    def redirect(self):
        """Send the machine elsewhere within the round, as a watchdog does."""
        wanted, newest = self.any_action(), self.controller.round - 1
        right = self.right(wanted, self.mask, within=True)
        if newest not in [decision.round for decision in self.controller.pending]:
            return
        order = self.controller.redirect(wanted_index=wanted)
        if right is None:  # a forbidden action that cannot be left in one step
            assert (order.action, order.limited_by) == (end(self.played[-1]), "max_step")
        else:
            self.judge(order.action, self.mask, order, within=True)
            assert (order.action, order.limited_by) == right
        sent(self.played, order.action)
        self.bites["redirected"] += 1

    def tell(self):
        controller, random = self.controller, self.random
        pending = controller.pending
        while pending and (len(pending) >= controller.max_pending or random.random() < 0.6):
            told = pending[random.integers(len(pending))]
            applied = self.any_action() if random.random() < 0.2 else None
            y = None if random.random() < 0.1 else float(random.exponential(1.0))
            controller.tell(told.id, y, applied_index=applied)
            if applied is not None:
                if applied != end(self.played[told.round + 1 - self.first]):
                    self.played[told.round + 1 - self.first] = applied
                self.bites["applied"] += 1
            if self.guard is not None and y is not None and y > self.guard.threshold:
                self.cooling_until = controller.round + self.guard.cool_down
            pending = controller.pending

    def new_episode(self):
        start, here = self.any_action(), end(self.played[-1])
        force = "it was towed there" if self.random.random() < 0.3 else None
        wrong = [] if start == here else breaches(self.limits, self.distances, here, start, self.mask)
        refused = False
        try:
            self.controller.new_episode(start_index=start, force=force)
        except InvalidInput:
            refused = True
        assert refused == (bool(wrong) and force is None), f"{wrong} by an episode at {start} after {self.played}"
        if refused:
            self.bites["start refused"] += 1
            return
        self.bites["episode forced" if wrong else "episode"] += 1
        self.played, self.first, self.cooling_until = [start], self.controller.round, 0
