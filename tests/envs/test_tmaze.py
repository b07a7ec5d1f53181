"""The T-maze game is the library's POMDP, state by state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs.tmaze import DOWN, LEFT, RIGHT, UP, TMaze, TMazeState
from markovlens.pomdp import library


@pytest.mark.parametrize("corridor", [1, 2, 5])
def test_every_transition_is_the_librarys(corridor):
    env, pomdp = TMaze(corridor), library.tmaze(corridor)
    T, R, Phi = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi))

    def index(goal_up: bool, position: int) -> int:
        square = ["start", *(f"corridor{i + 1}" for i in range(corridor)), "junction"]
        if position == corridor + 2:
            return pomdp.states.index("end")
        return pomdp.states.index(f"{square[position]}-{'up' if goal_up else 'down'}")

    for goal_up in (False, True):
        for position in range(corridor + 2):
            for action in range(4):
                state = TMazeState(jnp.array(goal_up), jnp.int32(position))
                after, step = env.transition(state, jnp.int32(action), None)
                s = index(goal_up, position)
                s_next = index(bool(after.goal_up), int(after.position))
                assert T[action, s, s_next] == 1.0
                assert float(step.reward) == pytest.approx(R[s, action])
                assert Phi[s_next, int(step.observation)] == 1.0
                assert bool(step.terminated) == (pomdp.states[s_next] == "end")
    assert env.gamma == float(pomdp.gamma)


def test_starts_are_blue_or_red_evenly():
    env = TMaze()
    states, seen = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_array_equal(np.asarray(seen), np.where(np.asarray(states.goal_up), 0, 1))
    assert abs(np.asarray(seen).mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)


def test_remembering_pays_four_in_the_shortest_episode():
    env = TMaze(7)
    state, seen = env.reset(jax.random.key(3))
    for t in range(8):
        state, step = env.transition(state, jnp.int32(RIGHT), None)
        assert int(step.observation) == (3 if t == 7 else 2)
    turn = UP if int(seen) == 0 else DOWN
    state, step = env.transition(state, jnp.int32(turn), None)
    assert (float(step.reward), bool(step.terminated), int(step.observation)) == (4.0, True, 4)
    assert env.shortest_episode == 9


def test_a_long_corridor_stores_nothing_of_its_length():
    env = TMaze(1_000_000)
    assert jax.tree.leaves(env) == []
    state = TMazeState(jnp.array(True), jnp.int32(1_000_001))
    after, step = env.transition(state, jnp.int32(LEFT), None)
    assert int(after.position) == 1_000_000
    assert int(step.observation) == 2


def test_a_corridor_has_a_square():
    with pytest.raises(ValueError, match="at least 1 square long, got 0"):
        TMaze(0)
