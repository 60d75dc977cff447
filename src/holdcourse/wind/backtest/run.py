"""From wind files to an answer: load, split off history, fly every policy, ask what if moving were cheaper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

import holdcourse as hc
from holdcourse.backtest.second_process import second_process
from holdcourse.deciding import registry
from holdcourse.errors import InvalidInput
from holdcourse.wind.backtest import period
from holdcourse.wind.backtest.bankable import Bankable, Factors, bankable
from holdcourse.wind.backtest.forecast_skill import Skill, fitted_skill
from holdcourse.wind.backtest.result import (
    HINDSIGHT,
    HOURS_PER_WEEK,
    OURS,
    Array,
    Backtest,
    Draw,
    Flight,
    Indices,
    Line,
)
from holdcourse.wind.backtest.trace import traced
from holdcourse.wind.files.awesio import Constraints
from holdcourse.wind.files.data import WindData
from holdcourse.wind.files.forecasts import Forecasts
from holdcourse.wind.files.load import load
from holdcourse.wind.files.paths import Paths, expand
from holdcourse.wind.machines import Machine
from holdcourse.wind.physics import PowerCurve, WindWorld, paper_curve, wind_world
from holdcourse.wind.policy.policies import Setting, contexts_of, flown_by_default, policy_of

__all__ = ["HINDSIGHT", "Backtest", "Flight", "Line", "backtest"]


def backtest(
    setting: Setting,
    policies: Sequence[str] | None = None,
    *,
    start: int | None = None,
    seed: int = 0,
    site: str = "",
    lengths: Sequence[int] | None = None,
    progress: Callable[[str], None] | None = None,
    draws: int = 1,
) -> Backtest:
    """Fly every policy through the world's wind.

    Parameters
    ----------
    setting
        The world, and the past that policies may learn from.
    policies
        Names in the registry; default all that the setting allows and that do not wait for a request. Hindsight is
        always added.
    start
        Altitude (index) before the first round; default the middle one.
    lengths
        Rounds of each gapless segment, each at least 1; every segment begins at `start` again.
    progress
        Called with each policy's name before it is flown.
    draws
        So often a policy that draws its moves is flown, with the seeds from `seed` on.
    """
    world = setting.world
    wanted = flown_by_default() if policies is None else list(policies)
    makers = {name: policy_of(name) for name in wanted}
    if policies is None and setting.past is None:
        wanted.remove("fixed")
    begin = len(world.altitudes) // 2 if start is None else int(start)
    world.problem.check_action(begin)
    parts = [len(world.time)] if lengths is None else [int(length) for length in lengths]
    if min(parts, default=0) < 1 or sum(parts) != len(world.time):
        raise InvalidInput(f"segments of {parts} rounds do not add up to the data's {len(world.time)}")
    slices = _slices(parts)
    flights: dict[str, Flight] = {}
    past: list[tuple[Array, Array]] = []
    for name in wanted:
        if progress is not None:
            progress(name)
        made_policy = makers[name](setting)
        if name == OURS and "fixed" in wanted:
            past = _past_weeks(setting, made_policy)
        policy, trace = traced(made_policy)
        run = hc.simulate(policy, world, contexts_of(name, world), start=begin, seed=seed, episodes=parts)
        before = _before(run.actions, slices, begin)
        reasons = trace.reasons(before, run.actions)
        plans = trace.plans(policy.rule, before, run.actions)
        made = _made(world, run.actions)
        said = " ".join(part for part in (policy.explanation, trace.notice) if part)
        others = []
        if (run.probabilities < 1).any() and not registry.is_knowing(name):  # a yardstick is not a choice
            for other in range(seed + 1, seed + draws):
                again = hc.simulate(
                    made_policy, world, contexts_of(name, world), start=begin, seed=other, episodes=parts
                )
                others.append(Draw(_made(world, again.actions), again.movement_costs, again.actions))
        flights[name] = Flight(
            name, run.actions, before, made, run.movement_costs, run.probabilities, reasons, said, tuple(others), plans
        )
    for name in HINDSIGHT:
        if progress is not None:
            progress(name)
        actions = _hindsight(name, world, slices, begin)
        before = _before(actions, slices, begin)
        moving = world.problem.move_costs(before, actions)
        flights[name] = Flight(name, actions, before, _made(world, actions), moving, np.ones(len(actions)))
    return Backtest(site, world, begin, flights, tuple(parts), tuple(past))


def _past_weeks(setting: Setting, policy: hc.Policy) -> list[tuple[Array, Array]]:
    from holdcourse.wind.policy.planner import past_weeks  # compiled code that only this policy needs

    return past_weeks(setting, policy)


def _hindsight(name: str, world: WindWorld, parts: Sequence[slice], start: int) -> Indices:
    if name == "clairvoyant":
        paths = [hc.optimal_path(world.service[part], world.problem, start).actions for part in parts]
        return np.concatenate(paths)
    best = hc.best_fixed(world.service, world.problem, start, episodes=len(parts))  # each begins at the start again
    return np.full(len(world.time), best)


def _made(world: WindWorld, actions: Indices) -> Array:
    return world.energy[np.arange(len(actions)), actions]


def _before(actions: Indices, parts: Sequence[slice], start: int) -> Indices:
    """Return where the turbine was before each round."""
    return np.concatenate([np.append(start, actions[part][:-1]) for part in parts])


def _slices(lengths: Sequence[int]) -> list[slice]:
    ends = np.cumsum(lengths)
    return [slice(int(end) - length, int(end)) for end, length in zip(ends, lengths, strict=True)]


Wind: TypeAlias = WindData | Paths
Progress: TypeAlias = Callable[[str, int, int], None]  # what is flown now, how many are done, of how many

DRAWS = 5  # seeds of a policy that draws: one of them says little
WHAT_IF_DRAWS = 2  # at other rho, where five would take most of the time
WHAT_IF = (0.5, 1.0, 2.0, 4.0, 10.0, 60.0)  # times rho: moving costs twice as much, ..., a sixtieth
FEWEST_HISTORY_WEEKS = 26  # less does not know the seasons
USUAL_CEILING = 1000.0  # m; data that reach higher do not make a machine that does


@dataclass(frozen=True)
class Plan:
    """Plan of a backtest: altitudes, machine, prices, period and policies.

    Parameters
    ----------
    low, high, count
        Lowest, highest and number of altitudes, evenly spaced; by default 25 over all that the data cover.
    altitudes
        Altitudes in metres, instead of `low`, `high` and `count`.
    constraints
        Operational constraints; their ceiling and least height bound the altitudes.
    machine
        Machine, which determines the curve and is named in the report.
    allow_later_history
        Whether policies may learn from wind after the test period, which nobody could have known.
    draws
        Number of runs, with different seeds, of a policy that draws its moves at random; its line is their mean.
    factors
        Availability, losses and uncertainty of the figures per year.
    skill
        Skill of the forecasts whose worth is estimated.
    forecasts
        Real forecasts for the hours of the wind data, to which the skill is fitted instead.
    begin, end
        Test period, UTC, without `end`. Default: all data, or the part that is not used as history.
    curve, movement, rho
        Power curve, price of moving and weight of the energy, as in `wind_world`.
    context, hyperparameters, prior_mean
        Model of the learning policies, as in `Setting`.
    gauge_noise
        Standard deviation of the machine's own wind measurements, m/s; None: `wind-planner` estimates it.
    start_altitude
        Altitude before the first hour, metres; default: the middle one.
    policies
        Names of policies in the registry; default: all except those that are made on request.
    max_gap
        Largest gap in hours that is filled in; longer gaps divide the data into segments.
    hourly
        Whether finer data are averaged over hours.
    seed
        Seed of the policies that draw at random.
    what_if
        Other values of rho to try; default: `WHAT_IF` times rho.
    price
        Price of one kWh, for the tables; None leaves money out.
    currency
        Currency of the price, for the headers of tables: EUR.
    """

    low: float | None = None
    high: float | None = None
    count: int = period.MOST_ALTITUDES
    begin: str | None = None
    end: str | None = None
    curve: PowerCurve = field(default_factory=paper_curve)
    movement: str | float | tuple[str | float, str | float] = "paper"
    rho: float = 1.0
    context: Literal["hour", "periodic"] = "hour"
    hyperparameters: Literal["paper", "fitted"] = "paper"
    prior_mean: float | None = None
    gauge_noise: float | None = None
    start_altitude: float | None = None
    policies: tuple[str, ...] | None = None
    max_gap: float = 3.0
    hourly: bool = False
    seed: int = 0
    what_if: tuple[float, ...] | None = None
    price: float | None = None
    altitudes: tuple[float, ...] | None = None
    constraints: Constraints | None = None
    machine: Machine | None = None
    allow_later_history: bool = False
    draws: int = DRAWS
    factors: Factors = field(default_factory=Factors)
    skill: Skill = field(default_factory=Skill)
    forecasts: tuple[Forecasts, ...] = ()
    currency: str = ""

    def __post_init__(self) -> None:
        if self.machine is not None:
            object.__setattr__(self, "curve", self.machine.curve)
        if self.draws < 1:
            raise InvalidInput(f"draws must be 1 or more, because each policy is flown at least once; got {self.draws}")
        if self.altitudes is not None and not (self.low is None and self.high is None):
            raise InvalidInput("altitudes= names every altitude; leave out low= and high=")


@dataclass(frozen=True, eq=False)
class SiteResult:
    """The backtest of one site, and where its data came from.

    Attributes
    ----------
    what_if
        Result tables at other values of rho, ascending, including the plan's own value; empty if there are none.
    source, notes
        Notes on the wind data: their layout, credit and what was decided on the way.
    history_weeks
        Length of the history in weeks.
    setting
        Setting for which the policies were made: the machine, its altitudes and the history.
    files
        Files from which the wind and the history were read.
    """

    plan: Plan
    backtest: Backtest
    what_if: dict[float, list[Line]]
    source: str
    notes: tuple[str, ...]
    history_weeks: float
    setting: Setting
    files: tuple[Path, ...] = ()

    @cached_property
    def bankable(self) -> Bankable | None:
        """Net energy per year over all wind given; None where our policy was not flown, or with less than a year."""
        return _per_year(self.setting, self.plan) if OURS in self.backtest.flights else None

    def policy(self, name: str) -> hc.Policy:
        """Return a policy of the registry as it was at the beginning of its flight, to run it yourself."""
        return policy_of(name)(self.setting)

    @property
    def flown_words(self) -> str:
        """The machine, its altitudes, and what a metre costs: what the answer depends on most, in two sentences."""
        levels, curve = self.backtest.world.altitudes, self.plan.curve
        named = curve.name.replace("paper,", "the paper's textbook machine,")
        machine = named if self.plan.machine is None else self.plan.machine.title
        price = _price_words(self.backtest.world, self.plan)
        return (
            f"Flown: {machine}, at most {curve.largest_power:.1f} kW, at {len(levels)} altitudes from {levels[0]:.0f} "
            f"to {levels[-1]:.0f} m. {price[0].upper()}{price[1:]}."
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The notes on the data and the machine, without `flown_words`, sources and how the policies work.

        What a policy says of a history that it does not use is kept.
        """
        flights = self.backtest.flights.values()
        said = {_price_note(self.backtest.world, self.plan), *self.backtest.draw_words}
        said |= {flight.explanation for flight in flights if "set aside" not in flight.explanation}
        said |= set() if self.plan.machine is None else set(_origin(self.plan.machine))
        return tuple(note for note in self.notes if note not in said)

    @property
    def warnings(self) -> list[str]:
        """Warnings: why these data may not say much about next year."""
        found = self.backtest.warnings
        if self.history_weeks < FEWEST_HISTORY_WEEKS:
            days = f"{self.history_weeks * 7:.1f} days"
            found.append(
                f"The history covers {days}, not all seasons, so the best altitude in it may be a poor choice."
            )
        top = self.backtest.world.altitudes[-1]
        if self.plan.high is None and top > USUAL_CEILING:
            found.append(
                f"The altitudes to choose from go up to {top:.0f} m, as the data do; few machines fly above "
                f"{USUAL_CEILING:.0f} m. Say how high yours does with high=, e.g. high={USUAL_CEILING:.0f}."
            )
        return found

    @property
    def site(self) -> str:
        """Name of the site."""
        return self.backtest.site

    @property
    def period(self) -> str:
        """First and last day flown."""
        time = self.backtest.world.time.astype("datetime64[D]")
        return f"{time[0]} to {time[-1]}"


