"""A service under random overrides, masks, deadlines, episodes, modes and changes: is every command permitted?"""

from __future__ import annotations

from collections import Counter

import numpy as np
from service.running import wait_for

ACTIONS = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
LATE, PATIENT = 1e-6, 1e6  # seconds; a deadline that has passed when it is looked at, and one that never does


class Operated:
    """One controller, and those who operate it. What must hold is checked after every request.

    `place` is where the machine was before the request, `mask` what the newest question allowed.
    """

    def __init__(self, client, name, seed):
        self.client, self.name, self.random = client, name, np.random.default_rng(seed)
        self.seen = Counter()
        self.step = 0.15  # one action is 0.1 away from the next
        self.dwell = int(self.random.integers(1, 3))
        self.mask = [True] * len(ACTIONS)
        limits = {"max_step_cost": self.step, "min_dwell": self.dwell}
        state = client.create(
            id=name, actions=ACTIONS, start_index=2, limits=limits, fallback_index=5, deadline_s=PATIENT
        )
        self.place = state["action"]

    def any_action(self):
        return int(self.random.integers(len(ACTIONS)))

    def run(self, steps):
        """Do `steps` random things; returns what was seen, and how often."""
        likely = {
            "ask": 9,
            "tell": 4,
            "late": 6,
            "override": 2,
            "mode": 1.5,
            "episode": 1,
            "fallback": 1,
            "change": 0.3,
        }
        chances = np.array(list(likely.values())) / sum(likely.values())
        for _ in range(steps):
            what = str(self.random.choice(list(likely), p=chances))
            moved = getattr(self, what)()
            self.check(self.client.see(self.name, "state"), moved=moved)
        found = self.client.see(self.name, "verify", full=True)
        assert found["ok"], found
        return self.seen

    def breaks(self, action):
        """Whether going to `action` breaks mask or longest step."""
        return not self.mask[action] or 0.1 * abs(action - self.place) > self.step + 1e-9

    def check(self, state, *, moved):
        """No instruction breaks a limit unless it is forced; nor does the machine move but by one."""
        now = state["instruction"]
        if not moved and state["action"] != self.place:
            self.seen["sent by the watchdog"] += 1
            assert not self.breaks(state["action"]), (self.place, self.mask, state)
        self.place = state["action"]
        if now["action"] != self.place and now["forced"] is None:
            self.seen[f"instruction, {now['reason']}"] += 1
            assert not self.breaks(now["action"]), (self.place, self.mask, state)
        if now["limited_by"] is not None:
            self.seen[f"{now['reason']} limited by {now['limited_by']}"] += 1

    def ask(self):
        allowed = self.random.random(len(ACTIONS)) < 0.7
        allowed[self.random.integers(len(ACTIONS))] = True
        before, allowed = self.client.see(self.name, "state"), allowed.tolist()
        if before["pending"]:
            return False
        body = {"context": float(self.random.random()), "allowed": allowed}
        response = self.client.post(f"/controllers/{self.name}/ask", json=body)
        answer = response.json()
        if response.status_code == 422:
            assert answer["error"]["code"] == "no_action_left"
            self.seen["no action left"] += 1
            return False
        assert response.status_code == 200, answer
        self.place, self.mask = before["action"], allowed
        if answer["act"]:
            self.seen["forced" if answer["forced"] else "act"] += 1
            assert answer["forced"] or not self.breaks(answer["action"]), (self.place, answer)
        elif answer["mode"] != "advise":
            assert answer["action"] == self.place
        held = before["override"]
        if held is not None:
            assert (answer["forced"] is None) != held["force"]
            assert (answer["action"] == held["action"]) == (answer["limited_by"] is None)
        return True

    def tell(self, applied=None):
        before = self.client.see(self.name, "state")
        if not before["pending"]:
            return False
        (asked,) = before["pending"]
        if applied is None and self.random.random() < 0.1:
            applied = self.any_action()
        told = self.client.do(self.name, "tell", decision=asked["decision"], measurement=1.0, applied_index=applied)
        taken, late = told["told"]["applied_index"], before["instruction"]["reason"] == "fallback"
        if applied is None:
            assert taken == (before["instruction"] if late else before)["action"]
            assert told["assumed"] == "fallback" or (taken == asked["action"] and not late), (before, told)
        self.seen[f"told, {told['assumed']}"] += 1
        return True

    def late(self):
        """The deadline passes; then it is told, or it is not, and somebody mends the deadline."""
        if not self.client.see(self.name, "state")["pending"]:
            return False
        state = self.client.change(self.name, deadline_s=LATE)
        self.check(state, moved=False)
        if state["instruction"]["reason"] == "fallback":
            self.seen["stale"] += 1
            if state["instruction"]["action"] != self.place and self.random.random() < 0.2:
                self.recorded(state["instruction"]["action"])
        moved = self.random.random() < 0.5 and self.tell()
        self.client.change(self.name, deadline_s=PATIENT)
        return moved

    def recorded(self, action):
        """The watchdog records where it sent the machine."""
        wait_for(lambda: self.client.see(self.name, "state")["action"] == action, "the watchdog")
        self.check(self.client.see(self.name, "state"), moved=False)

    def override(self):
        chance = self.random.random()
        if chance < 0.7:
            self.client.do(self.name, "override", setting=None)
        else:
            self.client.do(
                self.name, "override", setting_index=self.any_action(), reason="storm", force=bool(chance < 0.78)
            )
        return False

    def mode(self):
        self.client.do(self.name, "mode", mode=str(self.random.choice(["observe", "shadow", "advise", "act", "act"])))
        return False

    def episode(self):
        self.tell()
        state, start = self.client.see(self.name, "state"), self.any_action()
        self.place, force = state["action"], bool(self.random.random() < 0.3)
        wrong = start != self.place and self.breaks(start)
        refused = wrong and not force
        reason = {"force": True, "reason": "towed"} if force else {}
        self.client.do(self.name, "episode", start_index=start, status=422 if refused else 200, **reason)
        self.seen["start refused" if refused else "episode"] += 1
        return not refused

    def fallback(self):
        self.client.change(self.name, fallback_index=self.any_action())
        return False

    def change(self):
        """Other limits, or the same actions in the other order, in a new epoch."""
        if self.random.random() < 0.5:
            self.step = 0.15 if self.step == 0.25 else 0.25
            self.client.change(self.name, limits={"max_step_cost": self.step})
        else:
            values = self.client.see(self.name, "state")["actions"]
            self.client.change(self.name, actions=values[::-1])
            self.mask, self.place = self.mask[::-1], len(ACTIONS) - 1 - self.place
        self.seen["epoch"] += 1
        return False
