"""The paper's experiments, as sweeps: synthetic (its section 5, Figure 2) and airborne wind (its section 5.1).

Those of airborne wind are its Figures 1 and 3, and the appendix. The paper's wind file cannot be shipped. On the
bundled data (one site, 10 to 750 m) other summers stand in for the paper's other sites; with the paper's own files,
`WindPlan.on(folder)`, sites, months and altitudes are the paper's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from holdcourse.deciding.named_policies import make_policy
from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput
from holdcourse.experiments.runs import (
    CLAIRVOYANT,
    PAPER_POLICIES,
    Frozen,
    PolicyConfig,
    Positive,
    RunConfig,
    Scene,
    Sweep,
    WorldConfig,
    digest,
)
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.load import bundled, load
from holdcourse.wind.physics import WindWorld, wind_world
from holdcourse.wind.policy.policies import FALLBACK_MEAN, Setting
from holdcourse.worlds.synthetic import SyntheticWorld

OVER_TIME, OVER_RHO = "synthetic", "synthetic-rho"  # the names of the two experiments
RHO_SWEEP = (0.1, 0.1778, 0.3162, 0.5623, 1.0, 1.778, 3.162, 5.623, 10.0)


class SyntheticConfig(WorldConfig):
    """A random function on a grid, as in the paper."""

    kind: Literal["synthetic"] = "synthetic"
    grid: int = Field(default=20, ge=2)
    contexts: int = Field(default=40, ge=1)
    lengthscale: Positive = 0.2
    noise: float = Field(default=0.01, ge=0)
    width: float = Field(default=2.0, ge=0)

    def scene(self, run: RunConfig) -> Scene:
        """Return the function with this number; the same for all policies and all rho."""
        world = _function(self, run.seed_for("function"), run.rho)
        contexts = world.context_sequence("iid", run.rounds, run.seed_for("contexts"))
        random = np.random.default_rng(run.seed_for("start"))
        start = int(random.integers(world.problem.n)) if run.start is None else run.start
        return Scene(world, contexts, start)

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """Make the policy of a run; learners know kernel, prior mean and noise, and which contexts there are."""
        world = scene.world
        assert isinstance(world, SyntheticWorld)
        knows: dict[str, Any] = {"contexts": world.contexts, "width": self.width}
        knows |= {"kernel": world.kernel, "prior_mean": world.prior_mean, "noise_std": world.noise_std}
        return make_policy(config.name, world.problem, knows, config.options)


@lru_cache(maxsize=4)
def _function(config: SyntheticConfig, seed: int, rho: float) -> SyntheticWorld:
    return SyntheticWorld.sample(
        seed, config.grid, config.contexts, rho, lengthscale=config.lengthscale, noise=config.noise
    )


class SyntheticPlan(Frozen):
    """The synthetic section in full; smaller numbers for a quick look.

    Attributes
    ----------
    rho, rounds
        Of the figures over time.
    sweep_rho, sweep_rounds
        Of the figure against rho.
    functions
        How many random functions.
    """

    rho: tuple[Positive, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    rounds: int = Field(default=500, gt=0)
    sweep_rho: tuple[Positive, ...] = RHO_SWEEP
    sweep_rounds: int = Field(default=800, gt=0)
    functions: int = Field(default=25, gt=0)
    policies: tuple[str, ...] = PAPER_POLICIES
    seed: int = Field(default=0, ge=0)
    world: SyntheticConfig = SyntheticConfig()

    @classmethod
    def quick(cls) -> SyntheticPlan:
        """Return a look in seconds: same figures, small numbers."""
        return cls(
            rho=(0.5, 1.0, 2.0),
            rounds=100,
            sweep_rho=(0.1, 1.0, 10.0),
            sweep_rounds=100,
            functions=3,
            world=SyntheticConfig(grid=8, contexts=10),
        )

    def sweep(self) -> Sweep:
        """Return all runs of the plan, as a sweep."""
        runs = [
            RunConfig(
                experiment=experiment,
                world=self.world,
                policy=PolicyConfig(name=policy),
                rho=rho,
                problem=function,
                rounds=rounds,
                seed=self.seed,
            )
            for experiment, weights, rounds in (
                (OVER_TIME, self.rho, self.rounds),
                (OVER_RHO, self.sweep_rho, self.sweep_rounds),
            )
            for function in range(self.functions)
            for rho in weights
            for policy in (*self.policies, CLAIRVOYANT)
        ]
        return Sweep("synthetic", self.model_dump(mode="json"), tuple(runs))


Array: TypeAlias = NDArray[np.float64]

EXPERIMENT = "wind"
# The gauge has no noise here, so these do the same in every repetition: once is enough, and copies would only make the
# standard errors too small.
WITHOUT_CHANCE = ("cgp-lcb", "proximal-lcb", "minc-known", "stationary", CLAIRVOYANT)
OTHER_VARIANCE = 12.94  # of the paper's third site and of its October and November
BUNDLED_ALTITUDES = tuple(np.linspace(10.0, 750.0, 25).round(6).tolist())
# Model levels 137..113 in the standard atmosphere: what the paper's 10 to 1600 m most likely are.
PAPER_ALTITUDES = (
    10.0, 30.96, 53.92, 79.04, 106.54, 136.62, 169.5, 205.44, 244.68, 287.51, 334.22, 385.14, 440.58, 500.91, 566.49,
    637.7, 714.94, 798.62, 889.17, 987.0, 1092.54, 1206.21, 1328.43, 1459.58, 1600.04,
)  # fmt: skip


class WindSite(Frozen):
    """A place, and the period whose wind is flown there.

    Attributes
    ----------
    name, title
        In tables, and over figures.
    begin
        First hour, UTC.
    variance
        Of the kernel, in (m/s)^2.
    lat, lon
        Of the grid point, where files hold many.
    """

    name: str
    title: str
    begin: str
    variance: Positive = 6.85
    lat: float | None = None
    lon: float | None = None


BUNDLED_SITES = (
    WindSite(name="nora3-2010-07", title="North Sea, July 2010", begin="2010-07-01"),
    WindSite(name="nora3-2009-07", title="North Sea, July 2009", begin="2009-07-01"),
    WindSite(name="nora3-2008-07", title="North Sea, July 2008", begin="2008-07-01", variance=OTHER_VARIANCE),
    WindSite(name="nora3-2010-10", title="North Sea, October 2010", begin="2010-10-01", variance=OTHER_VARIANCE),
)
PAPER_SITES = (
    WindSite(name="53N-10E", title="Lat. 53, Long. -10", begin="2016-07-01", lat=53.0, lon=-10.0),
    WindSite(name="53N-4E", title="Lat. 53, Long. -4", begin="2016-07-01", lat=53.0, lon=-4.0),
    WindSite(name="47N6E", title="Lat. 47, Long. 6", begin="2016-07-01", lat=47.0, lon=6.0, variance=OTHER_VARIANCE),
    WindSite(
        name="53N-10E-oct",
        title="Lat. 53, Long. -10, October",
        begin="2016-10-01",
        lat=53.0,
        lon=-10.0,
        variance=OTHER_VARIANCE,
    ),
)


class WindConfig(WorldConfig):
    """A turbine at one site.

    Attributes
    ----------
    folder, files
        Where the paper's files are, and a hash of their names and sizes; None: the bundled data. The hash is part of a
        run's identity, the folder is not.
    prior_mean
        Expected wind speed in m/s; None: the mean of what the data hold before the period.
    """

    kind: Literal["wind"] = "wind"
    site: WindSite
    altitudes: tuple[Positive, ...]
    movement: Literal["paper", "physical"] = "paper"
    prior_mean: float | None = None
    width: float = Field(default=2.0, ge=0)
    folder: Path | None = Field(default=None, exclude=True)
    files: str | None = None

    def scene(self, run: RunConfig) -> Scene:
        """Return the first `rounds` hours of the period."""
        time, speed, _ = _wind(self)
        if run.rounds > len(time):
            raise InvalidInput(
                f"{self.site.title} has only {len(time)} hours of wind, not {run.rounds}; give a smaller rounds="
            )
        world = wind_world(time[: run.rounds], self.altitudes, speed[: run.rounds], rho=run.rho, movement=self.movement)
        return Scene(world, world.hours[:, None], run.start or 0, world.energy.max(axis=1))

    def policy(self, config: PolicyConfig, run: RunConfig, scene: Scene) -> Policy:
        """Make the policy of a run; learners learn the wind speed, with the paper's hyperparameters."""
        world = scene.world
        assert isinstance(world, WindWorld)
        mean = _wind(self)[2] if self.prior_mean is None else self.prior_mean
        knows: dict[str, Any] = Setting(world, prior_mean=mean).learning()
        knows |= {"kernel": replace(knows["kernel"], variance=self.site.variance), "width": self.width}
        return make_policy(config.name, world.problem, knows, config.options)


