"""Tables of trials, made up."""

import numpy as np


def sample(seed, pairs=40, length=4, gain=1.0, maximise=False, **columns):
    """A trial of noise around 10, in which the policy saves `gain` a round."""
    rng = np.random.default_rng(seed)
    coin = rng.integers(2, size=pairs)
    arm = np.repeat(np.stack([coin, 1 - coin], axis=1).ravel(), length)
    rounds = len(arm)
    cost = 10 + rng.normal(size=rounds) + np.repeat(rng.normal(size=pairs), 2 * length) - gain * arm
    movement = rng.random(rounds) * arm
    table = {"block": np.arange(rounds) // length, "arm": arm, "cost": -cost if maximise else cost}
    return {**table, "movement": movement, "maximise": maximise, **columns}
