"""What must hold of a controller that is stopped, killed, cut short and limited; the counts are the caller's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from oracles import killed
from oracles.driving import POLICIES, crash_copy, half_rounds, state_of
from oracles.limits import right_action, violations
from oracles.spaces import KINDS, random_problem

import holdcourse as hc
from holdcourse.errors import HoldcourseError, NoActionLeft
from holdcourse.log import Log

TESTS = Path(__file__).parents[1]


def run_program(name, *arguments):
    """Run a program of this folder; gives what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "oracles" / name), *map(str, arguments)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


# -- stop and go on ----------------------------------------------------------------------------------------------------


def check_resume_from_files(name, splits, seed, folder, rounds=40):
    """Save and load at `splits` random moments, also between ask and tell; each time run on to the end."""
    moments = np.random.default_rng(seed).choice(2 * rounds, splits, replace=splits > 2 * rounds).tolist()
    whole, known = [], {}
    controller = hc.Controller(POLICIES[name](), start=1, seed=3)
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
    reference = hc.Controller(POLICIES[name](), start=1, seed=3)
    whole = [decided for decided in half_rounds(reference, name, rounds) if decided]
    random, made = np.random.default_rng(seed), 0
    while made < splits:
        path = folder / f"{name}-{made}"
        decided = {}
        controller = hc.Controller(POLICIES[name](), start=1, seed=3, log=path)
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
                controller = hc.Controller(POLICIES[name](), start=1, seed=3, log=path)
                assert state_of(controller) == live
        assert list(decided.values()) == whole
        assert state_of(controller) == state_of(reference)
        controller.close()


# -- kill --------------------------------------------------------------------------------------------------------------


def check_kills(kills, seed, path):
    """Kill a process at random moments; what it had said was done must be in the record, once, and as said.

    Returns how many rounds there were and how often a decision was pending when a process began.
    """
    lines = [json.loads(line) for line in run_program("killed.py", path, kills, seed).splitlines()]
    log = Log.read(path)
    events = list(log.events())
    log.close()
    asks = {event.body["round"]: event.body for event in events if event.kind == "ask"}
    tells = {event.body["id"]: event.body for event in events if event.kind == "tell"}
    assert len(asks) == sum(event.kind == "ask" for event in events), "a round was decided twice"
    assert len(tells) == sum(event.kind == "tell" for event in events), "a round was told twice"
    assert sorted(asks) == list(range(len(asks)))
    resumed_pending = 0
    said = set()
    for line in lines:
        if "ask" in line:
            recorded = asks[line["ask"]]
            assert (line["action"], line["probabilities"]) == (recorded["action"], recorded["probabilities"])
            resumed_pending += line["ask"] in said
            said.add(line["ask"])
        elif "tell" in line:
            recorded = tells[f"r{line['tell']}"]
            assert (line["measurement"], line["applied"]) == (recorded["measurement"], recorded["applied"])
    undisturbed, expected = killed.made(), []
    while undisturbed.round < len(asks):
        killed.step(undisturbed, lambda what: expected.append(what) if "ask" in what else None)
    for line in expected:
        recorded = asks[line["ask"]]
        assert (line["action"], line["probabilities"]) == (recorded["action"], recorded["probabilities"])
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
    controller = hc.Controller(POLICIES[name](), start=1, seed=3, log=folder / "live")
    states[0] = state_of(controller)
    for step, _ in enumerate(half_rounds(controller, name, rounds)):
        for number in range(max(states) + 1, controller.log.last + 1):  # of a tell and the snapshot after it
            states[number] = state_of(controller)
        if step == rounds // 2:
            records["wal only"] = crash_copy(folder / "live", folder / "wal-only")
            controller.log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    records["both"] = crash_copy(folder / "live", folder / "both")
    controller.close()
    records["database only"] = crash_copy(folder / "live", folder / "closed")
    return records, states, name