def run_backtest(
    wind: Wind,
    history: Wind | None = None,
    plan: Plan | None = None,
    *,
    site: str | None = None,
    progress: Progress | None = None,
    processes: int = 1,
    **loading: Any,
) -> SiteResult:
    """Backtest all policies at one site.

    Parameters
    ----------
    wind
        Wind data, or the file or files of one site.
    history
        Wind before the test period, which determines the fixed altitude and the prior. Default: the data before
        `plan.begin`; without `plan.begin`, the first quarter of the data.
    plan
        Altitudes, machine, price of moving, period and policies.
    site
        Name of the site; default: the name in the data.
    progress
        Function that is called before each flight.
    processes
        Number of processes. With 2, the other prices of moving are flown in a copy of this process, if the system has a
        second core, and the energy per year is computed at once; the result is the same.
    loading
        Options of `load`, such as lat and lon.

    Examples
    --------
    >>> import holdcourse as hc
    >>> plan = hc.wind.Plan(count=5, end="2010-09-01", policies=("fixed", "cgp-lcb"), what_if=())
    >>> result = hc.wind.run_backtest(hc.wind.bundled("test"), hc.wind.bundled("history"), plan)
    >>> result.backtest.verdict in ("yes", "no", "undecided")
    True
    """
    plan = plan or Plan()
    data = _data(wind, plan, loading)
    given = None if history is None else _data(history, plan, loading)
    if plan.forecasts:
        plan = replace(plan, skill=fitted_skill(plan.forecasts, [data, *([] if given is None else [given])]))
    later = plan.allow_later_history
    test, before, split_notes = period.split(data, given, plan.begin, plan.end, allow_later_history=later)
    altitudes, limit_notes = _altitudes(plan, [test, before], loading.get("surface_height"))
    pieces, dropped = period.pieces(test.onto(altitudes), plan.max_gap)
    past = period.past_of(before, altitudes)
    world = wind_world(
        np.concatenate([piece.time for piece in pieces]),
        altitudes,
        np.concatenate([piece.speed for piece in pieces]),
        curve=plan.curve,
        rho=plan.rho,
        movement=plan.movement,
    )
    setting = Setting(world, past, plan.context, plan.hyperparameters, plan.prior_mean, gauge_noise=plan.gauge_noise)
    if plan.hyperparameters == "fitted":
        setting = setting.fitted()  # once, not for every policy and every rho
    flights = _Flights(setting, plan, tuple(len(piece) for piece in pieces), _name(site, data, wind), progress)
    aside, here = flights.divided(processes)
    weeks = len(past.speed) * before.step / HOURS_PER_WEEK
    files = tuple(path for part in (wind, history) for path in _files(part))
    # The energy per year is what every report wants next: it is computed where there is less to do.
    years_aside = processes > 1 and not aside and OURS in flights.wanted

    def beside() -> tuple[dict[float, list[Line]], Bankable | None]:
        return flights.quietly().what_if(aside), _per_year(setting, plan) if years_aside else None

    with second_process(beside, worthwhile=bool(aside) or years_aside) as others:
        flown = flights.fly(world, plan.policies)
        explained = [flight.explanation for flight in flown.flights.values() if flight.explanation]
        machine_notes = () if plan.machine is None else _machine_notes(plan.machine)
        told = (*machine_notes, _price_note(world, plan), *explained, *flown.draw_words)
        notes = (*data.notes, *split_notes, *dropped, *limit_notes, *told)
        by_rho: dict[float, list[Line]] = {}
        result = SiteResult(plan, flown, by_rho, data.source, notes, weeks, setting, files)
        found = flights.what_if(here) | {plan.rho: flown.lines}
        if aside:
            flights.tell("all years, for the energy per year")
            result.bankable  # noqa: B018  # which the result keeps
            flights.tell("other prices of moving")
            found |= others.result()[0]
        elif years_aside:
            flights.tell("all years, for the energy per year")
            vars(result)["bankable"] = others.result()[1]  # where a cached property keeps what it has computed
        by_rho |= {rho: found[rho] for rho in flights.others}
    return result


