"""What a controller would take: said, and refused, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdcourse import registry
from holdcourse.action_grid import said
from holdcourse.errors import InvalidInput, TooLarge
from holdcourse.kernels import Kernel
from holdcourse.service.schemas import MAX_ACTIONS

MAX_BYTES = 2**30
MATRICES = 9  # (n, n) matrices that making a policy that learns holds at once at most, beside one for each kernel part


def action_count(actions: Any, metric: Any) -> int:
    """How many actions are asked for; an error where they are more than the service takes."""
    if isinstance(actions, Mapping):
        count = math.prod(len(axis) for axis in actions.values())  # exact, however many axes there are
    else:
        count = len(metric) if actions is None and not isinstance(metric, str) else len(actions or ())
    if count > MAX_ACTIONS:
        raise InvalidInput(
            f"there are {said(count)} actions; the service takes at most {MAX_ACTIONS}. Use fewer values per axis"
        )
    return count


def require_room(config: Mapping[str, Any]) -> None:
    """Raise where the matrices over all pairs of actions would take more than a request may."""
    n, kernel = action_count(config["actions"], config["metric"]), config["options"]["kernel"]
    if registry.entry_of(config["policy"]).shown == "nothing":  # it makes no matrix
        return
    matrices = MATRICES + (1 if kernel is None else len(Kernel.from_json(kernel).parts))
    if 8 * n * n * matrices > MAX_BYTES:
        fits = math.isqrt(MAX_BYTES // (8 * matrices))
        parts = "" if kernel is None else f" under a kernel of {matrices - MATRICES} parts"
        raise TooLarge(
            f"policy {config['policy']!r} over {n} actions{parts} would take {8 * n * n * matrices / 1e9:.1f} GB; at "
            f"most {fits} actions fit into {MAX_BYTES / 1e9:.1f} GB. Use fewer actions, or a policy that does not learn"
        )
