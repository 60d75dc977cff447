"""A server that hosts a fleet, killed while clients ask and tell: used by a quick test and by a long one."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
from service.running import KERNEL, QUICK, Process

import holdcourse as hc

COUNT = 12
FLEET = {name: value for name, value in QUICK.items() if name != "id"} | {"id": "pumps", "count": COUNT}
GROUPS = (np.arange(COUNT) % 2 == 0, np.arange(COUNT) % 2 == 1)  # one for each client


def the_policy():
    """The one that the members run."""
    problem = hc.Problem(QUICK["actions"], scale=QUICK["scale"])
    return hc.gp_md(problem, kernel=KERNEL, noise_std=0.1, context_bounds=[[0.0, 1.0]])


def compile_kernels():
    """Have the kernels of a fleet on the disk: a server that lives for half a second would compile them in vain."""
    members = hc.fleet(the_policy(), COUNT)
    for _ in range(2):
        members.ask(contexts=0.5)
        members.tell(np.zeros(COUNT))


def undisturbed(rounds):
    """Actions of every member in all its rounds, of single controllers that nobody disturbed; (COUNT, rounds)."""
    policy, found = the_policy(), np.empty((COUNT, rounds), dtype=int)
    for k in range(COUNT):
        controller = hc.Controller(policy, seed=3 + k)
        for t in range(rounds):
            decision = controller.ask(context(t))
            found[k, t] = decision.action
            controller.tell(decision.id, measured(k, t, decision.action))
    return found


def context(t):
    return t % 7 / 7


def measured(k, t, action):
    """What member k measures in its round t; None: nothing."""
    return None if (t + k) % 5 == 0 else round(abs(action - t // 4 % 4) * 0.5 + (t * 37 + k) % 11 * 0.03, 6)


class Client(threading.Thread):
    """A program that runs half of the members, with the retries of our client; it writes down what it was answered."""

    def __init__(self, url, group, least, ended):
        super().__init__()
        self.asked, self.told, self.trouble = [], 0, None
        self._url, self._mask, self._least, self._ended = url, group, least, ended

    def run(self):
        try:
            with hc.connect(self._url, patience=120.0) as service:
                pumps = service.fleet("pumps")
                while self.told < self._least or not self._ended.is_set():
                    t = self.told
                    decisions = pumps.ask(context(t), mask=self._mask)
                    self.asked.append(decisions.action[self._mask].tolist())
                    values = [measured(k, t, int(decisions.action[k])) for k in range(COUNT)]
                    pumps.tell(np.array(values, dtype=float), call=decisions.call)
                    self.told += 1
        except BaseException as error:
            self.trouble = error


def killed_in_mid_traffic(folder, kills, least, longest_life, seed):
    """Kill the server so often, at random moments, while two clients run their members; and check what is left.

    Returns how many rounds they ran, each at least so many.
    """
    compile_kernels()
    chance, ended = random.Random(seed), threading.Event()
    server = Process(folder)
    try:
        with hc.connect(server.url) as service:
            service.create_fleet(FLEET)
        clients = [Client(server.url, group, least, ended) for group in GROUPS]
        for client in clients:
            client.start()
        port = int(server.url.rpartition(":")[2])
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, longest_life))
            server.kill()
            server = Process(folder, port=port)
        ended.set()
        for client in clients:
            client.join()
        rounds = [client.told for client in clients]
        expected = undisturbed(max(rounds))
        with hc.connect(server.url) as service:
            members = service.fleet("pumps").members()
        assert not any(members["pending"])
        for client, group in zip(clients, GROUPS, strict=True):
            assert client.trouble is None, client.trouble
            for t, actions in enumerate(client.asked):
                assert actions == expected[group, t].tolist(), t
            for k in np.flatnonzero(group).tolist():
                assert members["round"][k] == client.told
                assert members["action"][k] == expected[k, client.told - 1]
        server.stop()
    finally:
        ended.set()
        if server.started.poll() is None:
            server.kill()
    found = hc.audit.verify(folder / "fleets" / "pumps" / "epoch-0001.db")
    assert found.verified
    assert not found.last_digits
    assert found.decisions == found.tells == sum(rounds) * COUNT // 2
    return sum(rounds)