def _per_year(setting: Setting, plan: Plan) -> Bankable | None:
    """Fly all years of the wind with our policy as it is made for this setting."""
    made_by = policy_of(OURS)(setting).made_by
    options = {} if made_by is None else made_by[1]
    if "caution" not in options:
        return None
    caution = float(options["caution"])
    return bankable(setting, caution, plan.factors, plan.price, plan.skill, plan.currency)


def _altitudes(plan: Plan, series: Sequence[WindData], ground: float | None) -> tuple[Array, list[str]]:
    """Return the altitudes to choose from, within what constraints allow, and what these say."""
    limits = plan.constraints
    if limits is None:
        low, high, said = plan.low, plan.high, []
    else:
        bottom, top = limits.lowest(), limits.highest(ground)
        said = limits.words
        covered = period.choose_altitudes(None, None, 2, series)
        low = max(bottom, covered[0]) if plan.low is None and plan.altitudes is None else plan.low
        high = min(covered[1], np.inf if top is None else top) if plan.high is None else plan.high
        wanted = [each for each in (*(plan.altitudes or ()), plan.low, plan.high) if each is not None]
        forbidden = [each for each in wanted if each < bottom or (top is not None and each > top)]
        if forbidden:
            raise InvalidInput(
                f"{limits.name} allows altitudes from {bottom:g} m"
                + ("" if top is None else f" to {top:g} m")
                + f", but {', '.join(f'{each:g} m' for each in forbidden)} was asked for; leave that out"
            )
        if low is not None and high is not None and not low < high:
            raise InvalidInput(
                f"{limits.name} leaves no choice of altitude: it requires at least {bottom:g} m, but data or ceiling "
                f"end at {high:g} m; give data that reach higher, or other constraints"
            )
    if plan.altitudes is not None:
        return period.listed_altitudes(plan.altitudes, series), said
    if plan.curve.altitudes is not None:  # a family has curves for these, and says nothing of others
        least, most = plan.curve.altitudes[0], plan.curve.altitudes[-1]
        covered = period.choose_altitudes(None, None, 2, series)
        low = max(least, covered[0]) if low is None else low
        high = min(most, covered[1]) if high is None else high
    return period.choose_altitudes(low, high, plan.count, series), said


