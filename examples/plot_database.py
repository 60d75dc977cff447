"""
Database knobs: shrinking is cheap, growing needs a restart
===========================================================

Workers are changed by a reload. The buffer can be shrunk by a reload too, but to grow it you must restart, and
everybody waits. The load goes up and down all day, and what each setting does to the latency has to be learned on the
running system. When is a restart worth it? Costs that differ there and back are a function and `directed=True`.
"""

import matplotlib.pyplot as plt
import numpy as np
from database import latency
from gallery import save
from sklearn.gaussian_process.kernels import RBF

import holdcourse as hc

RELOAD, RESTART = 0.5, 12.0  # milliseconds of latency, spread over one round
ROUNDS = 600


def change(before: dict[str, float], after: dict[str, float]) -> float:
    """What it costs to go from one setting to another."""
    if after["buffer_gb"] > before["buffer_gb"]:
        return RESTART
    return RELOAD if after != before else 0.0


class Database:
    """The latency of `database.py`, measured with noise."""

    problem = hc.Problem(hc.grid(workers=[2, 4, 8, 16], buffer_gb=[1, 4, 16]), change, directed=True)

    def costs(self, t, load):
        """Milliseconds at every setting."""
        return np.array([latency(self.problem.value(x), float(load[0])) for x in range(self.problem.n)])

    def measure(self, t, load, action, noise):
        """A noisy mean over one round."""
        return float(self.costs(t, load)[action] + 0.5 * noise)


def draw(axes: plt.Axes, run: hc.Run, colour: str, title: str) -> None:
    """Settings as discs as large as the time spent there, moves as arrows as thick as they were frequent."""
    problem, before = run.world.problem, np.append(run.starts[0], run.actions[:-1])
    place = np.array([[[2, 4, 8, 16].index(w), [1, 4, 16].index(b)] for w, b in problem.actions])
    spent = np.bincount(run.actions, minlength=problem.n) / len(run.actions)
    axes.scatter(*place.T, s=40 + 2500 * spent, color=colour, alpha=0.5, lw=0, zorder=3)
    moves, counts = np.unique(np.stack([before, run.actions])[:, before != run.actions], axis=1, return_counts=True)
    for (i, j), count in zip(moves.T, counts, strict=True):
        grows = problem.actions[j, 1] > problem.actions[i, 1]
        style = {"arrowstyle": "-|>", "lw": 0.6 + 0.12 * count, "color": "#D55E00" if grows else "#555555"}
        style |= {"connectionstyle": "arc3,rad=0.18", "shrinkA": 6, "shrinkB": 6}
        axes.annotate("", place[j], place[i], arrowprops=style, zorder=4)
    restarts = int(sum(c for (i, j), c in zip(moves.T, counts, strict=True) if problem.distances[i, j] == RESTART))
    axes.set(xticks=range(4), xticklabels=[2, 4, 8, 16], yticks=range(3), yticklabels=[1, 4, 16])
    axes.set(xlabel="workers", ylabel="buffer, GB", xlim=(-0.5, 3.5), ylim=(-0.5, 2.5))
    axes.set_title(f"{title}: {run.total / ROUNDS:.1f} ms\n{restarts} restarts, {int(counts.sum()) - restarts} reloads")


def main() -> plt.Figure:
    load = hc.worlds.context_sequence(np.linspace(0.1, 0.9, 9), "walk", ROUNDS, seed=3)
    world, learning = Database(), {"noise_std": 0.5, "prior_mean": 12.0, "contexts": np.linspace(0.1, 0.9, 9)}
    learning["kernel"] = hc.Kernel(RBF([4.0, 4.0]), RBF(0.3), variance=60.0)
    runs = {
        "Chase the lowest": hc.simulate(hc.cgp_lcb(world.problem, **learning), world, load, start=5),
        "Recommended": hc.simulate(hc.recommended(world.problem, **learning), world, load, start=5),
    }
    figure, panels = plt.subplots(1, 2, figsize=(12, 5.5), sharey=True)
    for axes, (name, run), colour in zip(panels, runs.items(), ("#E69F00", "#0072B2"), strict=True):
        draw(axes, run, colour, name)
    panels[0].text(-0.4, -0.3, "orange: the buffer grows, a restart", color="#D55E00")
    panels[0].text(-0.4, -0.45, "grey: a reload;  discs: time spent there", color="#555555")
    return figure


if __name__ == "__main__":
    save(main())
