"""Experience from environments: ours, Gymnasium's, with a policy that has no memory."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from markovlens.evidence.null import reproducibility
from markovlens.evidence.tabular import discretise
from markovlens.evidence.trajectories import Trajectories
from markovlens.progress import Advance, silent

Policy = Callable[[Any], Any] | Float[np.ndarray, "O A"] | None

LANES = 32
PILOTS = 8
PILOT_SHARE = 0.2
PILOT_PIECES = 20
ADVANCE_EVERY = 1000


def collect(
    env: Any,
    steps: int,
    seed: int = 0,
    policy: Policy = None,
    gamma: float = 0.99,
    advance: Advance = silent,
) -> Trajectories:
    """`steps` steps of an environment.

    Arguments:
        env: one of ours (`markovlens.envs`), or a Gymnasium environment.
        policy: a callable from an observation to an action; a table `policy[o, a]` of
            probabilities for discrete observations; or None for a random one. With discrete
            observations and actions that is a random stochastic policy for each observation (a
            discrepancy shows under almost every policy, but the uniform one can be too even);
            among a few, tried on a fifth as many extra steps, the one whose discrepancy stands
            out most from its noise is taken. Otherwise actions are uniform.
        gamma: the discount for that choice.
    """
    from markovlens.envs.env import Env

    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    stepper = _Ours(env) if isinstance(env, Env) else _Gymnasium(env)
    rng = np.random.default_rng(seed)
    if policy is None and stepper.n_observations and stepper.n_actions:
        policy = _telling_policy(stepper, steps, gamma, rng)
    return stepper.run(policy, steps, int(rng.integers(2**31)), advance)


def _telling_policy(
    stepper: "_Ours | _Gymnasium", steps: int, gamma: float, rng: np.random.Generator
) -> np.ndarray:
    """Of a few random policies, the one under which a discrepancy is best reproduced.

    They are compared on steps of their own, so the choice cannot bias what is found later.
    """
    shape = (stepper.n_observations, stepper.n_actions)
    tried = []
    for _ in range(PILOTS):
        policy = rng.dirichlet(np.ones(shape[1]), shape[0])
        length = max(200, int(steps * PILOT_SHARE / PILOTS))
        pilot = stepper.run(policy, length, int(rng.integers(2**31)), silent)
        pieces = discretise(pilot.cut(max(1, len(pilot) // PILOT_PIECES)))
        tried.append((reproducibility(pieces, gamma, rng), policy))
    return max(tried, key=lambda pair: pair[0])[1]


class _Ours:
    """Steps a JAX environment, many copies at a time."""

    def __init__(self, env: Any):
        from markovlens.envs.spaces import Discrete

        self.env, self.roll = env, _jitted_roll()
        seen, done = env.observation_space, env.action_space
        self.n_observations = seen.n if isinstance(seen, Discrete) else 0
        self.n_actions = done.n if isinstance(done, Discrete) else 0

    def run(self, policy: Policy, steps: int, seed: int, advance: Advance) -> Trajectories:
        if callable(policy):
            return _host_loop(_OneByOne(self.env), policy, steps, seed, advance)
        import jax
        import jax.numpy as jnp

        lanes = min(LANES, steps)
        table = None if policy is None else jnp.log(jnp.asarray(policy, dtype=jnp.float32))
        steps_of_lanes = self.roll(self.env, table, jax.random.key(seed), lanes, -(-steps // lanes))
        advance(steps)
        columns = {
            name: np.swapaxes(np.asarray(getattr(steps_of_lanes, name)), 0, 1)
            for name in (
                "observation",
                "action",
                "reward",
                "terminated",
                "truncated",
                "next_observation",
            )
        }
        columns["truncated"] = columns["truncated"].copy()
        columns["truncated"][:, -1] |= ~columns["terminated"][:, -1]
        return Trajectories(**{n: c.reshape(-1, *c.shape[2:]) for n, c in columns.items()})


@cache
def _jitted_roll() -> Callable:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from markovlens.envs.vector import VectorState, unroll, vector_reset

    @eqx.filter_jit
    def roll(env: Any, table: Any, key: Any, lanes: int, length: int) -> Any:
        """Uniform over the actions allowed, or by a table of log-probabilities `[o, a]`."""

        def act(key: Any, state: VectorState, _: Any) -> tuple[Any, Any, None]:
            key, now = jax.random.split(key)
            if table is not None:
                return key, jax.random.categorical(now, table[state.observation]), None
            if env.masks_actions:
                mask = jax.vmap(env.action_mask)(state.env_state)
                return key, jax.random.categorical(now, jnp.where(mask, 0.0, -jnp.inf)), None
            return key, jax.vmap(env.action_space.sample)(jax.random.split(now, lanes)), None

        start_key, roll_key, act_key = jax.random.split(key, 3)
        state = vector_reset(env, start_key, lanes)
        return unroll(env, act, act_key, state, roll_key, length)[2]

    return roll


class _Gymnasium:
    """Steps a Gymnasium environment."""

    def __init__(self, env: Any):
        from gymnasium import spaces

        self.env = env
        seen, done = env.observation_space, env.action_space
        plain = isinstance(seen, spaces.Discrete) and isinstance(done, spaces.Discrete)
        plain = plain and seen.start == 0 and done.start == 0
        self.n_observations = int(seen.n) if plain else 0
        self.n_actions = int(done.n) if plain else 0

    def run(self, policy: Policy, steps: int, seed: int, advance: Advance) -> Trajectories:
        self.env.action_space.seed(seed)
        act = self._callable(policy, np.random.default_rng(seed))
        return _host_loop(self.env, act, steps, seed, advance)

    def _callable(self, policy: Policy, rng: np.random.Generator) -> Callable[[Any], Any]:
        if callable(policy):
            return policy
        if policy is None:
            return lambda _: self.env.action_space.sample()
        running = np.cumsum(policy, axis=1)
        running[:, -1] = 1.0
        return lambda o: int(np.searchsorted(running[o], rng.random(), side="right"))


class _OneByOne:
    """One of our environments, stepped in Gymnasium's manner."""

    def __init__(self, env: Any):
        import equinox as eqx
        import jax

        self._split, self._key = jax.random.split, jax.random.key(0)
        self._reset, self._step = eqx.filter_jit(env.reset), eqx.filter_jit(env.step)
        self._state: Any = None

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict]:
        import jax

        if seed is not None:
            self._key = jax.random.key(seed)
        self._key, now = self._split(self._key)
        self._state, observation = self._reset(now)
        return np.asarray(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._key, now = self._split(self._key)
        self._state, step = self._step(now, self._state, np.asarray(action))
        ends = bool(step.terminated), bool(step.truncated)
        return np.asarray(step.observation), float(step.reward), *ends, {}


def _host_loop(
    env: Any, act: Callable[[Any], Any], steps: int, seed: int, advance: Advance
) -> Trajectories:
    """Steps an environment one step at a time."""
    rows = []
    observation, _ = env.reset(seed=seed)
    for t in range(steps):
        action = act(observation)
        before = _flat(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        rows.append((before, action, reward, terminated, truncated, _flat(observation)))
        if terminated or truncated:
            observation, _ = env.reset()
        if t % ADVANCE_EVERY == 0:
            advance(t)
    return Trajectories(*(list(column) for column in zip(*rows, strict=True)))


def _flat(observation: Any) -> Any:
    """Dictionaries and tuples as one vector."""
    if isinstance(observation, dict):
        observation = [observation[name] for name in sorted(observation)]
    if isinstance(observation, tuple | list):
        return np.concatenate([np.ravel(_flat(part)) for part in observation])
    return observation
