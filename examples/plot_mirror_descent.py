"""
Mirror descent, round by round
==============================

The cheap setting changes without warning. You may look at this round's costs, but not at the next ones, and every step
to the side costs something. How fast should you follow?

Mirror descent keeps a probability for every setting. Each round the probability flows a little towards what is cheap
now: little after one round, all of it once the change has lasted long enough to pay for the move. The machine itself
follows by the cheapest coupling, so it moves only where probability moves.
"""

import matplotlib.pyplot as plt
import numpy as np
from gallery import save

import holdcourse as hc

SETTINGS, ROUNDS, START = 16, 72, 3
SHOWN = (7, 10, 14, 20, 30, 46)  # rounds after which we look
CHANGE, BLIP = 8, (44, 47)


def cheap_setting(t: int) -> int:
    """Setting 3 is cheap, from round 8 on setting 11, but for three rounds in between."""
    return 3 if t < CHANGE or BLIP[0] <= t < BLIP[1] else 11


def main() -> plt.Figure:
    problem = hc.Problem(np.arange(SETTINGS), scale=0.5)
    costs = np.array([np.minimum(0.08 * np.abs(np.arange(SETTINGS) - cheap_setting(t)), 0.5) for t in range(ROUNDS)])
    tree = hc.frt_tree(problem, seed=1)
    random = np.random.default_rng(3)
    q = hc.mirror.start(tree, START)
    p = hc.mirror.leaf_probabilities(tree, q)
    action, actions, probabilities = START, [], []
    for row in costs:
        q = hc.mirror.descend(tree, q, row)
        following = hc.mirror.leaf_probabilities(tree, q)
        action = hc.coupling.sample(tree, p, following, action, random.random())
        p = following
        actions.append(action)
        probabilities.append(p)

    figure = plt.figure(figsize=(12, 7))
    grid = figure.add_gridspec(2, len(SHOWN), height_ratios=[1, 1.6])
    for column, t in enumerate(SHOWN):
        axes = figure.add_subplot(grid[0, column])
        axes.bar(range(SETTINGS), probabilities[t], color="#0072B2", width=0.9)
        axes.plot(costs[t], color="#D55E00", lw=1.8)
        axes.plot(actions[t], 1.06, marker="v", color="#000000", clip_on=False, markersize=8)
        axes.set(ylim=(0, 1), title=f"round {t}\n", xticks=[0, 5, 10, 15], yticks=[0, 0.5, 1])
        if column:
            axes.set_yticklabels([])
    figure.axes[0].text(15.5, 0.85, "probability", color="#0072B2", ha="right", fontsize=10)
    figure.axes[0].text(4.2, 1.02, "machine", fontsize=10)
    figure.axes[0].text(15.5, 0.56, "cost now", color="#D55E00", ha="right", fontsize=10)
    whole = figure.add_subplot(grid[1, :])
    image = whole.imshow(np.array(probabilities).T, aspect="auto", origin="lower", cmap="Blues", vmax=1)
    whole.step(range(ROUNDS), [cheap_setting(t) for t in range(ROUNDS)], where="mid", color="#D55E00", lw=1.5)
    whole.step(range(ROUNDS), actions, where="mid", color="#000000", lw=2)
    whole.text(CHANGE + 1, 11.4, "cheapest now", color="#D55E00")
    whole.text(CHANGE + 1, 1.9, "the machine", color="#000000")
    figure.colorbar(image, ax=whole, label="probability", pad=0.01)
    whole.set(xlabel="round", ylabel="setting", title="A lasting change is followed, a blip of three rounds is not")
    whole.grid(False)
    figure.axes[0].set_xlabel("setting")
    return figure


if __name__ == "__main__":
    save(main())
