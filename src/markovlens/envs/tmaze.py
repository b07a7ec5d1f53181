"""The T-maze: a colour at the start says which way to turn at the far end of a corridor."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from markovlens.envs.env import Env, Step
from markovlens.envs.spaces import Box, Discrete

UP, DOWN, RIGHT, LEFT = range(4)
BLUE, RED, CORRIDOR, JUNCTION, END = range(5)
GOAL_REWARD = 4.0
OTHER_REWARD = -0.1


class TMazeState(eqx.Module):
    goal_up: Bool[Array, ""]  # told by the start's colour: blue for up
    position: Int[Array, ""]  # 0 the start, 1 … L the corridor, L+1 the junction, L+2 the end


class TMaze(Env[TMazeState, None]):
    """The T-maze with a corridor of any length L; agrees with `library.tmaze(L)` state by state.

    Actions are up, down, right, left; moving into a wall does nothing. At the junction, up and down
    end the episode: +4 on the goal's side, -0.1 on the other. What must be remembered is one bit,
    for L + 1 steps. Costs the same whatever L is: nothing of its size is stored.
    """

    corridor: int = eqx.field(static=True)
    discount: float = eqx.field(static=True)

    def __init__(self, corridor: int = 5, gamma: float = 0.9):
        if corridor < 1:
            raise ValueError(f"the corridor must be at least 1 square long, got {corridor}")
        self.corridor = corridor
        self.discount = gamma

    @property
    def gamma(self) -> float:
        return self.discount

    @property
    def observation_space(self) -> Discrete:
        return Discrete(5)

    @property
    def observation_names(self) -> tuple[str, ...]:
        return "blue", "red", "corridor", "junction", "end"

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    @property
    def shortest_episode(self) -> int:
        return self.corridor + 2

    @property
    def full_observation_space(self) -> Box:
        return Box((7,), low=0.0, high=1.0)

    def full_observation(self, state: TMazeState) -> Float[Array, "7"]:
        """What is seen, one-hot; whether the goal is up; how far along the maze."""
        seen = self.observation_space.flatten(self._observe(state))
        along = state.position / (self.corridor + 2)
        return jnp.append(seen, jnp.stack([state.goal_up.astype(jnp.float32), along]))

    def reset(self, key: PRNGKeyArray) -> tuple[TMazeState, Int[Array, ""]]:
        state = TMazeState(jax.random.bernoulli(key), jnp.int32(0))
        return state, self._observe(state)

    def noise(self, key: PRNGKeyArray) -> None:
        return None

    def transition(
        self, state: TMazeState, action: Int[Array, ""], noise: None
    ) -> tuple[TMazeState, Step]:
        at_junction = state.position == self.corridor + 1
        turned = at_junction & (action <= DOWN)
        to_goal = (action == UP) == state.goal_up
        reward = jnp.where(turned, jnp.where(to_goal, GOAL_REWARD, OTHER_REWARD), 0.0)
        reward = reward.astype(jnp.float32)
        moved = state.position + (action == RIGHT).astype(jnp.int32) - (action == LEFT)
        position = jnp.where(turned, self.corridor + 2, jnp.clip(moved, 0, self.corridor + 1))
        after = TMazeState(state.goal_up, position)
        return after, Step(self._observe(after), reward, turned, jnp.zeros_like(turned))

    def _observe(self, state: TMazeState) -> Int[Array, ""]:
        colour = jnp.where(state.goal_up, BLUE, RED)
        past_corridor = jnp.maximum(state.position - self.corridor, 0)
        return jnp.where(state.position == 0, colour, CORRIDOR + past_corridor)
