"""What a model believes that was gained: an estimate with an interval, and when it is withheld.

Nobody measured what another setting would have cost in a round. The model has an opinion, and a policy that chose a
setting because its model overestimates it is also the one that believes to have gained most. So such a figure is never
a headline: it is called an estimate, it carries an interval, and it is withheld while there is a reason to doubt it.

==========  ===========================================================================================================
symbol      meaning
==========  ===========================================================================================================
saved       sum over rounds of what the alternative would have cost by the model, less what the round cost
doubt       sum over rounds of the model's own deviation of that difference: its errors are taken to last, so that they
            add up and do not average out
F           by how much the model's errors, added up over 1, 2, 4, ... 64 rounds, were larger than it says; 1 at least.
            It is the calibration error: bands that are too narrow, and errors that last from round to round
s           what a measurement is off in the mean (root of the mean square), in units of cost
k           measurements of the alternative itself: a model that claims to be certain is not believed more than these
            could have shown
==========  ===========================================================================================================

The interval is saved +- 1.96 F max(doubt, rounds s / sqrt(k)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from holdcourse.errors import InvalidInput, how_often
from holdcourse.learning.costs import CostModel, noise_variance_of
from holdcourse.learning.history import History
from holdcourse.running.decision import Entry
from holdcourse.running.events import AlarmWindow, Alternative, Comparison, OpenAlarm, Surprises, Suspect

SCALES = (1, 2, 4, 8, 16, 32, 64)  # rounds over which errors are added up
MEMORY = 1024  # rounds that a mean looks back on
FEWEST_SUMS = 16  # fewer say nothing about their scale; so many are remembered at least
FEWEST_ROUNDS = 40  # measured; before, a model cannot be checked
FEWEST_READINGS = 10  # of the alternative itself
FAR = 8.0  # deviations beyond which a reading that was learned is under suspicion
EXPECTED = 3.0  # deviations within which a later one at the same action ends that
CLIPPED = 6.0  # times what the model says: a single error, or sum of errors, counts as no more
TOO_WRONG = 3.0  # times larger than the model says: then it fails its check
CHECKED = 100  # readings of a history that a model is asked about
WIDTH = 1.96  # deviations of a 95 % interval


# -- what is booked of a round -----------------------------------------------------------------------------------------


def alternative(
    entry: Entry | None,
    service: float | None,
    taken: int,
    other: int,
    price: Callable[[float], float] | None = None,
    movement: float = 0.0,
) -> Alternative | None:
    """Return what a round would have cost at another action than the one taken; None where nobody can say.

    The model's expectation there and the round's surprise, measured less expected where the machine was: what made the
    round dearer or cheaper than expected is taken to have done so everywhere. Of a round without a measurement there is
    no surprise, and only its movement is compared.
    """
    if service is not None and other == taken:
        return Alternative(service, 0.0, movement)
    if entry is None or entry.mean is None:
        return None
    cost = float(entry.expected[other]) + (0.0 if service is None else service - float(entry.expected[taken]))
    spread = 0.0
    if service is not None:
        spread = math.hypot(_deviation(entry, other, price), _deviation(entry, taken, price))
    return Alternative(cost, spread, movement) if math.isfinite(cost) and math.isfinite(spread) else None


def _deviation(entry: Entry, action: int, price: Callable[[float], float] | None) -> float:
    """How far off the model says that it may be about an action, in units of cost; infinite where it does not say."""
    if entry.mean is None or entry.std is None:
        return math.inf
    mean, std = float(entry.mean[action]), float(entry.std[action])
    return std if price is None else abs(price(mean + std) - price(mean - std)) / 2


def residual(entry: Entry | None, service: float | None, taken: int) -> float | None:
    """Return by how much a round cost more than was expected; None where nothing was expected, or measured."""
    if entry is None or entry.mean is None or service is None:
        return None
    off = service - float(entry.expected[taken])
    return off if math.isfinite(off) else None


def compared(
    before: Comparison | None,
    booked: Alternative | None,
    service: float | None,
    movement: float,
    *,
    ran: bool,
    read: bool,
) -> Comparison | None:
    """Return a comparison one round later; of a round without a measurement, only movement is known.

    `movement` is what was paid for moving; `ran`: the alternative is what ran; `read`: something was measured there.
    """
    if booked is None:
        return before
    book = before or Comparison()
    is_measured = service is not None
    return Comparison(
        book.saved + (0.0 if service is None else booked.cost - service) + booked.movement - movement,
        book.doubt + booked.std,
        book.rounds + 1,
        book.estimated + (is_measured and not ran),
        book.readings + (is_measured and read),
    )


# -- how wrong the model has been --------------------------------------------------------------------------------------


def surprised(before: Surprises | None, off: float, residual: float) -> Surprises:
    """Return what is remembered of the model's errors one measurement later; `off` is in deviations."""
    book = before or Surprises(0, (0.0,) * len(SCALES), (0.0,) * len(SCALES), 0.0)
    count, off = book.count + 1, max(-CLIPPED, min(off, CLIPPED))
    added, means = [], []
    for scale, so_far, mean in zip(SCALES, book.open, book.means, strict=True):
        so_far += off
        if count % scale == 0:
            memory = max(MEMORY // scale, FEWEST_SUMS)
            mean += (min(so_far**2 / scale, CLIPPED**2) - mean) / min(count // scale, memory)
            so_far = 0.0
        added.append(so_far)
        means.append(mean)
    square = book.square + (residual**2 - book.square) / min(count, MEMORY)
    return Surprises(count, tuple(added), tuple(means), square)


def widening(surprises: Surprises | None) -> tuple[float, int]:
    """By how much the model's errors were larger than it says, at least 1, and over how many rounds added up."""
    if surprises is None:
        return 1.0, 1
    known = [
        (mean, scale)
        for scale, mean in zip(SCALES, surprises.means, strict=True)
        if surprises.count // scale >= FEWEST_SUMS
    ]
    mean, scale = max(known, default=(1.0, 1))
    return math.sqrt(max(mean, 1.0)), scale


def history_off(model: CostModel, history: History) -> float | None:
    """By how many deviations a model is off about what it has learned, root of the mean square; None: it cannot say.

    Readings that it has learned are predicted well by a model that has learned them. One that is not moved by them,
    because it was told to be certain of something else, is far off.
    """
    noise = noise_variance_of(model)
    if noise is None or not len(history):
        return None
    off = []
    for row in np.unique(np.linspace(0, len(history) - 1, CHECKED).astype(np.int64)):
        try:
            found = model.estimate(history.contexts[row])
        except InvalidInput:  # a process in time does not answer about what has passed
            return None
        if found.mean is None or found.std is None:
            return None
        action = history.actions[row]
        spread = math.sqrt(float(found.std[action]) ** 2 + noise)
        if spread > 0:
            off.append(min(abs(history.measurements[row] - float(found.mean[action])) / spread, CLIPPED * TOO_WRONG))
    return math.sqrt(float(np.mean(np.square(off)))) if off else None


def suspected(
    before: AlarmWindow, decision: str, action: int, off: float | None, weight: float | None
) -> Suspect | None:
    """Return the reading under suspicion after one more: far off, and learned all the same.

    It stays until it is taken back, or a later one at the same action is about as expected: only then has the model
    not been misled there, or is no longer.
    """
    if off is None or weight == 0:  # what the model set aside does not mislead it
        return before.suspect
    if abs(off) > FAR:
        return Suspect(decision, action)
    held = before.suspect
    return None if held is not None and held.action == action and abs(off) <= EXPECTED else held


# -- what is shown -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownGain:
    """An estimate as people see it: the gain and its interval, or why it is withheld; `rounds` are those compared."""

    gain: float | None
    low: float | None
    high: float | None
    rounds: int
    withheld: str | None


def trouble(watched: AlarmWindow, alarms: Mapping[str, OpenAlarm]) -> str | None:
    """Say why no estimate of the model can be shown at present; None where one can."""
    if "reading" in alarms:
        return f"A reading is under suspicion: {alarms['reading'].message}"
    if "sensor" in alarms:
        return f"The sensor is under suspicion: {alarms['sensor'].message}"
    if watched.suspect is not None:
        return (
            f"A reading is under suspicion: {watched.suspect.decision} was more than {FAR:g} standard deviations from "
            "what the model expected, and the model has learned from it. If it was wrong, take it back (retract)."
        )
    if "calibration" in alarms:
        return f"The model fails its check: {alarms['calibration'].message}."
    if watched.history_off is not None and watched.history_off > TOO_WRONG:
        return (
            "The model fails its check: in the history that it has learned from, its errors are "
            f"{watched.history_off:.1f} times as large as it says."
        )
    count = 0 if watched.surprises is None else watched.surprises.count
    if count < FEWEST_ROUNDS:
        return f"The model cannot be checked yet: {count} of {FEWEST_ROUNDS} rounds have been measured."
    factor, scale = widening(watched.surprises)
    if factor > TOO_WRONG:
        over = "" if scale == 1 else f", added up over {scale} rounds,"
        return (
            f"The model fails its check: its errors{over} were {factor:.1f} times as large as it says. The costs "
            "may depend on something lasting that the context does not show; a good time then looks like a good "
            "setting."
        )
    return None


def shown(found: Comparison | None, watched: AlarmWindow, why_not: str | None, of: str) -> ShownGain | None:
    """Return an estimate as people see it; None where nothing was compared.

    `why_not` is what `trouble` said; `of` names the alternative, which must have been measured often enough.
    """
    if found is None:
        return None
    if why_not is None and found.readings < FEWEST_READINGS:
        why_not = (
            f"{of} has been measured {how_often(found.readings)}; with fewer than {FEWEST_READINGS} readings, the "
            "model's estimate of it cannot be checked. Hold it for some rounds (override), or run a trial."
        )
    if why_not is not None and found.estimated:
        return ShownGain(None, None, None, found.rounds, why_not)
    half = WIDTH * widening(watched.surprises)[0] * max(found.doubt, _least_doubt(found, watched))
    return ShownGain(found.saved, found.saved - half, found.saved + half, found.rounds, None)


def shown_proposals(
    found: Comparison | None, watched: AlarmWindow, why_not: str | None, history: int
) -> ShownGain | None:
    """Return what following the proposals would have gained against what was done; None where nothing was compared.

    `history` is how many measurements it began with. Proposals are of many settings: a model that has seen none of them
    has nothing to say.
    """
    if found is None or not found.estimated:
        return None
    if why_not is None and not found.readings + history:
        why_not = (
            "Nothing that it proposes has ever run, and it was given no history, so its estimate cannot be checked."
        )
    if why_not is not None:
        return ShownGain(None, None, None, found.rounds, why_not)
    known = replace(found, readings=found.readings + history)
    half = WIDTH * widening(watched.surprises)[0] * max(found.doubt, _least_doubt(known, watched))
    gain = -found.saved + 0.0
    return ShownGain(gain, gain - half, gain + half, found.rounds, None)


def with_readings(found: Comparison | None, more: int) -> Comparison | None:
    """Return a comparison whose alternative was measured so many times more: in a history, say."""
    return None if found is None else replace(found, readings=found.readings + more)


def _least_doubt(found: Comparison, watched: AlarmWindow) -> float:
    """What so many readings of the alternative could not have shown, whatever the model says of itself."""
    usual = 0.0 if watched.surprises is None else math.sqrt(watched.surprises.square)
    return found.estimated * usual / math.sqrt(max(found.readings, 1))