class WindPlan(Frozen):
    """The wind section in full: every altitude as a start, each several times.

    Attributes
    ----------
    starts
        Altitudes (indices) to begin at; None: each of them.
    """

    rho: tuple[Positive, ...] = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
    rounds: int = Field(default=960, gt=0)
    repetitions: int = Field(default=3, gt=0)
    starts: tuple[int, ...] | None = None
    policies: tuple[str, ...] = PAPER_POLICIES
    seed: int = Field(default=0, ge=0)
    sites: tuple[WindSite, ...] = BUNDLED_SITES
    altitudes: tuple[Positive, ...] = BUNDLED_ALTITUDES
    movement: Literal["paper", "physical"] = "paper"
    prior_mean: float | None = None
    folder: Path | None = Field(default=None, exclude=True)
    files: str | None = None

    @classmethod
    def quick(cls) -> WindPlan:
        """Return a look in seconds: same figures, small numbers."""
        return cls(rho=(1.0, 4.0), rounds=120, repetitions=1, starts=(0, 12, 24))

    def on(self, folder: Path) -> WindPlan:
        """Return the same on the paper's own files: its sites, months and altitudes."""
        found = _files(folder)
        sizes = [[path.name, path.stat().st_size] for path in found]
        changes = {"sites": PAPER_SITES, "altitudes": PAPER_ALTITUDES, "folder": folder, "files": digest(sizes)}
        return self.model_copy(update=changes)

    def sweep(self) -> Sweep:
        """Return all runs of the plan, as a sweep."""
        shared = {name: getattr(self, name) for name in ("altitudes", "movement", "prior_mean", "folder", "files")}
        worlds = [WindConfig(site=site, **shared) for site in self.sites]
        runs = [
            RunConfig(
                experiment=EXPERIMENT,
                world=world,
                policy=PolicyConfig(name=policy),
                rho=rho,
                problem=world.site.name,
                start=start,
                repetition=repetition,
                rounds=self.rounds,
                seed=self.seed,
            )
            for world in worlds
            for rho in self.rho
            for start in (range(len(self.altitudes)) if self.starts is None else self.starts)
            for policy in (*self.policies, CLAIRVOYANT)
            for repetition in range(1 if policy in WITHOUT_CHANCE else self.repetitions)
        ]
        return Sweep("wind", self.model_dump(mode="json"), tuple(runs))


