"""A world as a Gymnasium environment, and a policy as an agent in it (extra ``[gym]``).

For people who want to compare an agent that learned in Gymnasium's loop with our policies, or ours with theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdcourse.deciding.policy import Policy
from holdcourse.errors import InvalidInput, MissingExtra, counted, shown
from holdcourse.learning.history import check_contexts
from holdcourse.running.controller import Controller
from holdcourse.worlds.simulation import World, measurement_noise, shown_costs

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise MissingExtra(
        f'holdcourse.ext.gymnasium needs Gymnasium ({error}); install it with: pip install "holdcourse[gym]"'
    ) from error

Array: TypeAlias = NDArray[np.float64]
Observation: TypeAlias = dict[str, Any]
Info: TypeAlias = dict[str, Any]
ContextSource: TypeAlias = ArrayLike | Callable[[int], ArrayLike]

LARGEST_SEED = 2**63 - 1


class WorldEnv(gymnasium.Env[Observation, np.int64]):
    """A world as an environment: in each round, see the context, choose an action, and pay for it and for the move.

    An observation is a dict with the round's `context` (d numbers) and the present `action` of the machine; with
    `observe_measurement` also the last `measurement` (0 before the first). ``gymnasium.wrappers.FlattenObservation``
    makes one vector of it. An episode is one pass over the contexts. It is truncated at the last context, because the
    world would continue, and the observation after it shows that context again.

    The info of `reset` and `step` contains what cannot be observed: the number of the `round` and its true `costs`,
    which only agents that are meant to know them should use. After a step it also contains the `measurement` and the
    true bill of the round (`service`, `movement`).

    Parameters
    ----------
    world
        Any `holdcourse.World`.
    contexts
        Context of every round, shape (T,) or (T, d); or a function of the episode's seed that returns the contexts.
    start
        Action before the first round, by its index. ``reset(options={"start": 3})`` begins one episode at another
        action.
    reward
        Kind of reward. "measured": minus the measured cost and the movement cost. "true": minus the true cost and the
        movement cost, for worlds whose measurements are not costs (such as a wind gauge).
    observe_measurement
        Whether an observation contains the last measurement.
    context_bounds
        Lowest and highest context, two numbers or two rows of d numbers. Default: those of `contexts`; infinite if
        `contexts` is a function.
    render_mode
        Render mode; with "ansi", `render` describes the last round in one line.

    Examples
    --------
    ::

        env = WorldEnv(world, lambda seed: world.context_sequence("daily", rounds=200, seed=seed))
        observation, info = env.reset(seed=0)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's name, and an instance sets none

    def __init__(
        self,
        world: World,
        contexts: ContextSource,
        *,
        start: int = 0,
        reward: Literal["measured", "true"] = "measured",
        observe_measurement: bool = False,
        context_bounds: ArrayLike | None = None,
        render_mode: str | None = None,
    ) -> None:
        world.problem.check_action(start)
        if not (isinstance(reward, str) and reward in ("measured", "true")):
            raise InvalidInput(f"reward must be 'measured' or 'true', got {shown(reward)}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InvalidInput(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.world = world
        self.start = int(start)
        self.reward = reward
        self.observe_measurement = bool(observe_measurement)
        self.render_mode = render_mode
        self._source = contexts
        self._contexts = self._sequence(0)  # also tells the number of axes
        low, high = self._bounds(context_bounds)
        observed: dict[str, spaces.Space[Any]] = {
            "context": spaces.Box(low, high, dtype=np.float64),
            "action": spaces.Discrete(world.problem.n),
        }
        if self.observe_measurement:
            observed["measurement"] = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict(observed)
        self.action_space = spaces.Discrete(world.problem.n)
        self._round = len(self._contexts)  # no episode has begun
        self._place = self.start
        self._measurement = 0.0
        self._words = "no episode has begun"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode. With `seed` the noise is that of ``simulate(..., seed=seed)``."""
        super().reset(seed=seed)
        self._seed = int(self.np_random.integers(LARGEST_SEED)) if seed is None else int(seed)
        start = self.start if options is None else options.get("start", self.start)
        self.world.problem.check_action(start)
        self._contexts = self._sequence(self._seed)
        self._round, self._place, self._measurement = 0, int(start), 0.0
        self._words = (
            f"an episode of {counted(len(self._contexts), 'round')} begins at {self.world.problem.value(self._place)}"
        )
        return self._observation(), self._about_round()

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, Info]:
        """Play a round. It is truncated, never terminated."""
        t = self._round
        if t >= len(self._contexts):
            raise InvalidInput("the episode has ended; call reset() to begin another")
        problem, context = self.world.problem, self._contexts[t]
        problem.check_action(action)  # type: ignore[arg-type]
        action = int(action)
        service = float(self.world.costs(t, context)[action])
        movement = problem.distance(self._place, action)
        measured = float(self.world.measure(t, context, action, measurement_noise(self._seed, t)))
        self._round, self._place, self._measurement = t + 1, action, measured
        self._words = f"round {t}: at {problem.value(action)}, service {service:.4g}, movement {movement:.4g}"
        bill = movement + (measured if self.reward == "measured" else service)
        info = {"measurement": measured, "service": service, "movement": movement} | self._about_round()
        return self._observation(), -bill, False, self._round == len(self._contexts), info

    def render(self) -> str | None:
        """Return the last round in one line, if the render mode is "ansi"."""
        return self._words if self.render_mode == "ansi" else None

    def _sequence(self, seed: int) -> Array:
        given = self._source(seed) if callable(self._source) else self._source
        rows = check_contexts(given, None)
        if len(rows) == 0:
            raise InvalidInput("contexts is empty; an episode needs at least one round")
        return rows

    def _bounds(self, given: ArrayLike | None) -> tuple[Array, Array]:
        width = self._contexts.shape[1]
        if given is not None:
            low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (width,)).copy() for bound in given)  # type: ignore[union-attr]
            return low, high
        if callable(self._source):
            return np.full(width, -np.inf), np.full(width, np.inf)
        return self._contexts.min(axis=0), self._contexts.max(axis=0)

    def _observation(self) -> Observation:
        now = min(self._round, len(self._contexts) - 1)
        seen: Observation = {"context": self._contexts[now].copy(), "action": np.int64(self._place)}
        return seen | ({"measurement": np.array([self._measurement])} if self.observe_measurement else {})

    def _about_round(self) -> Info:
        if self._round == len(self._contexts):
            return {"round": self._round}
        return {"round": self._round, "costs": np.array(self.world.costs(self._round, self._contexts[self._round]))}


class PolicyAgent:
    """A holdcourse policy in Gymnasium's loop. What it has learned stays from one episode to the next.

    Parameters
    ----------
    policy
        The policy. A policy that knows the costs gets the `costs` of the info; as gains, if it maximises.
    seed
        Seed of the policy's random numbers. With the seed of ``env.reset(seed=...)`` the episode equals that of
        `simulate`.

    Attributes
    ----------
    controller
        Controller that runs the policy, to explain decisions or to save what was learned; None before the first `act`.

    Examples
    --------
    ::

        agent = PolicyAgent(hc.recommended(world.problem))
        observation, info = env.reset(seed=0)
        done = False
        while not done:
            action = agent.act(observation, info)
            observation, reward, _, done, info = env.step(action)
        agent.end(info)
    """

    def __init__(self, policy: Policy, seed: int = 0) -> None:
        self.policy = policy
        self.seed = seed
        self.controller: Controller | None = None

    def act(self, observation: Mapping[str, Any], info: Mapping[str, Any]) -> int:
        """Learn the last measurement from the info, and decide this round. An episode begins at round 0."""
        here = int(observation["action"])
        if self.controller is None:
            self.controller = Controller(self.policy, start_index=here, seed=self.seed)
        elif info["round"] == 0:
            self._tell(None)
            self.controller.new_episode(start_index=here)
        else:
            self._tell(info)
        model = self.controller.model
        costs = shown_costs(model, info["costs"]) if model.needs_costs else None
        return self.controller.ask(observation["context"], costs=costs).action

    def end(self, info: Mapping[str, Any]) -> None:
        """Learn the measurement of the last round of an episode from the info."""
        self._tell(info)

    def _tell(self, info: Mapping[str, Any] | None) -> None:
        assert self.controller is not None
        for decision in self.controller.pending:
            self.controller.tell(decision.id, None if info is None else info["measurement"])
