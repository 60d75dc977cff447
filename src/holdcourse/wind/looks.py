"""How the policies of a backtest look, as the table of policies says, and which of them a page shows at first."""

from __future__ import annotations

from dataclasses import dataclass

from holdcourse import registry
from holdcourse.wind.result import Backtest


@dataclass(frozen=True)
class Look:
    """Colour of a policy, whether it knows more than a machine could, and what it does in one sentence."""

    policy: str
    colour: str
    knowing: bool
    says: str


def look(policy: str) -> Look:
    """How a policy looks."""
    entry = registry.TABLE.get(policy) or registry.Entry(policy, policy, "")
    return Look(policy, registry.colour_of(policy), entry.knowing, entry.sentence)


def worth_showing(found: Backtest) -> list[str]:
    """The few policies that the page shows at first: fixed, the one that the answer is about, and hindsight."""
    judged = found.judged
    wanted = ["fixed", *([] if judged is None else [judged.policy]), "clairvoyant"]
    return [name for name in wanted if name in found.flights]