@lru_cache(maxsize=8)
def _wind(config: WindConfig) -> tuple[NDArray[np.datetime64], Array, float]:
    """Return the times and speeds of the period, and the mean speed before it."""
    parts = _parts(config.folder, config.site.lat, config.site.lon)
    begin, altitudes = np.datetime64(config.site.begin, "s"), np.array(config.altitudes)
    outside: Literal["error", "clamp"] = "error" if config.folder is None else "clamp"
    times = np.concatenate([part.time for part in parts])
    speeds = np.concatenate([part.at(altitudes, outside=outside) for part in parts])
    past = speeds[times < begin]
    mean = float(np.nanmean(past)) if np.isfinite(past).any() else FALLBACK_MEAN
    period = times >= begin
    if not period.any():
        raise InvalidInput(
            f"the wind data end at {times[-1]}, before {config.site.title} begins ({begin}); give data that reach "
            "further"
        )
    return times[period], speeds[period], mean


@lru_cache(maxsize=4)
def _parts(folder: Path | None, lat: float | None, lon: float | None) -> tuple[WindData, ...]:
    if folder is None:
        return bundled("history"), bundled("test")
    return (load([*_files(folder), *folder.glob("geopotential.netcdf")], lat=lat, lon=lon).hourly(),)


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("ml_2016_*.netcdf")) or sorted(folder.glob("ml_2016_*.nc"))
    if not found:
        raise InvalidInput(
            f"there is no file ml_2016_MM.netcdf in {folder}; these are the monthly files of doi 10.4121/"
            "uuid:646eaf3f-c90b-4f22-89bf-8986804def3c; leave out data= to use the bundled wind"
        )
    return found
