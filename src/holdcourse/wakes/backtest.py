"""Would wake steering have paid off? Runs policies over a record, and traces the energy gained against yaw travel.

Every policy decides at the beginning of an interval and knows the wind before it, but not the wind of the interval
(unless the study is `knowing`, which reports call idealised). The energy of an interval is that of the wake model in
the wind that was recorded. The planners learn the wind's drift from a history that ends before the record begins.
Without a history they learn it from the other parts of the record, in turn, so that no part is judged on what it
taught. Some of those parts are later than the decisions, so how the wind usually turns is then known from the future.

A large farm is decided cluster by cluster (`clusters`). Each cluster has its own settings, problem and plan, and all
choices together are one vector of offsets. The energy of that vector is the model's answer for the whole farm, not a
sum over clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

import holdcourse as hc
from holdcourse._numeric.steering import held
from holdcourse.errors import InvalidInput, MissingExtra, counted
from holdcourse.units import amount
from holdcourse.wakes.clusters import ClusteredTable
from holdcourse.wakes.drift import FEWEST as FEWEST_STEPS
from holdcourse.wakes.drift import learn_drift
from holdcourse.wakes.farm import INSTALL, WakeModel
from holdcourse.wakes.groups import TOGETHER
from holdcourse.wakes.learning import LearnedEnergy, wakeless
from holdcourse.wakes.offsets import in_zone, rate_limited
from holdcourse.wakes.planning import PlanAhead, PlannedEnergy, degree_prices, follow, steering_problem
from holdcourse.wakes.record import Rounds, WindRecord
from holdcourse.wakes.result import (
    BASE,
    HINDSIGHT,
    LEARNER,
    OURS,
    POLICIES,
    RULES,
    Backtest,
    Point,
    Steered,
    Study,
    label_of,
)
from holdcourse.wakes.table import EnergyTable
from holdcourse.wakes.world import SteeringWorld, around, gp_md_on

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
Progress: TypeAlias = Callable[[str, float], None]

NOTHING = np.zeros(0)
AT_ONCE = 40_000  # offset vectors that a model is asked for at once: more would only take more memory
ALONE = (LEARNER, "gp-md")  # decide for a farm as a whole only
WORK = {OURS: 8.0, LEARNER: 40.0, "gp-md": 400.0}  # of a run beside that of a rule, about; for the progress only
DECIDING = 0.4  # share of the work at a farm in clusters that is not FLORIS'


def backtest(
    table: EnergyTable | ClusteredTable,
    record: WindRecord,
    study: Study | None = None,
    *,
    model: WakeModel | None = None,
    history: WindRecord | None = None,
    truth: EnergyTable | None = None,
    allow_later_history: bool = False,
    progress: Progress | None = None,
) -> Backtest:
    """Run every policy over a record.

    Parameters
    ----------
    table
        Energy table that the policies use: of the farm or, if it is large, of its clusters.
    record
        Wind record on which policies are judged.
    study
        Policies and prices to compare; default: `Study()`.
    model
        Wake model that computes what the table does not contain, such as offsets through which a hysteresis passes, and
        the joint offsets of clusters.
    history
        Earlier record from which the wind's drift is learned; it must end before the record begins.
    truth
        Table of the true energy, if it differs from `table`: the same settings computed by another model.
    allow_later_history
        Whether to accept a history that ends after the record begins; reports then call it hindsight.

    Examples
    --------
    >>> import holdcourse as hc
    >>> table, record = hc.wakes.bundled_table(), hc.wakes.bundled_record().between("2014-01-01", "2014-03-01")
    >>> found = hc.wakes.backtest(table, record, hc.wakes.Study(policies=("lookup", "wake-planner"), front=()))
    >>> found.line("wake-planner").travel < found.line("lookup").travel / 2
    True
    """
    study = study or Study()
    told = progress or (lambda what, share: None)
    _check_tables(table, truth, model, study)
    later = check_study(len(table.farm), record, study, history, allow_later_history=allow_later_history)
    rounds = record.rounds(study.hours, knowing=study.knowing)
    steering = _Steering(table, truth, model, rounds, study, history)
    rounds = steering.rounds
    wanted = (BASE, *(name for name in study.policies if name != BASE))
    if not steering.together:
        wanted = tuple(name for name in wanted if name not in ALONE)
    runs: dict[str, Steered] = {BASE: steering.base()}
    if not runs[BASE].energy.sum() > 0:
        raise InvalidInput(
            f"the farm makes no energy in this record: no wind in it reaches {steering.table.speeds[0]:g} m/s (the "
            f"strongest has {record.speed.max():g} m/s). Is the speed in m/s, and is it the right column?"
        )
    fronts: dict[str, list[Steered]] = {}
    learned = None
    tasks = _tasks(steering, wanted)
    total = sum(task.work for task in tasks)
    deciding = 1.0 if steering.together else DECIDING
    done = 0.0
    for task in tasks:
        told(label_of(task.policy), deciding * done / total)
        done += task.work
        if task.policy == LEARNER:
            runs[LEARNER], learned = steering.learning()
            continue
        run = task.run()
        if task.key is not None:
            runs[task.key] = run
        if task.on_front:
            fronts.setdefault(task.policy, []).append(run)
    steering.settle(lambda share: told("computing what offsets make", deciding + (1 - deciding) * share))
    told("fronts", 1.0)
    found = Backtest(
        study=study,
        table=steering.truth,
        believed=table,
        rounds=rounds,
        prices=steering.prices,
        runs=runs,
        fronts={},
        front_weeks={},
        drift=steering.drift,
        drift_source=steering.drift_source,
        drift_judged=steering.drift_judged,
        learned=learned,
        longest=steering.longest,
        hindsight=later,
        notes=(table.words, *record.notes),
    )
    points: dict[str, list[Point]] = {}
    weeks: dict[str, list[Array]] = {}
    for name, each in fronts.items():
        order = sorted(each, key=lambda run: float(run.travel.sum()))
        points[name] = [found.point(run) for run in order]
        weeks[name] = [found.weekly(run.energy) for run in order]
    return replace(found, fronts=points, front_weeks=weeks)


class _Task(NamedTuple):
    """A run of a policy: how much work it is beside others, and where it belongs."""

    policy: str
    work: float
    run: Callable[[], Steered]
    key: str | None = None
    on_front: bool = False


def _tasks(steering: _Steering, wanted: Sequence[str]) -> list[_Task]:
    """Return what is to be run, in the order of the policies wanted."""
    study, tasks = steering.study, []
    for name in wanted:
        work = WORK.get(name, 1.0)
        if name == "lookup":
            tasks.append(_Task(name, work, lambda: steering.rule("lookup", None, steering.looked_up), name, True))
        elif name in RULES:
            for setting in study.hysteresis if name == "hysteresis" else study.rate_limits:
                run = partial(_ruled, steering, name, setting)
                tasks.append(_Task(name, work, run, f"{name} {setting:g}", True))
        elif name in (OURS, HINDSIGHT):
            tasks.append(_Task(name, work, partial(steering.priced, name, None), name))
            tasks += [
                _Task(name, work, partial(steering.priced, name, price), None, True) for price in steering.front_prices
            ]
        elif name == "gp-md":
            tasks.append(_Task(name, work, steering.gp_md, name))
        elif name == LEARNER:
            tasks.append(_Task(name, work, steering.base))
    return tasks


def _ruled(steering: _Steering, name: str, setting: float) -> Steered:
    return steering.rule(name, setting, steering.ruled(name, setting))


def check_study(
    turbines: int,
    record: WindRecord,
    study: Study,
    history: WindRecord | None = None,
    *,
    allow_later_history: bool = False,
) -> bool:
    """Refuse what cannot be backtested, before FLORIS computes anything; return whether the history is hindsight."""
    degree_prices(study.price, turbines, study.kwh_price)
    _yaw_speed(study)
    if turbines > TOGETHER:
        _check_clusters(turbines, study)
    rounds = record.rounds(study.hours, knowing=study.knowing)
    if len(rounds) < 2:
        raise InvalidInput(f"the record has only {counted(len(rounds), 'round')}; give a longer one")
    later = history is not None and bool(history.time[-1] >= record.time[0])
    if history is not None and later and not allow_later_history:
        raise InvalidInput(
            f"the history ends at {history.time[-1]}Z, but the record begins at {record.time[0]}Z, so decisions would "
            "know later wind. Give a history that ends earlier; to learn from it anyway, give "
            "allow_later_history=True"
        )
    if history is None and (steps := int(rounds.follows.sum())) < FEWEST_STEPS:
        raise InvalidInput(
            f"the record has {counted(steps, 'step')} from one interval to the next, but at least {FEWEST_STEPS} are "
            "needed to learn how the direction changes. Give a longer record, or an earlier one as a history"
        )
    return later


def _yaw_speed(study: Study) -> float:
    """Return the yaw speed of a study, degrees per second."""
    speed = amount(study.yaw_speed, "°/s", "yaw_speed") if isinstance(study.yaw_speed, str) else study.yaw_speed
    if not speed > 0:
        raise InvalidInput(f"yaw_speed={study.yaw_speed!r} must be above 0, in degrees per second")
    return float(speed)


def _check_clusters(turbines: int, study: Study) -> None:
    """Refuse policies that cannot run a farm in clusters."""
    asked = [name for name in study.policies if name in ALONE]
    if asked and study.policies != POLICIES:
        raise InvalidInput(
            f"{' and '.join(asked)} cannot run a farm in clusters ({turbines} turbines): the power of one "
            f"cluster is not measured apart from that of the others. Leave it out of the policies"
        )


def _check_tables(
    table: EnergyTable | ClusteredTable, truth: EnergyTable | None, model: WakeModel | None, study: Study
) -> None:
    """Refuse what a table cannot be backtested with."""
    if isinstance(table, EnergyTable):
        if truth is not None and not np.array_equal(truth.offsets[: table.n], table.settings):
            raise InvalidInput(
                "the true table has other settings than the assumed one; compute it for the same offset vectors"
            )
        return
    if truth is not None:
        raise InvalidInput("a farm in clusters can only be judged by its own model; leave out truth=")
    if model is None:
        raise MissingExtra(
            f"FLORIS computes the energy of a farm in clusters: {INSTALL}, and give the farm's FLORIS file"
        )
    _check_clusters(len(table.farm), study)


def within_reach(wanted: Array, longest: float) -> Array:
    """Return the offsets of nacelles that turn towards those wanted, (t, m), by at most `longest` degrees a round."""
    offsets, at = np.empty_like(wanted), np.zeros(wanted.shape[1])
    for t, target in enumerate(wanted):
        at = at + np.clip(target - at, -longest, longest)
        offsets[t] = at
    return offsets


def joint_energy(rounds: Rounds, table: EnergyTable, offsets: Array, model: WakeModel) -> Array:
    """Return what offsets of all turbines, (t, m), make in each round by the model, kWh, (t,).

    As an energy table would interpolate it, without a table of every vector: a large farm has as many as rounds.
    """
    return joint_energies(rounds, table, [offsets], model)[0]


def joint_energies(
    rounds: Rounds,
    table: EnergyTable,
    runs: Sequence[Array],
    model: WakeModel,
    progress: Callable[[float], None] | None = None,
) -> list[Array]:
    """Return the same for several runs at once: what they have in common is computed once."""
    told = progress or (lambda share: None)
    each, places = rounds.readings_of()
    distinct = [np.unique(offsets, axis=0, return_inverse=True) for offsets in runs]
    vectors, number = np.unique(np.concatenate([found for found, _ in distinct]), axis=0, return_inverse=True)
    ends = np.cumsum([len(found) for found, _ in distinct])[:-1]
    held = [of[np.ravel(which)] for (_, which), of in zip(distinct, np.split(np.ravel(number), ends), strict=True)]
    winds = table.places(rounds.record.direction[places], rounds.record.speed[places])
    corners = winds.corners()
    weights = np.concatenate([np.where(winds.calm, 0.0, weight) for _, _, weight in corners])
    at = np.concatenate([d * len(table.speeds) + s for d, s, _ in corners])
    # A cell is a direction, a speed and a vector, as one number; in its order directions stay together.
    cells = [at * len(vectors) + np.tile(vector[each], len(corners)) for vector in held]
    still = (vectors == 0).all(axis=1)
    known = np.unique(np.concatenate([np.unique(cell[weights > 0]) for cell in cells]))
    place, v = np.divmod(known, len(vectors))
    d, s = np.divmod(place, len(table.speeds))
    made = table.power[d, s, 0]
    asked = np.flatnonzero(~still[v])
    for first in range(0, len(asked), AT_ONCE):
        told(first / len(asked))
        some = asked[first : first + AT_ONCE]
        made[some] = model.power(table.directions[d[some]], table.speeds[s[some]], vectors[v[some]]).sum(axis=1)
    found = []
    for cell in cells:
        # What has no weight is not computed, and counts nothing.
        which = np.minimum(np.searchsorted(known, cell), len(known) - 1)
        power = np.where(weights > 0, weights * made[which], 0.0) if len(known) else np.zeros(len(cell))
        whole = power.reshape(len(corners), len(rounds), -1).sum(axis=(0, 2))
        found.append(np.asarray(whole * rounds.record.step_hours))
    return found


def cheapest(costs: Array, moves: Array) -> Indices:
    """Return the settings of least total cost from no steering on, (t,), where some moves are infinitely expensive."""
    onward = np.zeros(len(moves))
    ahead = np.empty(costs.shape, dtype=np.int64)
    for t in range(len(costs) - 1, -1, -1):
        total = moves + (costs[t] + onward)
        ahead[t] = total.argmin(axis=1)
        onward = total.min(axis=1)
    actions, at = np.empty(len(costs), dtype=np.int64), 0
    for t, row in enumerate(ahead):
        actions[t] = at = int(row[at])
    return actions


def _wind_words(rounds: Rounds, steps: int) -> str:
    days = rounds.time.astype("datetime64[D]")
    return f"{rounds.record.name}, {days[0]} to {days[-1]}, {steps:,} steps of {60 * rounds.hours:g} minutes"


class _Steering:
    """The policies of a study at work on its rounds."""

    def __init__(
        self,
        table: EnergyTable | ClusteredTable,
        truth: EnergyTable | None,
        model: WakeModel | None,
        rounds: Rounds,
        study: Study,
        history: WindRecord | None,
    ) -> None:
        past = None if history is None else history.rounds(rounds.hours, knowing=study.knowing)
        if past is not None:  # so that nothing at all is chosen on what is judged
            newest = max(1, round(past.memory * past.record.step_hours / rounds.record.step_hours))
            rounds = replace(rounds, newest=newest)
        self.together = isinstance(table, EnergyTable)
        self.table = table if isinstance(table, EnergyTable) else table.whole
        self.truth = truth or self.table
        self.model, self.rounds, self.study = model, rounds, study
        self._open: list[Steered] = []  # runs whose energy is still to be computed
        everybody = np.arange(len(table.farm))
        self.clusters = (
            [(everybody, table)]
            if isinstance(table, EnergyTable)
            else list(zip(table.members, table.tables, strict=True))
        )
        self.prices = degree_prices(study.price, len(table.farm), study.kwh_price)
        self.contexts = rounds.contexts
        speed = _yaw_speed(study)
        reach = speed * 3600.0 * rounds.hours
        settings = [part.settings for _, part in self.clusters]
        self.longest = reach if reach < max(float(np.ptp(each)) for each in settings) else None
        nearest = min((float(np.abs(each[1:]).max(axis=1).min()) for each in settings if len(each) > 1), default=0.0)
        if reach * (1 + 1e-9) < nearest:
            raise InvalidInput(
                f"at {speed:g} degrees per second a nacelle turns by {reach:.3g} degrees between two decisions, "
                f"less than the {nearest:g} degrees to the nearest setting: nothing could ever be steered. Decide less "
                "often (hours=), or give a higher yaw_speed="
            )
        if self.longest is not None and "gp-md" in study.policies:
            raise InvalidInput(
                f"a nacelle turns by at most {reach:.3g} degrees between two decisions here, but gp-md does not "
                "support such a limit; leave it out of the policies, or decide less often (hours=)"
            )
        grid = (self.table.directions, self.table.speeds)
        if past is not None:
            learned = learn_drift(past, *grid)
            self.parts = [(slice(0, len(rounds)), learned)]
            self.drift = learned
            self.drift_source = self.drift_judged = _wind_words(past, learned.steps)
        else:
            edges = np.linspace(0, len(rounds), study.folds + 1).astype(int).tolist()
            self.parts = []
            for a, b in pairwise(edges):
                known = np.ones(len(rounds), dtype=bool)
                known[a:b] = False
                self.parts.append((slice(a, b), learn_drift(rounds, *grid, known)))
            self.drift = learn_drift(rounds, *grid)
            self.drift_source = _wind_words(rounds, self.drift.steps)
            self.drift_judged = (
                f"the other {study.folds - 1} of {study.folds} parts of {rounds.record.name}, later ones too: no "
                "history was given"
            )

    @cached_property
    def energy(self) -> Array:
        """What every setting of a farm that is decided together makes in each round, kWh, (t, n)."""
        return self.rounds.energy(self.truth)

    @cached_property
    def problem(self) -> hc.Problem:
        """The settings of a farm that is decided together, at the study's price."""
        return steering_problem(self.table, self.prices)

    def _steered(self, policy: str, setting: float | None, offsets: Array, energy: Array) -> Steered:
        before = np.concatenate([np.zeros((1, offsets.shape[1])), offsets[:-1]])
        return Steered(policy, setting, offsets, energy, np.abs(offsets - before))

    def _run(self, policy: str, setting: float | None, vectors: Indices) -> Steered:
        energy = self.rounds.energy_of(self.truth, vectors)
        return self._steered(policy, setting, self.truth.offsets[vectors], energy)

    @cached_property
    def alone(self) -> Array:
        """What the table says that no steering makes in each round, kWh, (t,): as a farm would reckon it."""
        return self.rounds.energy_of(self.table, np.zeros(len(self.rounds), dtype=np.int64))

    def base(self) -> Steered:
        """Return what not steering makes."""
        return self._run(BASE, None, np.zeros(len(self.rounds), dtype=np.int64))

    @cached_property
    def _bins(self) -> tuple[Indices, Indices]:
        bins = len(self.table.directions)
        direction = np.rint(self.contexts[:, 0] / (360.0 / bins)).astype(np.int64) % bins
        return direction, np.abs(self.contexts[:, 1][:, None] - self.table.speeds).argmin(axis=1)

    @property
    def looked_up(self) -> Array:
        """The lookup table's offsets for the wind that each decision knows, (t, m)."""
        return self.table.offsets[self.table.lookup][self._bins]

    def ruled(self, name: str, setting: float) -> Array:
        """Return the offsets of a rule, (t, m)."""
        if name == "rate-limit":
            return rate_limited(self.table, setting)[self._bins]
        inside = in_zone(self.table, self.contexts[:, 0], setting)
        return np.asarray(held(self.looked_up, inside, np.zeros(len(self.table.farm))))

    def rule(self, name: str, setting: float | None, offsets: Array) -> Steered:
        """Return what a rule's offsets, (t, m), make."""
        if self.longest is not None:
            offsets = within_reach(offsets, self.longest)
        return self._billed(name, setting, offsets)

    def _billed(self, name: str, setting: float | None, offsets: Array) -> Steered:
        """Return what any offsets, (t, m), make; what the table does not know is asked of the model."""
        if not self.together:
            run = self._steered(name, setting, offsets, np.full(len(self.rounds), np.nan))
            self._open.append(run)
            return run
        each, places = self.rounds.readings_of()
        record = self.rounds.record
        self.truth, vectors = self.truth.knowing(
            record.direction[places], record.speed[places], offsets[each], self.model
        )
        return self._run(name, setting, vectors.reshape(len(self.rounds), -1)[:, 0])

    def settle(self, progress: Callable[[float], None]) -> None:
        """Fill in what the offsets of a farm in clusters made: of all runs at once, since they have much in common."""
        if not self._open:
            return
        assert self.model is not None  # as `_check_tables` says
        made = joint_energies(self.rounds, self.table, [run.offsets for run in self._open], self.model, progress)
        for run, energy in zip(self._open, made, strict=True):
            run.energy[:] = energy
        self._open.clear()

    @cached_property
    def front_prices(self) -> list[float]:
        """Prices of a degree that trace a front, kWh: from hardly any to more than steering is worth."""
        gains = []
        for cluster, table in self.clusters:
            problem = steering_problem(table, self.prices[cluster])
            gains.append(-PlannedEnergy(table, self.drift, problem).season_costs(0).min(axis=2).ravel())
        best = np.concatenate(gains)
        typical = float(np.quantile(best[best > 0], 0.9)) if (best > 0).any() else 1.0
        return [share * typical / 10.0 for share in self.study.front]

    def priced(self, name: str, price: float | None) -> Steered:
        """Return what the planner or hindsight makes at a price of a degree; None: the study's."""
        prices = self.prices if price is None else np.full(len(self.prices), price)
        taken = [self._taken(name, table, steering_problem(table, prices[cluster])) for cluster, table in self.clusters]
        if self.together:
            return self._run(name, price, taken[0])
        offsets = np.zeros((len(self.rounds), len(self.prices)))
        for (cluster, table), actions in zip(self.clusters, taken, strict=True):
            offsets[:, cluster] = table.settings[actions]
        return self._billed(name, price, offsets)

    def _taken(self, name: str, table: EnergyTable, problem: hc.Problem) -> Indices:
        """Return the settings (indices) that the planner or hindsight takes with a table, (t,)."""
        if name == HINDSIGHT:
            energy = self.energy if self.together else self.rounds.energy(table)
            costs = energy[:, :1] - energy
            if self.longest is None:
                return np.asarray(hc.optimal_path(costs, problem, 0).actions)
            return cheapest(costs, PlannedEnergy(table, self.drift, problem, self.longest).moves)
        actions, at = [], 0
        for part, drift in self.parts:
            planned = PlannedEnergy(table, drift, problem, self.longest)
            actions.append(follow(planned, self.contexts[part], at))
            at = int(actions[-1][-1])
        return np.concatenate(actions)

    def learning(self) -> tuple[Steered, LearnedEnergy]:
        """Return what the learner makes, told the power of every round with noise, and its model at the end."""
        rule = PlanAhead(self.problem, self.longest)
        state, carried = rule.begin(0, self.study.seed), None
        allowed = np.ones(self.problem.n, dtype=bool)
        _, places = self.rounds.readings_of()
        free = np.interp(self.rounds.record.speed[places], self.table.speeds, wakeless(self.table), left=0.0)
        free = free.reshape(len(self.rounds), -1).sum(axis=1) * self.rounds.record.step_hours
        actions = np.empty(len(self.rounds), dtype=np.int64)
        costs: LearnedEnergy | None = None
        for part, drift in self.parts:
            costs = LearnedEnergy(self.table, drift, self.problem, self.longest, self.study.at_most)
            if carried is not None:
                costs.restore(carried)
            for t in range(part.start, part.stop):
                context = self.contexts[t]
                choice = rule.step(state, hc.rules.View(NOTHING, context, allowed, model=costs))
                state, actions[t] = choice.state, choice.action
                error = 1.0 + self.study.noise * hc.measurement_noise(self.study.seed, t)
                if free[t] > 0:  # `power_surplus` of the interval
                    surplus = (self.energy[t, choice.action] * error - self.alone[t]) / free[t]
                    costs.learn(choice.action, context, float(surplus))
            carried = costs.state()
        assert costs is not None
        return self._run(LEARNER, None, actions), costs

    def gp_md(self) -> Steered:
        """Return what the paper's algorithm makes, with the table as its prior mean, told the same power."""
        contexts, told = around(self.contexts), np.zeros(0)
        actions = np.zeros(0, dtype=np.int64)
        for k, (part, drift) in enumerate(self.parts):
            policy = gp_md_on(self.table, drift, self.problem)
            for t, action in enumerate(actions.tolist()):  # what it was told so far, on this part's prior mean
                policy.costs.learn(action, contexts[t], float(told[t]))
            world = SteeringWorld(self.problem, self.energy[part], self.study.noise, self.alone[part])
            start = int(actions[-1]) if len(actions) else 0
            run = hc.simulate(policy, world, contexts[part], start=start, seed=self.study.seed + k)
            actions, told = np.concatenate([actions, run.actions]), np.concatenate([told, run.measurements])
        return self._run("gp-md", None, actions)
