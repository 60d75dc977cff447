"""A plant run by a controller, round by round, as a plant's own program would do it: slow and obvious."""

from __future__ import annotations

import holdcourse as hc


def operated(policy, case, seed=0):
    """The settings applied in each round. A reading comes `case.delay` rounds after its own, or never.

    A controller is moved by an override only when it is told of it in the same round, so cases with both overrides and
    late readings are beyond this twin.
    """
    assert not (case.overrides and case.delay)
    controller = hc.Controller(policy, start_index=case.start, seed=seed, max_pending=1 + case.delay)
    asked, applied = [], []
    for t in range(case.rounds):
        needed = policy.costs.needs_costs
        decision = controller.ask(case.contexts[t], costs=case.costs[t] if needed else None, round=t)
        asked.append(decision)
        applied.append(case.overrides.get(t, decision.action))
        due = t - case.delay
        if due >= 0:
            controller.tell(asked[due].id, case.reading(due, applied[due]), applied_index=applied[due])
    return applied


def bill(case, applied):
    """What was paid: the costs of the settings applied, and every move from the incumbent on."""
    paid, here = 0.0, case.start
    for t, action in enumerate(applied):
        paid += case.costs[t, action] + case.problem.distance(here, action)
        here = action
    return paid


def table(told, edges, context, n):
    """The medians of the bin that a context falls into, where there are three readings; None for other settings."""

    def place(row):
        return tuple(sum(value >= edge for edge in own) for value, own in zip(row, edges, strict=True))

    def medians(rows):
        readings = [[y for action, _, y in rows if action == a] for a in range(n)]
        return [sorted(own) if len(own) >= 3 else None for own in readings]

    here = medians([row for row in told if place(row[1]) == place(context)])
    found = here if any(own is not None for own in here) else medians(told)
    return [None if own is None else (own[len(own) // 2] + own[(len(own) - 1) // 2]) / 2 for own in found]