def _machine_notes(machine: Machine) -> list[str]:
    source, price = _origin(machine)
    said = [f"machine: {machine.title}; {machine.wind_words}", source]
    return [*said, *(f"machine: {note}" for note in machine.notes), price]


def _origin(machine: Machine) -> tuple[str, str]:
    """Return where a machine's curve, and its price of moving, come from."""
    return (
        f"machine: {machine.source}; {machine.licence}",
        f"machine: a change of altitude costs {machine.movement_words}",
    )


def _price_note(world: WindWorld, plan: Plan) -> str:
    return f"moving: {_price_words(world, plan)} (movement= for another price)"


def _price_words(world: WindWorld, plan: Plan) -> str:
    """What a metre costs in this backtest: the number that the answer depends on most."""
    up, down = (f"{price:.3g} kWh" for price in (world.climb, world.sink))
    each = f"a metre of altitude costs {up}" if up == down else f"a metre up costs {up}, a metre down {down}"
    of_paper = {"paper": ", as the paper prints it", "physical": ", a sixtieth of what the paper prints"}
    return each + of_paper.get(str(plan.movement), "")


class _Flights:
    """One setting flown several times, with one count of progress over all."""

    def __init__(
        self, setting: Setting, plan: Plan, lengths: tuple[int, ...], site: str, progress: Progress | None
    ) -> None:
        self.setting, self.plan, self.lengths, self.site, self.progress = setting, plan, lengths, site, progress
        self.start = None if plan.start_altitude is None else _nearest(setting.world.altitudes, plan.start_altitude)
        wanted = flown_by_default() if plan.policies is None else list(plan.policies)
        self.wanted = tuple(wanted)
        # What-if compares what could be flown; `stationary` and those that know the wind would only take time.
        self.compared = tuple(name for name in wanted if name != "stationary" and not registry.is_knowing(name))
        factors = [plan.rho * factor for factor in WHAT_IF] if plan.what_if is None else list(plan.what_if)
        self.others = sorted({*factors, plan.rho}) if factors else []
        rounds = max(0, len(self.others) - 1)
        self.total = len(wanted) + 2 + rounds * (len(self.compared) + 2)
        self.done = 0

    def divided(self, processes: int) -> tuple[list[float], list[float]]:
        """Return the values of rho to fly in another process, and those to fly here, beside the plan's own."""
        rest = [rho for rho in self.others if rho != self.plan.rho]
        if processes < 2:
            return [], rest
        self.total -= len(rest) * (len(self.compared) + 2)
        return rest, []

    def quietly(self) -> _Flights:
        """Return the same flights, whose progress nobody follows."""
        return _Flights(self.setting, self.plan, self.lengths, self.site, None)

    def tell(self, what: str) -> None:
        """Say what is flown next."""
        if self.progress is not None:
            self.progress(what, self.done, self.total)

    def fly(
        self, world: WindWorld, policies: tuple[str, ...] | None, prefix: str = "", draws: int | None = None
    ) -> Backtest:
        def tell(name: str) -> None:
            self.tell(prefix + name)
            self.done += 1

        return backtest(
            replace(self.setting, world=world),
            policies,
            start=self.start,
            seed=self.plan.seed,
            site=self.site,
            lengths=self.lengths,
            progress=tell,
            draws=self.plan.draws if draws is None else draws,
        )

    def what_if(self, rhos: Sequence[float]) -> dict[float, list[Line]]:
        draws = min(WHAT_IF_DRAWS, self.plan.draws)
        worlds = {rho: replace(self.setting.world, rho=rho) for rho in rhos}
        return {
            rho: self.fly(world, self.compared, f"what if rho = {rho:g}: ", draws).lines
            for rho, world in worlds.items()
        }


def _nearest(altitudes: Array, wanted: float) -> int:
    """Return the altitude (index) nearest to one that lies among them."""
    if not altitudes[0] <= wanted <= altitudes[-1]:
        raise InvalidInput(
            f"the start altitude of {wanted:g} m lies outside the altitudes, {altitudes[0]:g} to {altitudes[-1]:g} m; "
            "choose one of them"
        )
    return int(np.argmin(np.abs(altitudes - wanted)))


def _data(wind: Wind, plan: Plan, loading: dict[str, Any]) -> WindData:
    data = wind if isinstance(wind, WindData) else load(wind, **loading)
    return data.hourly() if plan.hourly else data


def _files(wind: Wind | None) -> list[Path]:
    return [] if wind is None or isinstance(wind, WindData) else [Path(path) for path in expand(wind)]


def _name(site: str | None, data: WindData, wind: Wind) -> str:
    if site is not None:
        return site
    known = str(data.site)
    if known != "site not stated" or isinstance(wind, WindData):
        return known
    return Path(expand(wind)[0]).stem
