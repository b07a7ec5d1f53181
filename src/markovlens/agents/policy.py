"""A trained agent as a policy without memory, to take steps with for `detect`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PRNGKeyArray

from markovlens.agents.acting import choose, within
from markovlens.agents.actions import action_distribution
from markovlens.agents.host import closing
from markovlens.agents.networks import Actor
from markovlens.agents.run import Run
from markovlens.envs.spaces import Space, kept_entries


class RunPolicy(eqx.Module):
    """What an agent does when every observation is the first that it sees.

    The observations of an MDP are not Markov under a policy that remembers: what it will do depends
    on more than they show. So an agent's memory is cleared before every step. Actions are drawn,
    not greedy.

    >>> ml.detect("tmaze-5", policy=RunPolicy(ml.load_run("runs/tmaze")))  # doctest: +SKIP
    """

    network: Actor
    action_space: Space
    env: str = eqx.field(static=True)  # what it was trained on
    kept: tuple[int, ...] = eqx.field(static=True)  # entries of the observation that it looks at
    size: int = eqx.field(static=True)  # of the flattened observation
    forgets: bool = eqx.field(static=True)  # whether it had a memory to clear

    def __init__(self, run: Run, index: int = 0):
        config = run.spec(index).config
        sees_more = {
            "its previous action": config.previous_action,
            "its previous reward": config.previous_reward,
            "the whole state": config.full_view,
        }
        if any(sees_more.values()):
            what = next(name for name, seen in sees_more.items() if seen)
            raise ValueError(
                f"this run also sees {what}, so it does not act on the observation alone; "
                "train one that does"
            )
        with closing(run.env(index)) as met:
            self.action_space = met.action_space
            self.size = met.observation_space.flat_size + len(config.hide)
        self.network = run.network(index).without_critics()
        self.env = config.env
        self.kept = kept_entries(self.size, config.hide)
        self.forgets = config.memory_cell != "none"

    def check(self, observation_size: int, action_size: int) -> None:
        for what, ours, theirs in (
            ("observations", self.size, observation_size),
            ("actions", self.action_space.flat_size, action_size),
        ):
            if ours != theirs:
                raise ValueError(
                    f"the run was trained on {self.env}, with {what} of size {ours}; here they "
                    f"have size {theirs}"
                )

    def actions(
        self, key: PRNGKeyArray, observation: Array, allowed: Bool[Array, "N A"] | None
    ) -> Array:
        n = len(observation)
        if observation.ndim == 1:
            flat = jax.nn.one_hot(observation, self.size, dtype=jnp.float32)
        else:
            flat = observation.reshape(n, -1).astype(jnp.float32)
        seen, first = flat[:, np.array(self.kept)], jnp.ones(n, dtype=bool)
        empty = self.network.memory(n)
        noise = action_distribution(self.action_space).noise(key, (n,))
        _, _, action = choose(self.network, self.action_space, seen, empty, first, allowed, noise)
        return within(self.action_space, action)
