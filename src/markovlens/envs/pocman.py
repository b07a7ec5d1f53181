"""PocMan: Pac-Man with senses instead of eyes.

One step, in this order:

1. The agent moves one cell (0 up, 1 right, 2 down, 3 left), or stays if a wall is there.
2. It eats what is in its cell: a pellet for 10, a power pill for 20. The pill works at once and
   for the next 30 steps.
3. The ghosts that have left their starts move one cell, all at once. A ghost never turns back
   unless it is in a dead end. It takes the way whose cell is nearest to its target in straight
   distance (not counted through the tunnel), ties at random. The targets:
   ghost 1, the agent; ghost 2, four cells ahead of the agent; ghost 3, where the sum of the
   vectors to those two points; ghost 4, the agent if more than 8 cells away, else its scatter
   corner. Frightened, each heads for its scatter corner.
4. Agent and ghost meet when they are in one cell or have swapped cells. Frightened, the ghost is
   eaten and put back on its start cell: 200 the first time, nothing later. Otherwise the agent
   is caught.

The game is over when the agent is caught or no pellet is left (power pills may be).
Ghosts 1 to 4 stand still for the first 1, 5, 10 and 15 steps of the game; one
that is eaten later moves on with the next step. The agent's heading is the
direction in which it last really moved, at first left.

What the agent senses, 11 bits:

    0-3   a wall next to it: up, right, down, left
    4     food, a pellet or a power pill, at most 2 cells away (|rows| + |columns|)
    5     a ghost at most 2 cells away
    6-9   a ghost in line of sight: up, right, down, left, as far as the next wall
    10    the power pill works, in the next step too

Walls do not stop smells. Smells and sight go through the tunnel.
"""

from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from markovlens.envs import bits
from markovlens.envs.env import Env, Step
from markovlens.envs.pocman_maze import (
    DEFAULT_MAZE,
    LEFT,
    MOVES,
    NO_DIRECTION,
    Maze,
    ghost_ways,
    grid_distances,
    lines_of_sight,
    read_maze,
    shortest_game,
)
from markovlens.envs.spaces import Binary, Box, Discrete

PELLET, PILL, GHOST = 10.0, 20.0, 200.0
POWER_STEPS = 30
SMELL = 2
AHEAD = 4
SHY_DISTANCE = 8
DELAYS = {1: 1, 2: 5, 3: 10, 4: 15}

# A ghost's target: the agent's point, the point ahead and (less) its own, with these weights.
_TARGET = {1: (1, 0, 0), 2: (0, 1, 0), 3: (1, 1, 1), 4: (1, 0, 0)}
_ORDERS = np.array(list(permutations(range(4))), dtype=np.int32)


class _Place(NamedTuple):
    """What the agent's pose tells of the maze: one table, for every look-up costs a kernel."""

    point: Any  # where it is
    ahead: Any  # the point ahead of it
    walls: Any  # observation bits 0-3
    food: Any  # what food pays there, if there is any


class PocManState(eqx.Module):
    """A game between two steps. A pose is cell * 8 + direction."""

    agent: Int[Array, ""]  # pose; the direction is its heading
    ghosts: Int[Array, "G"]  # poses
    food: UInt32[Array, "W"]  # what is left to eat: bit c % 32 of word c // 32 is cell c
    pellets: Int[Array, ""]  # how many pellets are left
    power: Int[Array, ""]  # for how many more steps the ghosts are frightened
    time: Int[Array, ""]  # steps since the start
    paid: Bool[Array, "G"]  # which ghosts have been eaten


