"""Fleets with a record: on the disk before it is answered, gone on with to the last bit, decided again by verify."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from helpers.driving import operation_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import Conflict, DiskFull, InvalidInput
from holdcourse.running import fleet_record
from holdcourse.running.events import FleetAsk, FleetTell, Identity, Members, from_plain, plain
from holdcourse.running.file_storage import FileStorage
from holdcourse.running.log import Log

N, COUNT = 5, 6
HOURS = np.arange(6.0)


def policy_of(**options):
    problem = hc.Problem(np.linspace(0.0, 2.0, N))
    return hc.gp_md(problem, kernel=hc.Kernel(RBF(1.0), RBF(2.0)), contexts=HOURS, **{"tree_seed": 3, **options})


POLICY = policy_of()
TURNS = hc.planner(hc.Problem([0.0, 0.5, 1.0]), kernel=hc.Kernel(RBF(1.0), RBF(1.0)))


def fleet(path=None, policy=POLICY, **options):
    return hc.fleet(policy, COUNT, **{"seed": 20, "log": path, **options})


def same(one, other):
    """The whole state, to the last bit."""
    (then, arrays), (now, others) = one.snapshot(), other.snapshot()
    assert then == now
    assert set(arrays) == set(others)
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype, name
        assert array.tobytes() == others[name].tobytes(), name


def told(pumps, decisions, random):
    measured = np.cos(decisions.action + np.arange(COUNT)) + random.normal(size=COUNT)
    pumps.tell(np.where(random.random(COUNT) < 0.2, np.nan, measured))


def ragged(pumps, random, rounds=1):
    """Rounds in which not all take part and not everything is allowed; returns all actions."""
    found = []
    for _ in range(rounds):
        allowed = random.random((COUNT, pumps.policy.problem.n)) > 0.3
        allowed[:, 1] = True
        contexts = random.integers(0, len(HOURS), COUNT).astype(float) if random.random() < 0.5 else 2.0
        mask = random.random(COUNT) > 0.3
        decisions = pumps.ask(contexts, allowed if random.random() < 0.5 else None, mask)
        told(pumps, decisions, random)
        found.append(decisions.action.tolist())
    return found


@pytest.mark.parametrize("policy", [POLICY, TURNS], ids=["in lockstep", "taking turns"])
@pytest.mark.parametrize("every", [3, 10**6], ids=["with snapshots", "without"])
def test_a_fleet_goes_on_from_its_record_as_if_nothing_had_happened(policy, every, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_record, "SNAPSHOT_EVERY", every)
    path, ours, undisturbed = tmp_path / "pumps.log", np.random.default_rng(1), np.random.default_rng(1)
    never, actions = fleet(policy=policy), []
    expected = ragged(never, undisturbed, 12)
    for life in range(4):
        resumed = hc.Fleet.resume(path) if life % 2 else fleet(path, policy)
        with resumed as pumps:
            actions += ragged(pumps, ours, 3)
    assert actions == expected
    with hc.Fleet.resume(path) as pumps:
        same(pumps, never)
    found = hc.audit.verify(path)
    assert found.verified
    assert not found.last_digits
    assert found.decisions == sum((np.array(never.round)).tolist())
    assert found.tells == found.decisions


def test_what_is_written_is_what_page_and_record_say(tmp_path):
    with fleet(tmp_path / "pumps.log", start_index=[0, 1, 2, 3, 4, 0], seed=[5, 5, 2**63, 0, 1, 2]) as pumps:
        first = pumps.ask(2.0)
        pumps.tell([1.0, np.nan, 3.0, 4.0, 5.0, 6.0])
        allowed = np.array([True, True, False, False, False])
        second = pumps.ask(HOURS, allowed, np.arange(COUNT) % 2 == 0)
        pumps.tell(np.full(COUNT, 0.5), np.arange(COUNT) == 4)
    log = Log.read(tmp_path / "pumps.log")
    bodies = [event.body for event in log.events()]
    identity = log.about.identity
    log.close()
    assert identity.members == Members(COUNT, [5, 5, 2**63, 0, 1, 2], [0, 1, 2, 3, 4, 0])
    asked, told_all, part, told_part = bodies
    assert (asked.call, asked.members, asked.contexts, asked.allowed) == (0, None, [[2.0]], None)
    assert asked.actions == first.action.tolist()
    assert told_all == FleetTell(None, [1.0, None, 3.0, 4.0, 5.0, 6.0])
    assert (part.call, part.members, part.contexts) == (1, [0, 2, 4], [[0.0], [2.0], [4.0]])
    assert part.allowed == ["11000"]
    assert part.actions == second.action[::2].tolist()
    assert told_part == FleetTell([4], [0.5])
    assert isinstance(asked, FleetAsk)


@pytest.mark.parametrize("policy", [POLICY, TURNS], ids=["in lockstep", "taking turns"])
def test_the_history_of_a_fleet_is_that_of_a_member(policy, tmp_path):
    path, random = tmp_path / "pumps.log", np.random.default_rng(3)
    expected = [[] for _ in range(COUNT)]
    with fleet(path, policy) as pumps:
        for _ in range(8):
            mask = random.random(COUNT) > 0.3
            contexts = random.integers(0, len(HOURS), COUNT).astype(float)
            decisions = pumps.ask(contexts, mask=mask)
            measured = np.where(random.random(COUNT) < 0.3, np.nan, random.normal(size=COUNT))
            pumps.tell(measured)
            for k in np.flatnonzero(mask & np.isfinite(measured)).tolist():
                expected[k].append((int(decisions.action[k]), float(contexts[k]), float(measured[k])))
        for k in range(COUNT):  # while it is in use
            found = hc.audit.history(path, member=k)
            columns = found.actions, found.contexts.reshape(-1), found.measurements
            assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected[k]
    with pytest.raises(InvalidInput, match=rf"fleet of {COUNT} members.*history\(path, member=0\), up to member=5"):
        hc.audit.history(path)
    for wrong, said in ((COUNT, "has no member 6; its members are 0 to 5"), (-1, "member"), (0.5, "member")):
        with pytest.raises(InvalidInput, match=said):
            hc.audit.history(path, member=wrong)


def test_a_controller_has_no_members(tmp_path):
    with hc.Controller(POLICY, log=tmp_path / "valve.log") as controller:
        controller.tell(controller.ask(context=1.0).id, 1.0)
    assert len(hc.audit.history(tmp_path / "valve.log")) == 1
    with pytest.raises(InvalidInput, match="record of one controller, so it has no member 0; leave member out"):
        hc.audit.history(tmp_path / "valve.log", member=0)


def test_members_are_written_only_where_they_do_not_follow():
    pumps = fleet()
    assert pumps.identity().members == Members(COUNT, None, None)
    assert from_plain(Identity, plain(pumps.identity()), "it") == pumps.identity()
    assert "members" not in plain(operation_of(hc.Controller(POLICY)).session.identity())


def test_the_same_call_again_is_answered_alike_and_changes_nothing(tmp_path):
    path = tmp_path / "pumps.log"
    pumps, mask = fleet(path), np.arange(COUNT) < 3
    first = pumps.ask(1.0, mask=mask)
    other = pumps.ask(HOURS, np.arange(N) > 0, ~mask)
    assert (first.call, other.call, pumps.next_call) == (0, 1, 2)
    before = pumps.record.log.last
    for again in (pumps.ask(1.0, mask=mask, call=0), pumps.ask(HOURS, np.arange(N) > 0, ~mask)):
        once = first if again.call == 0 else other
        assert np.array_equal(again.action[again.round >= 0], once.action[once.round >= 0])
        assert np.array_equal(again.probabilities, once.probabilities, equal_nan=True)
        assert np.array_equal(again.expected_cost, once.expected_cost, equal_nan=True)
        assert np.array_equal(again.movement, once.movement)
        assert np.array_equal(again.round, once.round)
    with pytest.raises(Conflict, match=r"asked member 0 in the context \[1.0\], and now in \[2.0\]"):
        pumps.ask(2.0, mask=mask, call=0)
    with pytest.raises(Conflict, match="call 0 left out member 3, which is now asked"):
        pumps.ask(1.0, call=0)
    with pytest.raises(Conflict, match="call 1 allowed other settings"):
        pumps.ask(HOURS, mask=~mask, call=1)
    with pytest.raises(InvalidInput, match="there was no call 7 yet; the next one is 2"):
        pumps.ask(1.0, call=7)
    values = np.arange(COUNT) / 2.0
    pumps.tell(values, call=0)
    assert pumps.pending.tolist() == (~mask).tolist()
    length = pumps.record.log.last
    assert length == before + 1
    pumps.tell(values, call=0)
    pumps.tell(values, mask, call=0)
    assert pumps.record.log.last == length
    with pytest.raises(Conflict, match=r"member 1 was told 0.5 in call 0, and now 0.75"):
        pumps.tell(values * 1.5, call=0)
    with pytest.raises(InvalidInput, match="member 3 was not asked in call 0"):
        pumps.tell(values, ~mask, call=0)
    pumps.close()
    with hc.Fleet.resume(path) as pumps:  # the answer got lost when it was killed
        again = pumps.ask(HOURS, np.arange(N) > 0, ~mask, call=1)
        assert np.array_equal(again.probabilities, other.probabilities, equal_nan=True)
        pumps.tell(np.full(COUNT, np.nan), call=1)
        pumps.tell(np.full(COUNT, np.nan), call=1)
        pumps.ask(1.0)
        with pytest.raises(
            Conflict, match="call 1 is over, because one of its members has been asked for its next round"
        ):
            pumps.ask(HOURS, np.arange(N) > 0, ~mask, call=1)
        with pytest.raises(Conflict, match="call 0 is over"):
            pumps.tell(values, call=0)


def test_after_a_snapshot_only_what_was_chosen_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_record, "SNAPSHOT_EVERY", 1)
    mask = np.arange(COUNT) < 3
    with fleet(tmp_path / "pumps.log") as pumps:
        first = pumps.ask(1.0, np.arange(N) > 0, mask)
        pumps.ask(1.0, mask=~mask)
        pumps.tell(np.zeros(COUNT), call=1)
    with hc.Fleet.resume(tmp_path / "pumps.log") as pumps:
        again = pumps.ask(1.0, np.arange(N) > 0, mask, call=0)
        assert again.action.tolist() == pumps.action.tolist()
        assert again.action[mask].tolist() == first.action[mask].tolist()
        assert again.round.tolist() == first.round.tolist()
        assert np.isnan(again.probabilities).all()
        assert np.isnan(again.movement[mask]).all()


def test_what_cannot_be_written_has_not_happened(tmp_path, monkeypatch):
    never, random = fleet(), np.random.default_rng(3)
    with fleet(tmp_path / "pumps.log") as pumps:
        commit, refuse = FileStorage.commit, []

        def full(self, *given):
            if refuse:
                raise DiskFull("no room")
            return commit(self, *given)

        monkeypatch.setattr(FileStorage, "commit", full)
        for t in range(3):
            refuse.append(t)
            with pytest.raises(DiskFull):
                pumps.ask(float(t))
            refuse.clear()
            same(pumps, never)
            decisions = pumps.ask(float(t))
            assert decisions.action.tolist() == never.ask(float(t)).action.tolist()
            refuse.append(t)
            measured = random.normal(size=COUNT)
            with pytest.raises(DiskFull):
                pumps.tell(measured)
            refuse.clear()
            same(pumps, never)
            pumps.tell(measured)
            never.tell(measured)
        same(pumps, never)
    assert hc.audit.verify(tmp_path / "pumps.log").verified


def test_another_fleet_or_a_controller_does_not_go_on_from_it(tmp_path):
    path = tmp_path / "pumps.log"
    fleet(path).close()
    for other, why in (
        (lambda: fleet(path, seed=4), "seed was 20 and is 4"),
        (lambda: fleet(path, policy_of(tree_seed=4)), "tree_seed was 3 and is 4"),
        (lambda: hc.fleet(POLICY, 3, seed=20, log=path), "a fleet of 6 members and is a fleet of 3 members now"),
        (lambda: hc.Controller(POLICY, seed=20, log=path), "a fleet of 6 members and is a single controller"),
        (lambda: hc.Controller.resume(path), "another controller"),
        (lambda: hc.replay(path, "gp-md"), "a fleet of 6 members, not of a controller"),
    ):
        with pytest.raises(InvalidInput, match=why):
            other()
    hc.Controller(POLICY, log=tmp_path / "valve.log").close()
    with pytest.raises(InvalidInput, match="of a single controller"):
        hc.Fleet.resume(tmp_path / "valve.log")
    with pytest.raises(InvalidInput, match="in a file, not in a database"):
        fleet("postgresql://nowhere/plant#pumps")
    with pytest.raises(InvalidInput, match="keeps no record"):
        hc.fleet(POLICY, 2, like=np.zeros(0), log=path)
    with fleet(path) as pumps:
        pumps.save(tmp_path / "saved")
        with pytest.raises(InvalidInput, match="continues its record"):
            pumps.load(tmp_path / "saved")


def test_verify_finds_what_was_decided_otherwise(tmp_path):
    """The record is written again with right hashes, so that only deciding again can tell."""
    path = tmp_path / "pumps.log"
    with fleet(path) as pumps:
        ragged(pumps, np.random.default_rng(0), 4)
    log = Log.read(path)
    bodies, about = [event.body for event in log.events()], log.about
    log.close()
    place = next(k for k, body in enumerate(bodies) if isinstance(body, FleetAsk))
    forged = bodies[place]
    forged.actions[0] = (forged.actions[0] + 1) % N
    with fleet(tmp_path / "forged.log") as other:
        for body in bodies:
            other.record.write(body)
    found = hc.audit.verify(tmp_path / "forged.log")
    assert not found.verified
    assert f"call {forged.call}: the action of member" in found.differences[0]
    with hc.Fleet.resume(tmp_path / "forged.log") as resumed:  # what is recorded is a fact
        assert resumed.next_call == len([body for body in bodies if isinstance(body, FleetAsk)])
    assert about.identity.policy_name == "GP-MD"
    with closing(sqlite3.connect(path)) as damaged, damaged:
        damaged.execute("UPDATE events SET body = replace(body, '\"call\": 1', '\"call\": 7') WHERE number = 3")
    damaged.close()
    with pytest.raises(hc.errors.DamagedFile, match="damaged at event 3"):
        hc.audit.verify(path)


def test_who_watches_is_told_how_far_it_has_come(tmp_path):
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "key").chmod(0o600)
    witness = hc.Witness(tmp_path / "key", tmp_path / "said.jsonl")
    with fleet(tmp_path / "pumps.log", witness=witness) as pumps:
        ragged(pumps, np.random.default_rng(0), 2)
    found = hc.audit.verify(tmp_path / "pumps.log", witness=tmp_path / "said.jsonl", key=tmp_path / "key")
    assert found.verified
    assert found.witnessed == found.events
    with pytest.raises(InvalidInput, match="give log= too"):
        hc.fleet(POLICY, 2, witness=witness)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_asked_and_told_and_cut_off_the_record_gives_the_same_fleet(data, tmp_path_factory):
    """Asks and tells of any members, each perhaps sent twice and the fleet perhaps opened again in between."""
    path = tmp_path_factory.mktemp("any") / "pumps.log"
    pumps, never = fleet(path), fleet()
    masks = st.lists(st.booleans(), min_size=COUNT, max_size=COUNT).map(np.array)
    open_calls = {}
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            pumps.close()
            pumps = hc.Fleet.resume(path)
        mask = data.draw(masks) & ~never.pending
        again = data.draw(st.booleans())
        if mask.any() and data.draw(st.booleans()):
            context, number = float(data.draw(st.integers(0, 5))), never.next_call
            expected = never.ask(context, mask=mask)
            for _ in range(1 + again):
                found = pumps.ask(context, mask=mask, call=number)
                assert found.action.tolist() == expected.action.tolist()
            open_calls[number] = mask
        elif open_calls:
            number = data.draw(st.sampled_from(sorted(open_calls)))
            mask = open_calls.pop(number)
            values = np.array(data.draw(st.lists(st.floats(-5, 5) | st.just(np.nan), min_size=COUNT, max_size=COUNT)))
            never.tell(values, call=number)
            for _ in range(1 + again):
                pumps.tell(values, call=number)
    same(pumps, never)
    pumps.close()
    assert hc.audit.verify(path).verified
