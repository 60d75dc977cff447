"""What the limits mean, written out over the whole past: which action is right, and which rounds broke a limit."""

from __future__ import annotations


def moved_in(played, rounds):
    """In how many of these rounds the machine moved; it was at `played[0]` before, at `played[t + 1]` in round t."""
    return sum(0 <= t < len(played) - 1 and played[t + 1] != played[t] for t in rounds)


def right_action(played, limits, distances, wanted, allowed):
    """The action to play in the next round and the limit that bit; None where no action is left.

    `played` is the start and then what the machine really did, round by round.
    """
    here, now = played[-1], len(played) - 1
    candidates = [x for x, allow in enumerate(allowed) if allow]
    if limits.max_step_cost is not None:
        candidates = [x for x in candidates if distances[here][x] <= limits.max_step_cost]
    if not candidates:
        return None
    if here in candidates and wanted != here:
        if moved_in(played, range(now - limits.min_dwell + 1, now)):
            return here, "min_dwell"
        if limits.window is not None and moved_in(played, range(now - limits.window + 1, now)) >= limits.max_moves:
            return here, "max_moves"
    if wanted in candidates:
        return wanted, None
    nearest = min(candidates, key=lambda x: (distances[x][wanted], x != here, x))
    return nearest, "max_step" if allowed[wanted] else "allowed"


def breaches(limits, distances, here, action, allowed):
    """Which of the limits that nothing but force may break would be broken by going from `here` to `action`."""
    wrong = [] if allowed[action] else ["allowed"]
    if limits.max_step_cost is not None and distances[here][action] > limits.max_step_cost:
        wrong.append("max_step")
    return wrong


def violations(played, limits, distances, action, allowed):
    """What is wrong with playing `action` next, from the meaning of each limit alone; empty when nothing is."""
    here, now = played[-1], len(played) - 1
    wrong = breaches(limits, distances, here, action, allowed)
    if action != here and allowed[here]:  # nothing forced it to leave
        if any(played[t + 1] != played[t] for t in range(max(0, now - limits.min_dwell + 1), now)):
            wrong.append("min_dwell")
        if limits.window is not None:
            before = sum(played[t + 1] != played[t] for t in range(max(0, now - limits.window + 1), now))
            if before + 1 > limits.max_moves:
                wrong.append("max_moves")
    return wrong