def check_damage(times, seed, folder, damage):
    """Damage a copy of a record at random places; opening it must fail clearly, or give the state after the last event.

    Where the mark beside it is gone as well, it may also give the state after an earlier one.
    """
    records, states, name = recorded_run(folder)
    ends = {kind: Log.read(crash_copy(path, folder / f"{kind} end")).last for kind, path in records.items()}
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
            controller = hc.Controller(POLICIES[name](), start=1, seed=3, log=copy)
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
    """Random masks, limits, guards, overrides and late tells; every round is judged by what the limits mean.

    Returns how often each limit bit.
    """
    random = np.random.default_rng(seed)
    bites, done = {}, 0
    while done < rounds:
        length = min(int(random.integers(20, 200)), rounds - done)
        fuzz_one(random, length, bites)
        done += length
    return bites


def fuzz_one(random, rounds, bites):
    problem = random_problem(str(random.choice(KINDS)), int(random.integers(2, 9)), int(random.integers(2**16)))
    n, scale = problem.n, float(problem.distances.max())
    moves = int(random.integers(0, 4)) if random.random() < 0.6 else None
    limits = hc.Limits(
        min_dwell=int(random.integers(1, 6)),
        max_step=float(random.uniform(0.1, 1.0) * scale) if random.random() < 0.6 else None,
        max_moves=moves,
        window=None if moves is None else int(random.integers(1, 9)),
    )
    guard = hc.Guard(2.0, int(random.integers(n)), int(random.integers(1, 5))) if random.random() < 0.3 else None
    policy = hc.md_known(problem) if random.random() < 0.5 else hc.minc_known(problem)
    start = int(random.integers(n))
    controller = hc.Controller(
        policy,
        start=start,
        seed=int(random.integers(2**32)),
        limits=limits,
        guard=guard,
        max_pending=int(random.integers(1, 4)),
    )
    played, first, cooling_until = [start], 0, 0  # played[t + 1 - first] is what the machine did in round t
    while controller.round < rounds:
        now = controller.round
        allowed = np.ones(n, dtype=bool)
        if random.random() < 0.5:
            allowed = random.random(n) < random.uniform(0.2, 0.9)
            allowed[random.integers(n)] = True
        costs = random.exponential(scale, n)
        try:
            decision = controller.ask(costs=costs, allowed=allowed, round=now)
        except NoActionLeft:
            assert right_action(played, limits, problem.distances, 0, allowed) is None
            bites["no action left"] = bites.get("no action left", 0) + 1
            allowed[played[-1]] = True
            decision = controller.ask(costs=costs, allowed=allowed, round=now)
        wrong = violations(played, limits, problem.distances, decision.action, allowed)
        assert not wrong, f"round {now}: {wrong} broken by {decision} after {played}"
        aim = guard.revert_to if guard is not None and now < cooling_until else decision.wanted
        right, limit = right_action(played, limits, problem.distances, aim, allowed)
        assert decision.action == right, f"round {now}: {decision} after {played}"
        if limit is None and right != decision.wanted:
            limit = "cool_down"
        assert decision.limited_by == limit
        bites[limit] = bites.get(limit, 0) + 1
        played.append(decision.action)
        while controller.pending and (len(controller.pending) >= controller.max_pending or random.random() < 0.6):
            told = controller.pending[random.integers(len(controller.pending))]
            applied = int(random.integers(n)) if random.random() < 0.2 else None
            y = None if random.random() < 0.1 else float(random.exponential(1.0))
            controller.tell(told.id, y, applied)
            if applied is not None:
                played[told.round + 1 - first] = applied
                bites["override"] = bites.get("override", 0) + 1
            if guard is not None and y is not None and y > guard.threshold:
                cooling_until = controller.round + guard.cool_down
        assert controller.action == played[-1]
        if not controller.pending and random.random() < 0.02:
            begin = int(random.integers(n))
            controller.new_episode(begin)
            played, first, cooling_until = [begin], controller.round, 0
