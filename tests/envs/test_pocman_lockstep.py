"""The tables against plain Python, step by step on the same randomness."""

import jax
import numpy as np
import pytest

from markovlens.envs.pocman import PocMan
from markovlens.envs.pocman_maze import DEFAULT_MAZE
from tests.envs.plain_pocman import PlainPocMan

# A crowded maze: a dead end, an open row and open columns, pills everywhere.
CROWDED = """
    ##.##.#o##
    ..o..P..o.
    #.#s.#.#s#
    #o.1.2.3o#
    #.#.##.#.#
    _s...o.4s_
    ##.##.####
    #..o#....#
    ##.##.#.##
"""


def lockstep(text, seed, steps):
    """Runs both on random actions, starting again after each end; returns what happened."""
    env = PocMan(text)
    step = jax.jit(lambda state, action, orders: env.transition(state, action, orders))
    random = np.random.default_rng(seed)
    happened = {"ends": 0, "eaten": 0, "cleared": 0, "powered": 0}
    plain = None
    ties = jax.vmap(env.noise)(jax.random.split(jax.random.key(seed), steps))
    ties = np.asarray(ties)
    for t in range(steps):
        if plain is None:
            plain = PlainPocMan(text)
            state, observation = env.reset(jax.random.key(0))
            assert observation.tolist() == plain.observation()
        action = int(random.integers(4))
        state, result = step(state, action, ties[t])
        reward, over = plain.step(action, ties[t])
        assert (float(result.reward), bool(result.terminated)) == (reward, over)
        assert result.observation.tolist() == plain.observation()
        assert not result.truncated
        happened["ends"] += over
        happened["cleared"] += over and not plain.pellets
        happened["eaten"] += reward >= 200
        happened["powered"] += plain.power > 0
        if over:
            plain = None
    return happened


def test_default_maze_in_lockstep():
    happened = lockstep(DEFAULT_MAZE, seed=0, steps=3000)
    assert happened["ends"] > 5


def test_crowded_maze_in_lockstep():
    happened = lockstep(CROWDED, seed=1, steps=5000)
    assert happened["ends"] > 20
    assert happened["eaten"] > 20
    assert happened["powered"] > 1000


@pytest.mark.parametrize("ghost", [1, 2, 3, 4])
def test_each_ghost_alone_in_lockstep(ghost):
    text = "".join("." if c in "1234" and c != str(ghost) else c for c in DEFAULT_MAZE)
    first, *_ = (i for i, c in enumerate(text) if c == "s")
    text = text[: first + 1] + text[first + 1 :].replace("s", ".")
    lockstep(text, seed=ghost, steps=1500)


def test_tiny_maze_is_cleared_in_lockstep():
    happened = lockstep("##########\n#.Ps____1#\n##########", seed=3, steps=1000)
    assert happened["ends"] > happened["cleared"] > 0
