"""What the limits mean, written out over the whole past: which action is right, and which rounds broke a limit.

`played` is the start and then what the machine really did, round by round: `played[t + 1]` is the action of round t, or
a tuple of those that it was sent to one after the other in that round.
"""

from __future__ import annotations


def places(entry):
    """Where the machine was in a round, one after the other."""
    return entry if isinstance(entry, tuple) else (entry,)


def end(entry):
    """Where the machine was at the end of a round."""
    return places(entry)[-1]


def sent(played, action):
    """Send the machine elsewhere within the newest round."""
    if action != end(played[-1]):
        played[-1] = (*places(played[-1]), action)


def moves(played):
    """The round of every single move."""
    here, found = end(played[0]), []
    for t, entry in enumerate(played[1:]):
        for place in places(entry):
            if place != here:
                found.append(t)
            here = place
    return found


def moved_in(played, rounds):
    """How often the machine moved in these rounds."""
    return sum(t in rounds for t in moves(played))


def right_action(played, limits, distances, wanted, allowed, *, within=False):
    """The action to play in the next round and the limit that bit; None where no action is left.

    `within`: the machine is sent there within the newest round, and what is said is true of that.
    """
    here, now = end(played[-1]), len(played) - 1
    candidates = [x for x, allow in enumerate(allowed) if allow]
    if limits.max_step_cost is not None:
        candidates = [x for x in candidates if distances[here][x] <= limits.max_step_cost]
    if not candidates:
        return None
    if here in candidates and wanted != here:
        if moved_in(played, range(now - limits.min_dwell + 1, now)):
            return here, "min_dwell"
        if limits.window is not None:
            moves_in = now - 1 if within else now
            if moved_in(played, range(moves_in - limits.window + 1, moves_in + 1)) >= limits.max_moves:
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


def violations(played, limits, distances, action, allowed, *, within=False):
    """What is wrong with playing `action` next, from the meaning of each limit alone; empty when nothing is.

    `within`: the machine is sent there within the newest round.
    """
    here, now = end(played[-1]), len(played) - 1
    wrong = breaches(limits, distances, here, action, allowed)
    if action != here and allowed[here]:  # nothing forced it to leave
        if any(t > now - limits.min_dwell for t in moves(played)):
            wrong.append("min_dwell")
        if limits.window is not None:
            after = [*played, action]
            if within:
                after = list(played)
                sent(after, action)
            newest = len(after) - 2
            if sum(newest - limits.window < t <= newest for t in moves(after)) > limits.max_moves:
                wrong.append("max_moves")
    return wrong
