"""How policies look and what they are called, the same in every table, picture and page."""

from __future__ import annotations

from dataclasses import dataclass

from holdcourse.wind.policies import REGISTRY
from holdcourse.wind.result import KNOWING, Backtest

# After Okabe and Ito, for people who see colours differently. All lie between 3:1 contrast on white and on the dark
# background, so that one colour serves both; dashes tell apart those that know what no gauge could tell.
_COLOURS = {
    "fixed": "#737a82",
    "stationary": "#4a96a3",
    "recommended": "#c4455d",
    "gp-md": "#0077bb",
    "cgp-lcb": "#d55e00",
    "md-known": "#cc6f9e",
    "minc-known": "#8a6cc0",
    "best-fixed": "#a07020",
    "clairvoyant": "#009e73",
}
_OTHERS = ("#5f8f00", "#3f78d8", "#b06000", "#9a5bd0", "#2f9a88")
_HINDSIGHT_SAYS = {
    "best-fixed": "The one altitude that would have made most; known only afterwards.",
    "clairvoyant": "Perfect hindsight: the best way through all the wind, known in advance.",
}


@dataclass(frozen=True)
class Look:
    """Colour of a policy, whether it knows more than a machine could, and what it does in one sentence."""

    policy: str
    colour: str
    knowing: bool
    says: str


def look(policy: str) -> Look:
    """How a policy looks; later ones in the registry get colours in their order."""
    colour = _COLOURS.get(policy)
    if colour is None:
        later = [name for name in REGISTRY if name not in _COLOURS]
        colour = _OTHERS[(later.index(policy) if policy in later else 0) % len(_OTHERS)]
    says = _HINDSIGHT_SAYS.get(policy) or (getattr(REGISTRY.get(policy), "__doc__", "") or "").strip()
    return Look(policy, colour, policy in KNOWING, says.splitlines()[0] if says else "")


def worth_showing(found: Backtest) -> list[str]:
    """The few policies that the page shows at first: fixed, the one that the answer is about, and hindsight."""
    judged = found.judged
    wanted = ["fixed", *([] if judged is None else [judged.policy]), "clairvoyant"]
    return [name for name in wanted if name in found.flights]
