"""PocMan's rules, one by one, on mazes small enough to work out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.envs.env import TimeLimit
from markovlens.envs.pocman import PocMan
from markovlens.envs.pocman_maze import DOWN, LEFT, NO_DIRECTION, RIGHT, UP, read_maze

reset, observe = eqx.filter_jit(PocMan.reset), eqx.filter_jit(PocMan.observe)
transition = eqx.filter_jit(PocMan.transition)

IN_ORDER = np.tile(np.arange(4), (4, 1))  # ties go to up, right, down, left


def cell_at(env, row, column):
    (found,) = np.flatnonzero((env.maze.position == (row, column)).all(-1))
    return int(found)


def where(env, pose):
    return tuple(int(x) for x in env.maze.position[int(pose) >> 3])


def start(text):
    env = PocMan(text)
    return env, *reset(env, jax.random.key(0))


def put(env, state, agent=None, heading=LEFT, ghost=None, direction=NO_DIRECTION, **fields):
    """The state with the agent or the only ghost put somewhere, and other fields replaced."""
    if agent is not None:
        fields["agent"] = jnp.int32(cell_at(env, *agent) * 8 + heading)
    if ghost is not None:
        fields["ghosts"] = jnp.asarray([cell_at(env, *ghost) * 8 + direction], dtype=jnp.int32)
    for name, value in fields.items():
        state = eqx.tree_at(lambda s, name=name: getattr(s, name), state, jnp.asarray(value))
    return state


def play(env, state, actions):
    steps = []
    for action in actions:
        orders = jnp.asarray(IN_ORDER[: len(state.ghosts)])
        state, step = transition(env, state, jnp.int32(action), orders)
        steps.append(step)
    return state, steps


# --- the maze -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("####\n#P1#\n#s.##", "row 3 has 5 characters, but row 1 has 4"),
        ("####\n#Px#\n####", "row 2, column 3: unknown character 'x'"),
        ("#####\n#.1s#\n#####", "0 starts 'P'"),
        ("#####\n#PP1s#\n#####".replace("#####", "######"), "2 starts 'P'"),
        ("######\n#P.s.#\n######", "no ghost"),
        ("######\n#P11s#\n######", "ghost 1 starts at 2 places"),
        ("######\n#P1..#\n######", "1 ghosts but 0 scatter corners"),
        ("#######\n#P#1.s#\n#######", "no way out"),
        ("########\n#P1s##.#\n########", "row 2, column 7 cannot be reached"),
        ("#" * 1001 + "\n" + "#P1s" + "#" * 997, "at most 1000"),
    ],
)
def test_a_bad_maze_is_refused_with_the_place(text, message):
    with pytest.raises(ValueError, match=message):
        PocMan(text)


def test_default_maze_is_read_as_drawn():
    maze = PocMan().maze
    assert (maze.height, maze.width) == (21, 19)
    assert tuple(maze.position[maze.start]) == (15, 9)
    starts = [tuple(maze.position[c]) for c in maze.ghost_starts]
    assert starts == [(7, 8), (7, 10), (9, 8), (9, 10)]
    assert [tuple(maze.position[c]) for c in maze.corners] == [(1, 3), (1, 15), (15, 5), (15, 13)]
    assert maze.pills.sum() == 4
    assert maze.pellets.sum() == maze.n_cells - 4 - 5  # not under agent and ghosts


def test_indented_text_is_the_same_maze():
    flat, indented = "#####\n#P1s#\n#####", "\n    #####\n    #P1s#\n    #####\n"
    assert (read_maze(flat).neighbour == read_maze(indented).neighbour).all()


# --- senses ---------------------------------------------------------------------------------

ROOM = "#######\n#s...1#\n#.....#\n#..P..#\n#.....#\n#.....#\n#######"


@pytest.mark.parametrize("direction", [UP, RIGHT, DOWN, LEFT])
def test_each_wall_bit(direction):
    row, column = [(2, 3), (3, 4), (4, 3), (3, 2)][direction]
    rows = [list(line) for line in ROOM.split("\n")]
    rows[row][column] = "#"
    _, _, observation = start("\n".join(map("".join, rows)))
    assert observation[:4].tolist() == [float(d == direction) for d in range(4)]


@pytest.mark.parametrize("direction", [UP, RIGHT, DOWN, LEFT])
def test_each_line_of_sight_stops_at_walls(direction):
    env, state, _ = start(ROOM.replace("P", "_").replace("#s...1#", "#s..P1#"))
    far = [(1, 3), (3, 5), (5, 3), (3, 1)][direction]
    seen = observe(env, put(env, state, agent=(3, 3), ghost=far))
    assert seen[6:10].tolist() == [float(d == direction) for d in range(4)]
    rows = [list(line) for line in env.text.split("\n")]
    between = [(2, 3), (3, 4), (4, 3), (3, 2)][direction]
    rows[between[0]][between[1]] = "#"
    walled = PocMan("\n".join(map("".join, rows)))
    state, _ = reset(walled, jax.random.key(0))
    assert not observe(walled, put(walled, state, agent=(3, 3), ghost=far))[6:10].any()


def test_no_sight_across_a_corner_and_none_of_ones_own_cell():
    env, state, _ = start(ROOM)
    assert not observe(env, put(env, state, agent=(3, 3), ghost=(2, 4)))[6:10].any()
    assert not observe(env, put(env, state, agent=(3, 3), ghost=(3, 3)))[6:10].any()


def test_sight_goes_through_the_tunnel_in_rows_and_columns():
    env, _, seen = start("#########\n__P###1__\n_#######_\n_s_.____#\n#########")
    assert seen[6:10].tolist() == [0, 0, 0, 1]  # to the left, out and in again on the right
    turned = "\n".join(map("".join, zip(*env.text.split("\n"), strict=True)))
    _, _, seen = start(turned)
    assert seen[6:10].tolist() == [1, 0, 0, 0]  # upwards, out and in again at the bottom


def test_on_an_open_ring_a_ghost_is_seen_both_ways():
    _, _, seen = start("#######\n_P__1_s\n#######")
    assert seen[6:10].tolist() == [0, 1, 0, 1]
    _, _, seen = start("#_#\n#P#\n#_#\n#_#\n#1#\n#s#")
    assert seen[6:10].tolist() == [1, 0, 1, 0]


def test_an_opening_without_a_partner_is_a_wall():
    _, _, seen = start("######\n_P1.s#\n######")
    assert seen[:4].tolist() == [1, 0, 1, 0]
    env, state, _ = start("######\nP_1.s#\n######")
    assert observe(env, state)[:4].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("offset", "smelt"),
    [((0, 1), 1), ((0, 2), 1), ((0, 3), 0), ((1, 1), 1), ((-1, -1), 1), ((1, 2), 0), ((-2, 0), 1),
     ((-3, 0), 0), ((2, 1), 0)],
)  # fmt: skip
def test_smells_reach_two_cells(offset, smelt):
    env, state, _ = start("#########\n" + "#_______#\n" * 6 + "#P1____s#\n#########")
    state = put(env, state, agent=(4, 4), ghost=(8 - 1, 1))
    place = (4 + offset[0], 4 + offset[1])
    with_ghost = observe(env, put(env, state, ghost=place))
    assert with_ghost[5] == smelt
    bits = np.zeros(len(state.food) * 32, dtype=np.uint32)
    bits[cell_at(env, *place)] = 1
    words = (bits.reshape(-1, 32) << np.arange(32, dtype=np.uint32)).sum(-1, dtype=np.uint32)
    assert observe(env, put(env, state, food=words))[4] == smelt


def test_smells_go_through_walls_and_the_tunnel_and_pills_smell():
    assert start("#########\n#P#.__1s#\n#___#####\n#########")[2][4] == 1
    assert start("#########\n#P#o__1s#\n#___#####\n#########")[2][4] == 1
    assert start("#########\n#P_#.___#\n#__#_#1s#\n#____####\n#########")[2][4] == 0
    assert start("########\n_P_#1__.\n##___#s#\n########")[2][4] == 1  # 1 to the edge, 1 beyond


# --- moving, eating, being caught -----------------------------------------------------------

CORRIDOR = "#########\n#s_P__1.#\n#########"


def test_pellets_pay_once_and_walls_stop():
    env, state, _ = start("########\n#1s_P.o#\n########")
    state, (pellet, again, pill) = play(env, state, [RIGHT, UP, RIGHT])
    assert [float(s.reward) for s in (pellet, again, pill)] == [10.0, 0.0, 20.0]
    assert where(env, state.agent) == (1, 6)


def test_meeting_in_a_cell_ends_the_game():
    env, state, _ = start(CORRIDOR.replace("__1", "_1_"))
    state, steps = play(env, state, [UP, RIGHT])
    assert [bool(s.terminated) for s in steps] == [False, True]
    assert where(env, state.agent) == where(env, state.ghosts[0])


def test_swapping_cells_ends_the_game():
    env, state, _ = start(CORRIDOR)
    state, steps = play(env, state, [UP, RIGHT, RIGHT])
    assert [bool(s.terminated) for s in steps] == [False, False, True]
    assert where(env, state.agent) == (1, 5)
    assert where(env, state.ghosts[0]) == (1, 4)
    assert not any(s.truncated for s in steps)


def test_following_a_ghost_is_not_meeting_it():
    env, state, _ = start(CORRIDOR)
    state = put(env, state, agent=(1, 5), ghost=(1, 4), direction=LEFT, time=9)
    _, (step,) = play(env, state, [LEFT])
    assert not step.terminated


def test_a_frightened_ghost_is_eaten_in_a_swap_and_pays_once():
    env, state, _ = start("########\n#s_Po_1#\n########")
    state, steps = play(env, state, [UP, RIGHT, RIGHT, UP])
    assert [float(s.reward) for s in steps] == [0.0, 20.0, 200.0, 0.0]
    assert not any(s.terminated for s in steps)
    assert state.paid.tolist() == [True]
    assert where(env, state.ghosts[0]) == (1, 6)  # eaten a second time, for nothing


def test_the_pill_works_before_the_ghosts_move():
    env, state, _ = start("########\n#s_Po1_#\n########")
    state = put(env, state, ghost=(1, 5), direction=LEFT, time=9)
    state, (step,) = play(env, state, [RIGHT])
    assert float(step.reward) == 220.0
    assert not step.terminated


def test_two_ghosts_eaten_at_once_pay_twice():
    env, state, _ = start("########\n#ss_Po_#\n#####1##\n#####2##\n########")
    both = [cell_at(env, 2, 5) * 8 + UP] * 2
    state = put(env, state, ghosts=np.array(both, np.int32), time=9, power=3)
    _, (step,) = play(env, state, [RIGHT])
    assert float(step.reward) == 420.0


def test_power_lasts_thirty_steps_and_a_new_pill_starts_it_again():
    env, state, _ = start("#########\n#soP____#\n#######_#\n#4_o____#\n#########")
    state, steps = play(env, state, [LEFT] + [UP] * 32)
    assert [float(s.observation[10]) for s in steps] == [1.0] * 30 + [0.0] * 3
    state, _ = env.reset(jax.random.key(0))
    state = put(env, state, power=4)
    state, _ = play(env, state, [LEFT])
    assert int(state.power) == 30


@pytest.mark.parametrize(("power", "caught"), [(1, False), (0, True)])
def test_the_power_bit_promises_the_next_step(power, caught):
    env, state, _ = start(CORRIDOR)
    state = put(env, state, agent=(1, 3), ghost=(1, 4), direction=LEFT, time=9, power=power)
    assert float(observe(env, state)[10]) == power
    _, (step,) = play(env, state, [RIGHT])
    assert bool(step.terminated) == caught
    assert float(step.reward) == 200.0 * (not caught)


def test_the_game_is_over_when_no_pellet_is_left_though_pills_are():
    env, state, _ = start("#########\n#.P_o__4#\n####s####\n#########")
    _, steps = play(env, state, [LEFT, RIGHT, RIGHT, RIGHT, DOWN])
    assert [float(s.reward) for s in steps] == [10, 0, 0, 20, 10]
    assert [bool(s.terminated) for s in steps] == [False] * 4 + [True]
    env, state, _ = start("#########\n#oPs___1#\n#########")
    _, (step,) = play(env, state, [RIGHT])
    assert step.terminated


def test_the_time_limit_truncates():
    env = TimeLimit(PocMan(), 3)
    state, _ = env.reset(jax.random.key(0))
    truncated = []
    for _ in range(3):
        state, step = eqx.filter_jit(env.transition)(state, jnp.int32(DOWN), IN_ORDER)
        truncated.append(bool(step.truncated))
        assert not step.terminated
    assert truncated == [False, False, True]


# --- ghosts ---------------------------------------------------------------------------------


def test_ghosts_leave_after_1_5_10_and_15_steps():
    env, state, _ = start(PocMan().text)
    first_move = {}
    for step in range(1, 18):
        before = state.ghosts
        state, _ = play(env, state, [DOWN])  # into the wall below the start
        for ghost in np.flatnonzero(np.asarray(state.ghosts != before)):
            first_move.setdefault(int(ghost), step)
    assert first_move == {0: 2, 1: 6, 2: 11, 3: 16}


HALL = "#" * 25 + "\n" + ("#" + "_" * 23 + "#\n") * 10 + "#P_{}" + "_" * 17 + "._s#\n" + "#" * 25


def choice(number, agent, ghost, heading=UP, direction=NO_DIRECTION, **fields):
    """Which way the ghost goes in an open hall, its corner at the bottom right."""
    env, state, _ = start(HALL.format(number))
    state = put(env, state, agent, heading, ghost, direction, time=20, **fields)
    state, _ = play(env, state, [heading])
    return int(state.ghosts[0]) & 7


def test_targets_in_an_open_hall():
    # The agent moves first: seen from the ghost at (6, 10), it comes to (-1, 2) going left, so
    # four ahead is (-1, -2), and the sum of both is (-2, 0).
    where_to = {n: choice(n, (5, 13), (6, 10), heading=LEFT) for n in (1, 2, 3)}
    assert where_to == {1: RIGHT, 2: LEFT, 3: UP}


def test_ghost_four_is_shy_within_eight_cells():
    # Its corner is to the right; the agent, after its step, 9 and then 8 cells to the left.
    assert choice(4, (6, 2), (6, 10), heading=LEFT) == LEFT
    assert choice(4, (6, 3), (6, 10), heading=LEFT) == RIGHT


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_frightened_ghosts_head_for_their_corner(number):
    assert choice(number, (6, 3), (6, 10), heading=LEFT, power=5) == RIGHT


def test_a_ghost_never_turns_back_except_in_a_dead_end():
    assert choice(1, (6, 3), (6, 10), heading=LEFT, direction=LEFT) == LEFT
    assert choice(1, (6, 3), (6, 10), heading=LEFT, direction=RIGHT) != LEFT
    env, state, _ = start(CORRIDOR)
    state = put(env, state, ghost=(1, 7), direction=RIGHT, time=9)
    state, _ = play(env, state, [UP])
    assert where(env, state.ghosts[0]) == (1, 6)


def test_the_agents_heading_is_its_last_real_move():
    env, state, _ = start(CORRIDOR)
    assert int(state.agent) & 7 == LEFT
    state, _ = play(env, state, [RIGHT, UP])
    assert int(state.agent) & 7 == RIGHT


def test_the_nearest_cell_counts_through_the_tunnel_but_its_distance_does_not():
    # The ghost, at the left edge, may go left through the tunnel to (1, 8) or down; the agent is
    # near the right edge, so that in straight distance the far side of the tunnel is nearer.
    text = "#########\n1_____P__\n_#######_\n__s_____."
    env, state, _ = start(text)
    state = put(env, state, ghost=(1, 0), time=9)
    state, _ = play(env, state, [UP])
    assert where(env, state.ghosts[0]) == (1, 8)


def test_ties_are_settled_evenly():
    env, state, _ = start(HALL.format(1))
    state = put(env, state, agent=(5, 9), heading=LEFT, ghost=(8, 5), time=20)
    # After its step left the agent is 3 up and 3 to the right of the ghost: up and right tie.
    noise = jax.vmap(env.noise)(jax.random.split(jax.random.key(0), 4000))
    step = lambda n: env.transition(state, jnp.int32(LEFT), n)[0]  # noqa: E731
    after = jax.jit(jax.vmap(step))(noise).ghosts[:, 0] & 7
    counts = np.bincount(np.asarray(after), minlength=4)
    assert counts[UP] + counts[RIGHT] == 4000
    assert abs(counts[UP] - 2000) < 4 * np.sqrt(1000)


def test_noise_draws_every_order_equally_often_and_independently():
    env = PocMan()
    orders = np.asarray(jax.vmap(env.noise)(jax.random.split(jax.random.key(1), 48_000)))
    code = orders @ np.array([64, 16, 4, 1])
    for ghost in range(4):
        _, counts = np.unique(code[:, ghost], return_counts=True)
        assert len(counts) == 24
        assert ((counts - 2000) ** 2 / 2000).sum() < 58  # χ² with 23 degrees of freedom, p = 1e-4
    pairs = len(np.unique(code[:, 0] * 256 + code[:, 1]))
    assert pairs == 24 * 24


# --- the whole state --------------------------------------------------------------------------


def test_full_observation_tells_everything():
    env, state, observation = start(PocMan().text)
    full = env.full_observation(state)
    cells = env.maze.n_cells
    assert full.shape == env.full_observation_space.shape
    assert env.full_observation_space.contains(full)
    assert (full[:11] == observation).all()
    food, agent, heading, rest = jnp.split(full[11:], [cells, 2 * cells, 2 * cells + 4])
    assert (np.asarray(food) > 0).tolist() == (env.maze.pellets | env.maze.pills).tolist()
    assert int(agent.argmax()) == env.maze.start
    assert int(heading.argmax()) == LEFT
    assert rest[: 4 * cells].reshape(4, cells).argmax(-1).tolist() == list(env.maze.ghost_starts)
    changed = put(env, state, power=7)
    assert (env.full_observation(changed) != full).sum() == 2  # the bit, and the timer


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        (CORRIDOR, 2),  # 3 apart: the agent walks 2, the ghost, after 1 step of waiting, 1
        ("#######\n#s.P1.#\n#######", 1),
        ("########\n#P_____#\n#_####4#\n#s#.####\n#___####\n########", 2),  # two pellets
    ],
)
def test_shortest_episode(text, shortest):
    assert PocMan(text).shortest_episode == shortest
