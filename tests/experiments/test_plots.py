"""Figures are functions of saved results: what they show, their colours, and their errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import holdcourse as hc
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.experiments.paper import SyntheticConfig, SyntheticPlan
from holdcourse.experiments.plots import (
    plot_costs,
    plot_model_check,
    plot_movement,
    plot_probabilities,
    plot_regret,
    plot_rho,
    plot_trajectory,
    plot_tree,
    probabilities_of,
)
from holdcourse.experiments.reproduce import synthetic_figures
from holdcourse.experiments.results import Results
from holdcourse.experiments.runner import run_sweep
from holdcourse.experiments.style import line_of, save

PLAN = SyntheticPlan(
    rho=(0.5, 1.0, 2.0), rounds=12, sweep_rho=(0.1, 10.0), sweep_rounds=9, functions=3, world=SyntheticConfig(grid=4)
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    run_sweep(PLAN.sweep(), folder, workers=1)
    return Results.load(folder)


@pytest.fixture(scope="module")
def figure_2(results):
    return synthetic_figures(results, PLAN)["figure-2"]


def lines_of(ax):
    return {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}


def test_costs_show_mean_and_standard_error(results):
    figure = plot_costs(results, experiment="synthetic", rho=1.0)
    assert isinstance(figure, Figure)
    (ax,) = figure.axes
    lines = lines_of(ax)
    assert set(lines) == {"GP-MD", "CGP-LCB", "MD-Known", "MinC-Known", "Stationary"}
    rows = [row for row in results.rows if (row.experiment, row.policy, row.rho) == ("synthetic", "gp-md", 1.0)]
    totals = np.array([row.total for row in rows])
    assert lines["GP-MD"].get_ydata()[-1] == pytest.approx(totals.mean(), rel=1e-5)
    band = max(
        (collection.get_paths()[0].vertices[:, 1].max(), collection)
        for collection in ax.collections
        if tuple(collection.get_facecolor()[0][:3]) == to_rgb(registry.colour_of("gp-md"))
    )[0]
    assert band == pytest.approx(totals.mean() + totals.std(ddof=1) / np.sqrt(3), rel=1e-5)


def test_how_a_line_looks_stands_in_the_table(monkeypatch):
    assert line_of("cgp-lcb") == {"color": "#d55e00", "linestyle": "-", "linewidth": 5.5, "alpha": 0.55, "zorder": 1.9}
    entry = registry.Entry("mine", "Mine", "", colour="#123456", dash=(1.0, 2.0), stroke={"linewidth": 9.0})
    monkeypatch.setitem(registry.TABLE, "mine", entry)
    assert line_of("mine") == {"color": "#123456", "linestyle": (0, (1.0, 2.0)), "linewidth": 9.0}
    monkeypatch.setitem(registry.TABLE, "gp-md", entry)
    tree = hc.frt_tree(hc.Problem([0.0, 0.5, 1.0]), seed=0)
    assert "#123456" in {line.get_color() for line in plot_tree(tree).axes[0].get_lines()}


def test_movement_and_regret(results):
    chosen = {"experiment": "synthetic", "rho": 0.5}
    movement = lines_of(plot_movement(results, **chosen).axes[0])
    assert movement["Stationary"].get_ydata()[-1] == 0
    regret = lines_of(plot_regret(results, **chosen).axes[0])
    rows = results.select(**chosen, policies=["cgp-lcb"]).rows
    expected = np.mean([row.total - row.optimum for row in rows])
    assert regret["CGP-LCB"].get_ydata()[-1] == pytest.approx(expected, rel=1e-4)
    assert all(line.get_ydata()[-1] >= -1e-5 for line in regret.values())


def test_rho_weighted_as_in_the_paper(results):
    figure = plot_rho(results, experiment="synthetic-rho", weighted=True)
    line = lines_of(figure.axes[0])["MinC-Known"]
    assert list(line.get_xdata()) == [0.1, 10.0]
    for rho, shown in zip(line.get_xdata(), line.get_ydata(), strict=True):
        rows = results.select(experiment="synthetic-rho", rho=rho, policies=["minc-known"]).rows
        # rho / (1 + rho) times the plain service cost, 1 / (1 + rho) times the movement cost
        plain = [row.service / rho * rho / (1 + rho) + row.movement / (1 + rho) for row in rows]
        assert shown == pytest.approx(np.mean(plain))
    assert figure.axes[0].get_xscale() == "log"


def test_figure_2_has_the_papers_six_panels(results, figure_2, tmp_path):
    assert [ax.get_title() for ax in figure_2.axes] == [
        r"$\rho = 0.5$",
        r"$\rho = 1$",
        r"$\rho = 2$",
        r"$\rho = 0.5$",
        r"$\rho = 2$",
        r"Varying $\rho$",
    ]
    assert [ax.get_ylabel() for ax in figure_2.axes][2:5] == ["total cost", "movement cost", "movement cost"]
    paths = save(figure_2, tmp_path, "figure-2")
    assert [path.suffix for path in paths] == [".png", ".svg"]
    first = paths[1].read_bytes()
    save(synthetic_figures(results, PLAN)["figure-2"], tmp_path, "figure-2")  # drawn again from the same results
    assert paths[1].read_bytes() == first


def test_one_colour_per_policy_everywhere(results, figure_2):
    seen = {}
    for figure in (
        plot_costs(results, experiment="synthetic", rho=2.0),
        plot_rho(results, experiment="synthetic-rho"),
        figure_2,
    ):
        for ax in figure.axes:
            for label, line in lines_of(ax).items():
                seen.setdefault(label, set()).add(line.get_color())
    assert all(len(colours) == 1 for colours in seen.values())
    assert all(entry.colour and entry.label for entry in registry.TABLE.values() if entry.source is None)
    assert line_of("my own") == line_of("my own")


def test_gp_md_is_seen_where_it_does_what_cgp_lcb_does():
    """As in the paper's Figures 1 and 3: a thin line above a wide one, also in the legend's order."""
    above, below = line_of("gp-md"), line_of("cgp-lcb")
    assert above["zorder"] > below["zorder"]
    assert below["linewidth"] > 2 * above["linewidth"]
    assert below["alpha"] < above.get("alpha", 1.0)


def test_colours_can_be_told_apart_without_red_or_green():
    """All pairs as people without red (or green) receptors see them (Viénot, Brettel and Mollon 1999)."""
    to_lms = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
    without = {
        "red": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
        "green": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
    }
    for missing in without.values():
        seen = {
            name: np.linalg.inv(to_lms) @ missing @ to_lms @ np.array(to_rgb(colour)) ** 2.2
            for name, colour in ((name, registry.colour_of(name)) for name in registry.names())
        }
        for one, other in itertools.combinations(seen, 2):
            shades = [np.clip(seen[name], 0, 1) ** (1 / 2.2) for name in (one, other)]
            different = np.linalg.norm(shades[0] - shades[1]) > 0.12
            assert different or line_of(one)["linestyle"] != line_of(other)["linestyle"], (one, other)


def test_errors_name_what_there_is(results):
    with pytest.raises(InvalidInput, match=r"several values of rho, \[0.5, 1.0, 2.0\]; choose one"):
        plot_costs(results, experiment="synthetic")
    with pytest.raises(InvalidInput, match="no run matches"):
        plot_costs(results, rho=77.0)
    with pytest.raises(InvalidInput, match=r"runs of different lengths, \[9, 12\] rounds"):
        results.cumulative("gp-md")
    with pytest.raises(InvalidInput, match="no runs of policy 'x'"):
        results.cumulative("x")
    with pytest.raises(InvalidInput, match="quantity 'mood' is not known"):
        results.cumulative("gp-md", "mood")
    with pytest.raises(InvalidInput, match="have no gains"):
        results.select(experiment="synthetic").cumulative("gp-md", "net")
    with pytest.raises(InvalidInput, match="contains no sweep"):
        Results.load("nowhere")


@pytest.fixture(scope="module")
def run():
    world = hc.SyntheticWorld.sample(seed=3, grid=4, contexts=5)
    contexts = world.context_sequence("iid", rounds=20, seed=1)
    return world, contexts, hc.md_known(world.problem)


def test_trajectory_and_probabilities(run):
    world, contexts, policy = run
    flown = hc.simulate(policy, world, contexts, start=2, seed=4)
    figure = plot_trajectory(
        {"MD-Known": flown, "Stationary": hc.simulate(hc.stationary(world.problem), world, contexts)}
    )
    assert set(lines_of(figure.axes[0])) == {"MD-Known", "Stationary"}
    assert plot_trajectory(flown).axes[0].get_lines()[0].get_ydata().tolist() == flown.actions.tolist()
    table, actions = probabilities_of(policy, world, contexts, start=2, seed=4)
    assert actions.tolist() == flown.actions.tolist()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(table[np.arange(20), actions], flown.probabilities)
    assert isinstance(plot_probabilities(table, world.problem, actions), Figure)
    with pytest.raises(InvalidInput, match=r"shape \(rounds, 16\)"):
        plot_probabilities(table[:, :3], world.problem)
    with pytest.raises(InvalidInput, match="no run to draw"):
        plot_trajectory({})


@pytest.mark.parametrize("n", [1, 2, 9, 60])
def test_tree_has_all_leaves_and_crosses_no_branches(n):
    problem = hc.Problem(np.random.default_rng(0).random(n) * 10)
    tree = hc.frt_tree(problem, seed=1)
    figure = plot_tree(tree, problem)
    leaves = figure.axes[0].get_lines()[-1]
    assert sorted(leaves.get_xdata().tolist()) == list(range(n))
    spans = {}
    for leaf, across in enumerate(leaves.get_xdata().tolist()):
        vertex = leaf
        while vertex >= 0:
            spans.setdefault(vertex, []).append(across)
            vertex = int(tree.parent[vertex])
    assert all(max(places) - min(places) + 1 == len(places) for places in spans.values())


def test_a_check_shows_every_reading_with_its_band_and_what_the_bands_held(tmp_path):
    rng = np.random.default_rng(0)
    actions, load = rng.integers(3, size=40), rng.uniform(size=40)
    readings = 5.0 + 3.0 * load + actions + 0.2 * rng.normal(size=40)
    readings[7] = 5e5
    check = hc.check_model(hc.Problem([0.0, 0.5, 1.0]), hc.History(actions, load, readings))
    ax, held = plot_model_check(check, unit="kWh").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted, kWh", "measured, kWh")
    lines = lines_of(ax)
    assert len(lines["reading"].get_xdata()) == 39
    assert lines["looks wrong"].get_ydata().tolist() == [5e5]
    assert ax.get_yscale() == "log"
    (bands,) = ax.collections
    assert len(bands.get_segments()) == 39
    assert [bar.get_height() for bar in held.patches] == [100 * share for share in check.coverage.values()]
    with pytest.raises(InvalidInput, match="nothing to draw: There are 3 readings, too few"):
        plot_model_check(
            hc.check_model(hc.Problem([0.0, 1.0]), hc.History([0, 1, 1], [0.0, 0.0, 0.0], [1.0, 2.0, 2.0]))
        )
