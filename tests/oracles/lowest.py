"""The lowest bound by one pass over all actions."""

from __future__ import annotations

import numpy as np


def lowest(posterior, context, width, sign=1.0, allowed=None):
    """The bounds of all actions, (n,), infinite where one is not allowed, and the action of the lowest."""
    mean, std = posterior.predict(context)
    costs = sign * mean - width * std
    costs = costs if allowed is None else np.where(allowed, costs, np.inf)
    return costs, int(np.argmin(costs))