class PocMan(Env[PocManState, Int[Array, "G 4"]]):
    """PocMan on any maze (see `pocman_maze`); γ = 0.95.

    >>> env = PocMan()
    >>> state, observation = env.reset(jax.random.key(0))
    >>> state, step = env.step(jax.random.key(1), state, 3)
    >>> float(step.reward)
    10.0
    """

    agent_after: Int[Array, "C*8*4"]  # pose, action -> pose
    point: Int[Array, "C"]  # where a cell is
    places: Int[Array, "C*8 4"]  # the agent's pose -> see `_Place`
    smelt_bits: UInt32[Array, "C W"]
    senses: Int[Array, "C*C"]  # agent's cell, ghost's cell -> observation bits 5-9
    ways: Int[Array, "C*8 4"]  # ghost's pose, direction -> where that leads
    ghost_after: Int[Array, "C*8*4"]  # pose, direction -> pose
    ghost_homes: Int[Array, "G"]  # poses
    corners: Int[Array, "G"]  # points
    delays: Int[Array, "G"]
    weights: Int[Array, "G 3"]  # of the agent, ahead of it, the ghost itself in its target
    shy: Bool[Array, "G"]
    first_food: UInt32[Array, "W"]
    text: str = eqx.field(static=True)

    def __init__(self, maze: str = DEFAULT_MAZE):
        self.text = maze
        drawn = self.maze
        cells, numbers = drawn.n_cells, drawn.ghost_numbers
        points = _point(*drawn.position.T)
        moves = np.array([*MOVES, *[(0, 0)] * 4])  # by a pose's direction; 5-7 do not occur
        self.point = _int32(points)
        free = drawn.neighbour[:, None] >= 0
        place = _Place(
            point=points[:, None],
            ahead=points[:, None] + AHEAD * _point(*moves.T),
            walls=~free[:, 0] @ (1 << np.arange(4))[:, None],
            food=np.where(drawn.pills, PILL, PELLET)[:, None],
        )
        self.places = _int32(np.stack(np.broadcast_arrays(*place), axis=-1)).reshape(-1, 4)
        pose = np.arange(cells * 8).reshape(cells, 8, 1)
        moved = drawn.neighbour[:, None] * 8 + np.arange(4)
        self.agent_after = _int32(np.where(free, moved, pose)).reshape(-1)

        near = grid_distances(drawn) <= SMELL
        self.smelt_bits = jnp.asarray(bits.pack(near))
        self.first_food = jnp.asarray(bits.pack(drawn.pellets | drawn.pills))
        seen = np.tensordot(1 << np.arange(6, 10), lines_of_sight(drawn), axes=1)
        self.senses = _int32(seen + (near << 5)).reshape(-1)

        ways = np.pad(ghost_ways(drawn), [(0, 0), (0, 3), (0, 0)])
        self.ways = _int32(np.where(ways < 0, _NO_WAY, points[ways])).reshape(-1, 4)
        self.ghost_after = _int32(ways * 8 + np.arange(4)).reshape(-1)
        self.ghost_homes = _int32(np.array(drawn.ghost_starts) * 8 + NO_DIRECTION)
        self.corners = _int32(points[list(drawn.corners)])
        self.delays = _int32([DELAYS[n] for n in numbers])
        self.weights = _int32([_TARGET[n] for n in numbers])
        self.shy = jnp.asarray([n == 4 for n in numbers])

    @property
    def maze(self) -> Maze:
        """What is where."""
        return _read_once(self.text)

    @property
    def gamma(self) -> float:
        return 0.95

    @property
    def observation_space(self) -> Binary:
        return Binary(11)

    @property
    def action_space(self) -> Discrete:
        return Discrete(4)

    @property
    def shortest_episode(self) -> int:
        return shortest_game(self.maze, tuple(DELAYS[n] for n in self.maze.ghost_numbers))

    def reset(self, key: PRNGKeyArray) -> tuple[PocManState, Float[Array, "11"]]:
        state = PocManState(
            agent=jnp.int32(self.maze.start * 8 + LEFT),
            ghosts=self.ghost_homes,
            food=self.first_food,
            pellets=jnp.int32(self.maze.pellets.sum()),
            power=jnp.int32(0),
            time=jnp.int32(0),
            paid=jnp.zeros(len(self.ghost_homes), dtype=bool),
        )
        return state, self.observe(state)

    def noise(self, key: PRNGKeyArray) -> Int[Array, "G 4"]:
        """For each ghost an order of the four directions, to settle ties."""
        n = len(self.ghost_homes)
        words = jax.random.bits(key, ((n + 1) // 2,))
        which = jnp.stack([words % 24, words // 24 % 24], axis=-1).reshape(-1)[:n]
        return jnp.asarray(_ORDERS)[which]

    def transition(
        self, state: PocManState, action: Int[Array, ""], noise: Int[Array, "G 4"]
    ) -> tuple[PocManState, Step]:
        agent = _look(self.agent_after, state.agent * 4 + action)
        cell = agent >> 3

        food = state.food & ~bits.single(cell, state.food.shape[0])
        ate = (food != state.food).any()
        bite = jnp.where(ate, self._place(agent).food, 0)
        power = jnp.where(bite == PILL, POWER_STEPS + 1, state.power)
        pellets = state.pellets - (bite == PELLET)

        frightened = power > 0
        came = self._move_ghosts(state, agent, frightened, noise)
        at, was = came >> 3, state.ghosts >> 3
        met = (at == cell) | ((at == state.agent >> 3) & (was == cell))
        eaten = met & frightened
        feast = GHOST * (eaten & ~state.paid).sum(dtype=jnp.float32)
        after = PocManState(
            agent=agent,
            ghosts=jnp.where(eaten, self.ghost_homes, came),
            food=food,
            pellets=pellets,
            power=jnp.maximum(power - 1, 0),
            time=state.time + 1,
            paid=state.paid | eaten,
        )
        over = (met & ~frightened).any() | (pellets == 0)
        return after, Step(self.observe(after), bite + feast, over, jnp.zeros_like(over))

    def _place(self, agent: Int[Array, ""]) -> _Place:
        return _Place(*jnp.moveaxis(_look(self.places, agent), -1, 0))

    def _move_ghosts(
        self,
        state: PocManState,
        agent: Int[Array, ""],
        frightened: Bool[Array, ""],
        order: Int[Array, "G 4"],
    ) -> Int[Array, "G"]:
        """Each ghost takes the allowed way that leads nearest to its target."""
        here, ahead, _, _ = self._place(agent)
        own = _look(self.point, state.ghosts >> 3)
        of_agent, of_ahead, of_own = self.weights.T
        target = of_agent * here + of_ahead * ahead - of_own * own
        timid = self.shy & (_squared_length(here - own) <= SHY_DISTANCE**2)
        target = jnp.where(frightened | timid, self.corners, target)

        far = _squared_length(_look(self.ways, state.ghosts) - target[:, None])
        # One number holds distance, order among ties and direction: its minimum is the choice.
        best = (far * 16 + order * 4 + jnp.arange(4)[None]).min(-1)
        came = _look(self.ghost_after, state.ghosts * 4 + (best & 3))
        return jnp.where(state.time >= self.delays, came, state.ghosts)

    def observe(self, state: PocManState) -> Float[Array, "11"]:
        """What the agent senses."""
        cell = state.agent >> 3
        smells = (state.food & _look(self.smelt_bits, cell)).any()
        pairs = cell * self.maze.n_cells + (state.ghosts >> 3)
        ghosts = jnp.bitwise_or.reduce(_look(self.senses, pairs))
        seen = self._place(state.agent).walls | (smells << 4) | ghosts | ((state.power > 0) << 10)
        return ((seen >> jnp.arange(11)) & 1).astype(jnp.float32)

    @property
    def full_observation_space(self) -> Box:
        ghosts, cells = len(self.ghost_homes), self.maze.n_cells
        return Box((11 + (2 + ghosts) * cells + 4 + 5 * ghosts + ghosts + 2,), 0.0, 1.0)

    def full_observation(self, state: PocManState) -> Float[Array, "F"]:
        """Everything, in this order, each between 0 and 1.

        The 11 sensed bits; food left in each cell; the agent's cell and its heading, each
        ghost's cell and its direction, one-hot; which ghosts have been eaten; the steps of
        power left and the steps so far, as shares of 30 and of the last ghost's delay.
        """
        cells = self.maze.n_cells
        parts = [
            self.observe(state),
            bits.unpack(state.food, cells),
            jax.nn.one_hot(state.agent >> 3, cells),
            jax.nn.one_hot(state.agent & 7, 4),
            jax.nn.one_hot(state.ghosts >> 3, cells).reshape(-1),
            jax.nn.one_hot(state.ghosts & 7, 5).reshape(-1),
            state.paid,
            jnp.stack(
                [state.power / POWER_STEPS, jnp.minimum(state.time / max(DELAYS.values()), 1)]
            ),
        ]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts])


@cache
def _read_once(text: str) -> Maze:
    return read_maze(text)


def _look(table: Array, index: Int[Array, "..."]) -> Array:
    """table[index] without a check: what the tables hold is always within them."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _int32(values: object) -> Int[Array, "..."]:
    return jnp.asarray(np.asarray(values, dtype=np.int32))


# Row and column in one number, which can be added and scaled like the vector they are.
def _point(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    return np.asarray(row * 65536 + column, dtype=np.int32)


def _squared_length(vector: Int[Array, "..."]) -> Int[Array, "..."]:
    column = (vector << 16) >> 16
    row = (vector - column) >> 16
    return row * row + column * column


# Farther from any target than any cell of the largest maze, yet 16 squared lengths fit 31 bits.
_NO_WAY = 8000 * 65536
