"""Every sentence of an explanation, over random sessions, against what really happened.

The words are read from left to right, sentence by sentence, each by the reader that knows it; one that nobody knows is
an error. What the readers compare with is what the test itself saw and did: where the machine was, who wanted what,
where something was measured, what limits there are.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc
from holdcourse.errors import NoActionLeft
from holdcourse.running.operation import Operation
from holdcourse.running.reasons import apart
from holdcourse.running.session import Wish

SETTINGS = (10.0, 20.0, 30.0, 40.0)
KERNEL = hc.Kernel(RBF(15.0), RBF(0.5))
NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?)"
FORBIDS = r"(the request does not allow|(?:max_step|min_dwell|max_moves|cool_down) forbids) it"
KNOWN = {"kernel": KERNEL, "noise_std": 0.1, "prior_mean": 2.0}
POLICIES = {
    "gp-md": lambda problem, maximise: hc.gp_md(problem, **KNOWN, maximise=maximise),
    "cgp-lcb": lambda problem, maximise: hc.cgp_lcb(problem, **KNOWN, maximise=maximise),
    "planner": lambda problem, maximise: hc.planner(problem, **KNOWN, maximise=maximise),
    "promise": lambda problem, maximise: hc.recommended(problem, **KNOWN, maximise=maximise, at_most=0.0, budget=1.0),
    "trial": lambda problem, maximise: hc.trial(hc.planner(problem, **KNOWN, maximise=maximise), block=2),
    "history": lambda problem, maximise: hc.planner(
        problem, **KNOWN, maximise=maximise, history=[(0, 0.5, 2.0), (1, 0.5, 1.0)]
    ),
    "stationary": lambda problem, maximise: hc.stationary(problem, maximise=maximise),
}


def limit_of(words):
    """The limit that forbids something, by how that is said."""
    return "allowed" if words == "the request does not allow" else words.removesuffix(" forbids")


class Reader:
    """Takes the words of one decision apart, and compares each sentence with the facts."""

    def __init__(self, words, entry, problem, facts):
        self.rest, self.entry, self.problem, self.facts = words, entry, problem, facts
        self.decision, self.before = entry.decision, facts["before"]
        self.sign = -1.0 if facts["maximise"] else 1.0
        self.named, self.seen = [], []

    def taken(self, pattern):
        found = re.match(pattern + r"(?: |$)", self.rest)
        if found is not None:
            self.rest = self.rest[found.end() :]
        return found

    def index(self, text):
        return SETTINGS.index(float(text))

    def amount(self, text, cost):
        """A number in the words is the fact, with at least four digits of it."""
        assert float(text) == pytest.approx(self.sign * cost + 0.0, rel=6e-4, abs=1e-12), (text, cost)

    def price(self, text, cost):
        assert float(text) == pytest.approx(cost, rel=6e-4, abs=1e-12), (text, cost)

    def read(self):
        self.who()
        while self.rest:
            for reader in (
                self.expected_of_move,
                self.expected_of_stay,
                self.plan_of_move,
                self.plan_of_stay,
                self.plan_apart,
                self.limit,
                self.promise,
                self.redirected,
                self.ran,
                self.probabilities,
                self.bound,
                self.guess,
                self.turn,
                self.hedge,
                self.knew,
            ):
                if reader():
                    self.seen.append(reader.__name__)
                    break
            else:
                raise AssertionError(f"nobody knows this sentence: {self.rest}")
        self.nothing_left_out()

    def who(self):
        decision, wish, order = self.decision, self.facts["wish"], self.entry.order
        assert self.taken(rf"Round {self.facts['round']}:")
        if wish is None:
            go, costs = "go", "costs"
            assert "would" not in self.rest.split(".")[0]
        elif wish.action is None:
            left = self.taken(rf"the machine does not follow the policy and is left at {NUMBER}\. The policy would")
            assert self.index(left[1]) == self.before == self.facts["after_ask"]
            go, costs = "go", "would cost"
        else:
            told = self.taken(
                rf"an instruction sends the machine to {NUMBER}"
                rf"(?: by force, whatever the limits say: (\w+)|; {NUMBER} was wanted, but {FORBIDS})?\."
                r" On its own, the policy would"
            )
            assert told, self.rest
            assert self.index(told[1]) == self.facts["after_ask"]
            assert told[2] == wish.force
            assert (told[3] is None) == (self.facts["after_ask"] == wish.action)
            if told[3] is not None:
                assert (self.index(told[3]), limit_of(told[4])) == (wish.action, order.limited_by)
                self.limit_is_real(order.limited_by, wish.action)
            go, costs = "go", "would cost"
        if decision.action == self.before:
            stay = self.taken(rf"stay at {NUMBER}\.")
            assert self.index(stay[1]) == self.before
        else:
            move = self.taken(rf"{go} from {NUMBER} to {NUMBER}, a move that {costs} {NUMBER}\.")
            assert move, self.rest
            assert (self.index(move[1]), self.index(move[2])) == (self.before, decision.action)
            self.price(move[3], self.facts["way"](self.before, decision.action))

    @property
    def what(self):
        return "gain" if self.facts["maximise"] else "service cost"

    def expected_of_move(self):
        found = self.taken(rf"The expected {self.what} is {NUMBER} there and {NUMBER} at {NUMBER}\.")
        if found is None:
            return False
        assert self.decision.action != self.before
        assert self.index(found[3]) == self.before
        there, here = self.entry.expected[[self.decision.action, self.before]]
        self.amount(found[1], there)
        self.amount(found[2], here)
        assert (found[1] == found[2]) == bool(np.isclose(there, here, rtol=1e-12, atol=0))
        self.named += [self.decision.action, self.before]
        return True

    def expected_of_stay(self):
        found = self.taken(
            rf"The expected {self.what} there is {NUMBER}"
            rf"(?:\. The best alternative is {NUMBER} at {NUMBER}; moving there would have cost {NUMBER})?\."
        )
        if found is None:
            return False
        assert self.decision.action == self.before
        self.amount(found[1], self.entry.expected[self.before])
        self.named.append(self.before)
        if found[2] is not None:
            other, allowed = self.index(found[3]), [k for k in self.facts["allowed"] if k != self.before]
            self.amount(found[2], self.entry.expected[other])
            assert other in allowed
            assert self.entry.expected[other] == self.entry.expected[allowed].min()
            self.price(found[4], self.facts["way"](self.before, other))
            self.named.append(other)
        return True

    def plan_of_move(self):
        found = self.taken(
            rf"The plan expects this to save {NUMBER} over about the next 33 rounds; the move costs {NUMBER}\."
        )
        if found is None and not self.taken(
            r"It could not stay; of the settings that it may use, the plan expects this one to cost least\."
        ):
            return False
        assert self.facts["policy"] in ("planner", "promise", "trial", "history")
        assert self.decision.action == self.decision.wanted != self.before
        assert (found is None) == (self.before not in self.facts["allowed"])
        if found is not None:
            assert float(found[1]) > float(found[2])  # else it would not have gone
            self.price(found[1], self.entry.prospect.worth)
            self.price(found[2], self.facts["way"](self.before, self.decision.action))
        return True

    def plan_of_stay(self):
        found = self.taken(
            rf"The plan expects {NUMBER} to save {NUMBER} over about the next 33 rounds, "
            rf"which is not more than the {NUMBER} that the move costs\."
        )
        if found is None and not self.taken(
            r"The plan expects no other setting to do better over about the next 33 rounds\."
        ):
            return False
        assert self.facts["policy"] in ("planner", "promise", "trial", "history")
        assert self.decision.action == self.decision.wanted == self.before
        assert (found is None) == (self.entry.prospect.worth <= 0)
        if found is not None:
            to = self.index(found[1])
            assert to in self.facts["allowed"]
            assert to != self.before
            assert 0 < float(found[2]) <= float(found[3])  # else it would have gone
            self.price(found[2], self.entry.prospect.worth)
            self.price(found[3], self.facts["way"](self.before, to))
            self.named.append(to)
        return True

    def plan_apart(self):
        found = self.taken(rf"The plan had moved to {NUMBER} before; now the machine follows\.")
        if found is None:
            return False
        assert self.facts["policy"] in ("planner", "promise", "trial", "history")
        turn = self.decision.turn
        if self.facts["policy"] != "promise":  # whose experts have places of their own
            assert self.index(found[1]) == (self.facts["rule_at"] if turn is None else turn.place)
        assert self.index(found[1]) == self.decision.action != self.before
        return True

    def limit(self):
        if self.taken(rf"The guard wanted its safe setting, but {FORBIDS}\."):
            assert self.decision.limited_by is not None
            return True
        found = self.taken(rf"The rule wanted {NUMBER}, but {FORBIDS}\.")
        if found is None:
            return False
        wanted = self.index(found[1])
        assert wanted == self.decision.wanted != self.decision.action
        limit = limit_of(found[2])
        assert limit == self.decision.limited_by
        if limit != "cool_down":
            self.limit_is_real(limit, wanted)
        return True

    def limit_is_real(self, limit, wanted):
        """The limit that is named forbids what was wanted, by what the test knows."""
        limits, facts = self.facts["limits"], self.facts
        if limit == "allowed":
            assert wanted not in facts["allowed"]
        elif limit == "max_step":
            assert abs(SETTINGS[wanted] - SETTINGS[self.before]) > limits.max_step
        elif limit == "min_dwell":
            assert wanted != self.before
            assert facts["round"] - facts["moved_at"] < limits.min_dwell
        else:
            assert limit == "max_moves"
            assert limits.max_moves is not None

    def promise(self):
        found = self.taken(
            rf"The rule would rather run {NUMBER}, but the promise forbids it: that might cost {NUMBER} more than the "
            rf"baseline, including the move there and back, and (nothing|{NUMBER}) is left to risk\."
        )
        steps = found is None and self.taken(
            rf"The rule would rather run {NUMBER}, far from every setting tried so far; it goes there in steps\."
        )
        if found is None and not steps:
            return False
        assert self.facts["policy"] == "promise"
        wish = self.index((found or steps)[1])
        assert wish != self.decision.wanted
        if steps:
            assert wish not in self.facts["tried"]
        else:
            left = 0.0 if found[3] == "nothing" else float(found[3])
            assert float(found[2]) > left  # else it would have been followed
            assert (self.entry.restraint.left <= 0) == (found[3] == "nothing")
        return True

    def redirected(self):
        found = self.taken(rf"Later in the round it was sent to {NUMBER}(?:; {NUMBER} was wanted, but {FORBIDS})?\.")
        if found is None:
            return False
        assert self.index(found[1]) == self.facts["sent"]
        assert (found[2] is None) == (self.facts["sent"] == self.facts["sent_to"])
        return True

    def ran(self):
        found = self.taken(rf"In fact, {NUMBER} ran\.")
        if found is None:
            return False
        assert self.index(found[1]) == self.facts["applied"]
        return True

    def probabilities(self):
        found = self.taken(r"The rule's probabilities: ([^.]+(?:\.\d+[^.]*)*)\.")
        if found is None:
            return False
        shares = dict(re.findall(rf"{NUMBER} (\d+) %", found[1]))
        assert len(shares) > 1
        for name, share in shares.items():
            assert int(share) == pytest.approx(100 * self.decision.probabilities[self.index(name)], abs=0.501)
        assert 95 <= sum(map(int, shares.values())) <= 105
        return True

    def bound(self):
        found = self.taken(
            rf"The most optimistic estimate, {NUMBER}, is for {NUMBER}; moving there would have cost {NUMBER}\."
        )
        if found is None:
            return False
        there = self.index(found[2])
        assert there in self.facts["allowed"]
        assert self.entry.bounds[there] == self.entry.bounds.min() < self.entry.bounds[self.decision.action]
        self.amount(found[1], self.entry.bounds[there])
        self.price(found[3], self.facts["way"](self.before, there))
        self.named.append(there)
        return True

    def guess(self):
        found = self.taken(r"Nobody has measured ([\d., and]+) yet, so what is expected there is a guess\.")
        if found is None:
            return False
        said = {self.index(text) for text in re.split(r", | and ", found[1])}
        assert said == set(self.named) - self.facts["tried"]
        return True

    def turn(self):
        found = self.taken(
            r"Trial, block (\d+): it is the (policy|baseline)'s turn for this round(?: and (\d+) more)?\."
        )
        if found is None:
            return False
        turn, began = self.decision.turn, self.facts["round"]
        assert (int(found[1]) - 1, found[2]) == (turn.block, turn.whose)
        assert turn.block == began // 2
        assert int(found[3] or 0) == 1 - began % 2
        return True

    def hedge(self):
        found = self.taken(r"It follows ([^(]+) \(weights: ([^)]+)\)\.")
        if found is None:
            return False
        shares = re.findall(r"([^,]+?) (\d+) %", found[2])
        assert found[1] in [name.strip() for name, _ in shares]
        assert 98 <= sum(int(share) for _, share in shares) <= 102
        return True

    def knew(self):
        found = self.taken(rf"The conditions were: load {NUMBER} kW\.")
        if found is None:
            return False
        assert float(found[1]) == pytest.approx(self.facts["context"], rel=1e-5)
        return True

    def nothing_left_out(self):
        """What must be said was said."""
        decision, facts = self.decision, self.facts
        assert ("limit" in self.seen) == (decision.limited_by is not None)
        assert ("ran" in self.seen) == (facts["applied"] is not None and facts["applied"] != self.entry.meant)
        assert ("redirected" in self.seen) == (facts["sent"] is not None)
        assert ("turn" in self.seen) == (facts["policy"] == "trial")
        assert "knew" in self.seen
        if facts["policy"] == "stationary":
            assert self.seen == [*(name for name in ("limit", "redirected", "ran") if name in self.seen), "knew"]
        else:
            assert ("guess" in self.seen) == bool(set(self.named) - facts["tried"])
            assert ("expected_of_move" in self.seen) != ("expected_of_stay" in self.seen)
            hopes = int(np.argmin(self.entry.bounds))
            if self.entry.bounds[hopes] < self.entry.bounds[decision.action]:
                assert "bound" in self.seen or hopes in self.named
        if facts["policy"] in ("gp-md", "cgp-lcb"):
            assert not {"plan_of_move", "plan_of_stay", "promise", "turn", "hedge"} & set(self.seen)
        if facts["policy"] in ("planner", "history") and decision.action == decision.wanted:
            plans = {"plan_of_stay", "plan_of_move", "plan_apart"} & set(self.seen)
            assert plans or facts["rule_at"] != self.before or len(facts["allowed"]) == 1 or facts["steps"]


def session(seed, policy, rounds=12):
    """A random session; yields the words of every decision and the facts."""
    random, maximise = np.random.default_rng(seed), bool(seed % 2)
    problem = hc.Problem(SETTINGS, scale=0.01 * random.choice([1, 10]), context_names=["load"], context_units=["kW"])
    limits = hc.Limits(
        max_step=20.0 if random.random() < 0.4 else None,
        min_dwell=int(random.integers(1, 4)),
        **({"max_moves": 2, "window": 6} if random.random() < 0.3 else {}),
    )
    guard = (
        hc.Guard(threshold=-0.5 if maximise else 3.5, revert_to=10.0, cool_down=2) if random.random() < 0.3 else None
    )
    made = POLICIES[policy](problem, maximise)
    operation = Operation.begin(made, 1, seed % 1000, None, limits=limits, guard=guard)
    where, moved_at, tried = 1, -1000, {0, 1} if policy == "history" else set()
    for _ in range(rounds):
        wish = [
            None,
            None,
            Wish(None),
            Wish(int(random.integers(4))),
            Wish(int(random.integers(4)), "inspection"),
        ][random.integers(5)]
        mask = random.random(4) < 0.8 if random.random() < 0.4 else np.ones(4, dtype=bool)
        mask[where] = True if random.random() < 0.7 else mask[where]
        context = float(random.random())
        if not mask.any():
            continue
        rule_at = operation.session.pilot.state.action
        try:
            decision = operation.ask([context], mask, wish=wish)
        except NoActionLeft:
            continue
        entry = operation.entry(decision.id)
        facts = {
            "policy": policy,
            "maximise": maximise,
            "round": decision.round,
            "before": where,
            "rule_at": rule_at,
            "steps": operation.session.limits.max_step is not None,
            "after_ask": entry.meant,
            "wish": wish,
            "allowed": np.flatnonzero(mask).tolist(),
            "limits": operation.session.limits,
            "moved_at": moved_at,
            "tried": set(tried),
            "context": context,
            "way": lambda a, b, problem=problem: problem.distance(a, b),
            "applied": None,
            "sent": None,
            "sent_to": None,
        }
        if random.random() < 0.15:
            facts["sent_to"] = int(random.integers(4))
            facts["sent"] = operation.redirect(facts["sent_to"]).action
        facts["applied"] = int(random.integers(4)) if random.random() < 0.3 else None
        now = operation.session.where.action if facts["applied"] is None else facts["applied"]
        measured = None if random.random() < 0.1 else float(random.normal(2.0 + 0.3 * now, 0.7))
        operation.tell(decision.id, measured, facts["applied"])
        yield operation, decision.id, problem, facts
        if measured is not None:
            tried.add(now)
        if now != where:
            where, moved_at = now, decision.round


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=6, deadline=None)
@example(seed=0)
@example(seed=1)
def test_every_sentence_is_true(policy, seed):
    """With overrides, force, shadow, redirections, limits, guards, masks, trials, promises and people."""
    for operation, name, problem, facts in session(seed, policy):
        entry = operation.entry(name)
        words = entry.explain(problem, maximise=facts["maximise"]).words
        try:
            Reader(words, entry, problem, facts).read()
        except (AssertionError, ValueError) as wrong:
            raise AssertionError(f"{words}\n{facts}\n{wrong}") from wrong


def test_the_sessions_reach_every_kind_of_sentence():
    seen = set()
    for policy in POLICIES:
        for seed in range(12):
            for operation, name, problem, facts in session(seed, policy):
                entry = operation.entry(name)
                reader = Reader(entry.explain(problem, maximise=facts["maximise"]).words, entry, problem, facts)
                reader.read()
                seen.update(reader.seen)
    assert seen >= {
        "expected_of_move",
        "expected_of_stay",
        "plan_of_move",
        "plan_of_stay",
        "limit",
        "promise",
        "redirected",
        "ran",
        "probabilities",
        "bound",
        "guess",
        "turn",
        "knew",
    }


def test_numbers_that_differ_are_not_written_alike():
    assert apart(1.23456, 1.23457) == ["1.23456", "1.23457"]
    assert apart(2.0, 2.0) == ["2", "2"]
    assert apart(1.0, 3.0, 1.0) == ["1", "3", "1"]
    assert apart(0.1 + 0.2, 0.3) == ["0.3", "0.3"]  # the last bit is nobody's business


def test_a_setting_that_nobody_measured_is_a_guess_until_somebody_does():
    controller = hc.Controller(hc.cgp_lcb(hc.Problem(SETTINGS), **KNOWN), start=20.0)
    first = controller.ask(0.5)
    guess = "Nobody has measured 10 and 20 yet, so what is expected there is a guess."
    assert guess in controller.explain(first.id).words
    controller.tell(first.id, 1.9)
    words = controller.explain(controller.ask(0.5).id).words
    assert "a guess" in words
    assert "measured at 10" not in words


def test_what_was_tried_survives_a_restart(tmp_path):
    """Also where the posterior keeps no measurements, and with a history that it began with."""
    past = [(0, 0.5, 2.0), (1, 0.5, 1.0)]
    policy = hc.planner(hc.Problem(SETTINGS), **KNOWN, context_bounds=[[0, 1]], history=past)
    with hc.Controller(policy, start=20.0, log=tmp_path / "a.log") as controller:
        controller.tell(controller.ask(0.5).id, 1.0, applied=40.0)
        controller.ask(0.5)
        assert controller.entry("r1").tried == {0, 1, 3}
        words = controller.explain("r1").words
    with hc.Controller.resume(tmp_path / "a.log") as controller:
        assert controller.entry("r1").tried is not None
        assert controller.explain("r1").words == words
    assert hc.audit.verify(tmp_path / "a.log").verified
