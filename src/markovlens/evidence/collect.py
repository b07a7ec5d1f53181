"""Experience from environments: ours, Gymnasium's, with a policy that has no memory."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from markovlens.evidence.discrete import discretise
from markovlens.evidence.estimate import reproducibility
from markovlens.evidence.finding import TooThin
from markovlens.evidence.one_by_one import GymnasiumStepper, OneByOne, host_loop
from markovlens.evidence.policies import BatchPolicy, Policy, check_table
from markovlens.evidence.trajectories import ARRAYS, Trajectories
from markovlens.progress import Advance, silent

# One program for any number of steps: so many copies, so many steps of each at a time. Few copies,
# for the last episode of each is cut.
LANES = 4
STRETCH = 256
PILOTS = 8
PILOT_SHARE = 0.2
PILOT_PIECES = 8
LARGEST_TABLE = 1_000_000  # probabilities; for more, actions are uniform


def collect(
    env: Any,
    steps: int,
    seed: int = 0,
    policy: Policy = None,
    gamma: float = 0.99,
    progress: Advance = silent,
) -> Trajectories:
    """`steps` steps of an environment.

    Arguments:
        env: one of ours (`markovlens.envs`), or a Gymnasium environment.
        policy: a callable from an observation to an action; a table `policy[o, a]` of
            probabilities for discrete observations; a `BatchPolicy`, such as a trained run's
            (`agents.policy.RunPolicy`); or None for a random one. With discrete
            observations and actions that is a random stochastic policy for each observation (a
            discrepancy shows under almost every policy, but the uniform one can be too even);
            among a few, tried on a fifth as many extra steps (at least 200 each), the one whose
            discrepancy stands out most from its noise is taken. Otherwise actions are uniform.
        gamma: the discount for that choice.
        progress: told how many steps were taken.
    """
    from markovlens.envs.env import Env

    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    stepper = _Ours(env) if isinstance(env, Env) else GymnasiumStepper(env)
    rng = np.random.default_rng(seed)
    if policy is None and 0 < stepper.n_observations * stepper.n_actions <= LARGEST_TABLE:
        policy = _telling_policy(stepper, steps, gamma, rng)
    elif not (policy is None or callable(policy) or isinstance(policy, BatchPolicy)):
        policy = check_table(policy, stepper.n_observations, stepper.n_actions)
    return stepper.run(policy, steps, int(rng.integers(2**31)), progress)


def _telling_policy(
    stepper: "_Ours | GymnasiumStepper", steps: int, gamma: float, rng: np.random.Generator
) -> np.ndarray:
    """Of a few random policies, the one under which a discrepancy is best reproduced.

    They are compared on steps of their own, so the choice cannot bias what is found later.
    """
    shape = (stepper.n_observations, stepper.n_actions)
    best, told_most = np.zeros(0), -np.inf
    for i in range(PILOTS):
        policy = rng.dirichlet(np.ones(shape[1]), shape[0])
        length = max(200, int(steps * PILOT_SHARE / PILOTS))
        pilot = stepper.run(policy, length, int(rng.integers(2**31)), silent)
        pieces = discretise(pilot.cut(max(1, len(pilot) // PILOT_PIECES)))
        try:
            told = reproducibility(pieces, gamma, rng)
        except TooThin:
            told = -np.inf
        if i == 0 or told > told_most:
            best, told_most = policy, told
    return best


class _Ours:
    """Steps a JAX environment, many copies at a time."""

    def __init__(self, env: Any):
        from markovlens.envs.spaces import Discrete

        self.env = env
        seen, done = env.observation_space, env.action_space
        self.n_observations = seen.n if isinstance(seen, Discrete) else 0
        self.n_actions = done.n if isinstance(done, Discrete) else 0
        self.sizes = (seen.flat_size, done.flat_size)

    def run(self, policy: Policy, steps: int, seed: int, advance: Advance) -> Trajectories:
        import jax

        from markovlens.evidence.batch_policies import Table, Uniform

        names = self.env.observation_names
        if policy is None:
            policy = Uniform(self.env.action_space)
        elif not callable(policy) and not isinstance(policy, BatchPolicy):
            policy = Table(jax.numpy.asarray(policy, dtype=np.float32))
        if not isinstance(policy, BatchPolicy):
            return host_loop(OneByOne(self.env), policy, steps, seed, advance, names)
        policy.check(*self.sizes)
        length = -(-steps // LANES)
        begin, go_on = _compiled()
        start_key, key = jax.random.split(jax.random.key(seed))
        state, stretches = begin(self.env, start_key), []
        for stretch in range(-(-length // STRETCH)):
            state, taken = go_on(self.env, policy, state, jax.random.fold_in(key, stretch))
            stretches.append(jax.device_get(taken))
            advance(min(steps, (stretch + 1) * STRETCH * LANES))
        columns: dict[str, Any] = {}
        for name in ARRAYS:
            by_time = np.concatenate([getattr(taken, name) for taken in stretches])[:length]
            columns[name] = np.swapaxes(by_time, 0, 1)
        columns["truncated"] = columns["truncated"].copy()
        columns["truncated"][:, -1] |= ~columns["terminated"][:, -1]
        columns = {n: c.reshape(-1, *c.shape[2:])[:steps] for n, c in columns.items()}
        columns["truncated"][-1] |= ~columns["terminated"][-1]
        return Trajectories(**columns, names=names)


@cache
def _compiled() -> tuple[Callable, Callable]:
    """Fresh starts of all copies, and a stretch of steps of all."""
    import equinox as eqx
    import jax

    from markovlens.envs.vector import VectorState, unroll, vector_reset

    @eqx.filter_jit
    def begin(env: Any, key: Any) -> VectorState:
        return vector_reset(env, key, LANES)

    @eqx.filter_jit
    def go_on(env: Any, policy: Any, state: VectorState, key: Any) -> tuple[VectorState, Any]:
        def act(key: Any, state: VectorState, _: Any) -> tuple[Any, Any, None]:
            key, now = jax.random.split(key)
            allowed = jax.vmap(env.action_mask)(state.env_state) if env.masks_actions else None
            return key, policy.actions(now, state.observation, allowed), None

        roll_key, act_key = jax.random.split(key)
        return unroll(env, act, act_key, state, roll_key, STRETCH)[1:3]

    return begin, go_on
