"""The library against facts known by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markovlens.pomdp import library
from markovlens.pomdp.policies import random_policy
from markovlens.values.discrepancy import lambda_discrepancy
from markovlens.values.td_lambda import q_values, start_value


def follow(pomdp, state, *actions):
    """Where the actions lead, when each leads to one place, and what they pay in all."""
    total = 0.0
    for action in actions:
        s, a = pomdp.states.index(state), pomdp.actions.index(action)
        total += float(np.asarray(pomdp.R)[s, a])
        row = np.asarray(pomdp.T)[a, s]
        assert row.max() == 1.0, f"{action} in {state} is a gamble: {row}"
        state = pomdp.states[int(row.argmax())]
    return state, total


def chances(pomdp, state, action):
    row = np.asarray(pomdp.T)[pomdp.actions.index(action), pomdp.states.index(state)]
    return {pomdp.states[i]: round(float(row[i]), 12) for i in np.flatnonzero(row)}


def views(pomdp, state):
    row = np.asarray(pomdp.Phi)[pomdp.states.index(state)]
    return {pomdp.observations[i]: round(float(row[i]), 12) for i in np.flatnonzero(row)}


def start(pomdp):
    p0 = np.asarray(pomdp.p0)
    return {pomdp.states[i]: round(float(p0[i]), 12) for i in np.flatnonzero(p0)}


def deterministic(pomdp, **action_of):
    """The policy that takes the named action at each observation, and the first anywhere else."""
    policy = np.zeros((pomdp.n_observations, pomdp.n_actions))
    for o, seen in enumerate(pomdp.observations):
        action = action_of.get(seen.replace("-", "_"), pomdp.actions[0])
        policy[o, pomdp.actions.index(action)] = 1.0
    return policy


@pytest.mark.parametrize(
    ("name", "states", "actions", "observations", "gamma"),
    [
        ("tmaze", 15, 4, 5, 0.9),
        ("tiger", 5, 3, 4, 0.95),
        ("paint", 10, 4, 3, 0.95),
        ("cheese", 11, 4, 7, 0.95),
        ("network", 7, 4, 2, 0.95),
        ("shuttle", 8, 3, 5, 0.95),
        ("maze4x3", 11, 4, 6, 0.95),
        ("parity_check", 13, 2, 6, 0.9),
        ("equivalent_mdp", 6, 2, 5, 0.9),
        ("equivalent_mdp_collapsed", 5, 2, 5, 0.9),
        ("paint-episodic", 11, 4, 4, 0.95),
        ("cheese-episodic", 11, 4, 7, 0.95),
        ("network-episodic", 7, 4, 3, 0.95),
        ("shuttle-episodic", 8, 3, 5, 0.95),
        ("maze4x3-episodic", 12, 4, 7, 0.95),
        ("tmaze-20", 45, 4, 5, 0.9),
    ],
)
def test_sizes(name, states, actions, observations, gamma):
    pomdp = library.load(name)
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (
        states,
        actions,
        observations,
    )
    assert float(pomdp.gamma) == gamma


def test_every_name_loads_and_says_what_it_hides():
    assert list(library.entries()) == library.names()
    for name, entry in library.entries().items():
        assert library.load(name).states == entry.build().states
        assert entry.hidden


def test_exactly_the_episodic_models_have_one_terminal_state_and_it_can_be_told_apart():
    always_end = {"tmaze", "tiger", "parity_check", "equivalent_mdp", "equivalent_mdp_collapsed"}
    for name in library.names():
        pomdp = library.load(name)
        terminal = np.asarray(pomdp.terminal)
        assert terminal.sum() == (name in always_end or name.endswith("-episodic")), name
        Phi = np.asarray(pomdp.Phi)
        assert not (Phi[terminal].any(axis=0) & Phi[~terminal].any(axis=0)).any(), name
        assert not np.asarray(pomdp.p0)[terminal].any(), name


def test_every_state_can_be_reached():
    for name in library.names():
        pomdp = library.load(name)
        reached = np.asarray(pomdp.p0) > 0
        for _ in range(pomdp.n_states):
            reached |= (np.asarray(pomdp.T)[:, reached] > 0).any(axis=(0, 1))
        assert reached.all(), (name, [pomdp.states[i] for i in np.flatnonzero(~reached)])


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ValueError, match=r"unknown model 'tigre'; did you mean 'tiger'\?"):
        library.load("tigre")
    with pytest.raises(ValueError, match="corridor must be at least 1"):
        library.load("tmaze-0")


def test_dashes_are_as_good_as_underscores():
    assert library.load("parity-check").states == library.parity_check().states


# T-maze


def test_tmaze_right_all_the_way_and_turn():
    maze = library.tmaze(corridor=5)
    right = ["right"] * 6
    assert follow(maze, "start-up", *right, "up") == ("end", 4.0)
    assert follow(maze, "start-up", *right, "down") == ("end", -0.1)
    assert follow(maze, "start-down", *right, "up") == ("end", -0.1)
    assert follow(maze, "start-down", *right, "down") == ("end", 4.0)
    assert start(maze) == {"start-up": 0.5, "start-down": 0.5}


def test_tmaze_walls_hold():
    maze = library.tmaze(corridor=2)
    assert follow(maze, "start-up", "left", "up", "down") == ("start-up", 0.0)
    assert follow(maze, "corridor2-down", "up", "down", "left", "left") == ("start-down", 0.0)
    assert follow(maze, "junction-up", "right", "left") == ("corridor2-up", 0.0)


def test_tmaze_values_of_always_right_then_up():
    maze = library.tmaze(corridor=5)
    policy = deterministic(maze, blue="right", red="right", corridor="right", junction="up")
    blue, right = maze.observations.index("blue"), maze.actions.index("right")
    mc, td = (np.asarray(q_values(maze, policy, lam)) for lam in (1.0, 0.0))
    assert mc[blue, right] == pytest.approx(2.125764, abs=1e-12)
    assert td[blue, right] == pytest.approx(1.03630995, abs=1e-12)


# Tiger and Paint


def test_tiger_by_hand():
    tiger = library.tiger()
    assert start(tiger) == {"tiger-left-initial": 0.5, "tiger-right-initial": 0.5}
    assert views(tiger, "tiger-left-initial") == {"initial": 1.0}
    assert views(tiger, "tiger-right-heard") == {"hear-right": 0.85, "hear-left": 0.15}
    assert follow(tiger, "tiger-left-initial", "listen", "listen", "open-right") == ("end", 8.0)
    assert follow(tiger, "tiger-left-heard", "open-left") == ("end", -100.0)
    assert follow(tiger, "end", "listen", "open-left", "open-right") == ("end", 0.0)


def test_tiger_listening_once_is_not_enough():
    tiger = library.tiger()
    trusting = deterministic(
        tiger, initial="listen", hear_left="open-right", hear_right="open-left"
    )
    expected = -1.0 + 0.95 * (0.85 * 10.0 - 0.15 * 100.0)
    assert float(start_value(tiger, trusting)) == pytest.approx(expected, abs=1e-12)
    listening = deterministic(tiger, initial="listen", hear_left="listen", hear_right="listen")
    assert float(start_value(tiger, listening)) == pytest.approx(-1.0 / 0.05, abs=1e-9)


@pytest.mark.parametrize("episodic", [False, True])
def test_paint_by_hand(episodic):
    paint = library.paint(episodic=episodic)
    first = "sound-unpainted-initial"
    assert start(paint) == {first: 0.5, "flawed-unpainted-initial": 0.5}
    assert views(paint, first) == {"initial": 1.0}
    inspected = "flawed-unpainted-after-inspect"
    assert follow(paint, "flawed-unpainted-initial", "inspect") == (inspected, 0.0)
    assert views(paint, inspected) == {"blemished": 0.75, "unblemished": 0.25}
    covered = next(s for s in paint.states if s.startswith("flawed-painted-after-paint"))
    assert chances(paint, inspected, "paint")[covered] == 0.9
    assert views(paint, covered) == {"unblemished": 1.0}
    assert views(paint, "flawed-painted-after-inspect") == {"unblemished": 0.75, "blemished": 0.25}

    def paid(part, action):
        s, a = paint.states.index(f"{part}-after-inspect"), paint.actions.index(action)
        return float(np.asarray(paint.R)[s, a])

    parts = ("sound-unpainted", "sound-painted", "flawed-painted", "flawed-unpainted")
    assert [paid(part, "ship") for part in parts] == [-1.0, 1.0, -1.0, -1.0]
    assert [paid(part, "reject") for part in parts] == [-1.0, -1.0, 0.0, 1.0]
    after = chances(paint, inspected, "ship")
    assert len(after) == (1 if episodic else 2)
    assert ("end" in after) == episodic


# Mazes


def test_cheese_is_six_steps_from_a_dead_end():
    maze = library.cheese()
    path = ["north", "north", "east", "east", "south", "south"]
    assert follow(maze, "cell8", *path) == ("cheese", 1.0)
    assert follow(maze, "cell9", *[{"east": "west"}.get(d, d) for d in path]) == ("cheese", 1.0)
    assert follow(maze, "cell0", "north", "west") == ("cell0", 0.0)
    assert follow(maze, "cell1", "south", "north") == ("cell1", 0.0)
    assert [next(iter(views(maze, f"cell{i}"))) for i in range(10)] == [
        "corner-nw",
        "horizontal",
        "wall-north",
        "horizontal",
        "corner-ne",
        "vertical",
        "vertical",
        "vertical",
        "dead-end",
        "dead-end",
    ]


def test_cheese_leads_back_to_a_uniform_start():
    maze = library.cheese()
    elsewhere = {f"cell{i}": 0.1 for i in range(10)}
    assert start(maze) == elsewhere
    assert all(chances(maze, "cheese", action) == elsewhere for action in maze.actions)
    assert not np.asarray(maze.R)[maze.states.index("cheese")].any()


def test_maze4x3_slips_to_either_side():
    maze = library.maze4x3()
    assert chances(maze, "cell4", "north") == {"cell2": 0.8, "cell4": 0.1, "bad": 0.1}
    assert chances(maze, "cell4", "west") == {"cell4": 0.8, "cell2": 0.1, "cell7": 0.1}
    assert chances(maze, "cell5", "south") == {"cell5": 0.9, "cell6": 0.1}
    assert chances(maze, "cell7", "east") == {"cell8": 0.8, "cell4": 0.1, "cell7": 0.1}
    assert chances(maze, "cell2", "east") == {"good": 0.8, "cell2": 0.1, "cell4": 0.1}


def test_maze4x3_feels_walls_to_both_sides_and_pays_at_its_goals():
    maze = library.maze4x3()
    felt = {state: next(iter(views(maze, state))) for state in maze.states}
    assert felt == {
        "cell0": "left",
        "cell1": "neither",
        "cell2": "neither",
        "good": "good",
        "cell3": "both",
        "cell4": "left",
        "bad": "bad",
        "cell5": "left",
        "cell6": "neither",
        "cell7": "neither",
        "cell8": "right",
    }
    R = dict(zip(maze.states, np.asarray(maze.R), strict=True))
    assert (R["good"] == 1.0).all()
    assert (R["bad"] == -1.0).all()
    assert (R["cell0"] == -0.04).all()
    ninth = {state: round(1 / 9, 12) for state in felt if state not in ("good", "bad")}
    assert start(maze) == chances(maze, "good", "north") == chances(maze, "bad", "west") == ninth


# Network and shuttle


def test_network_drifts_and_crashes():
    network = library.network()
    assert chances(network, "load0", "unrestrict") == {
        "load0": 0.5,
        "load20": 0.3,
        "load40": 0.1,
        "load60": 0.1,
    }
    assert chances(network, "load100", "unrestrict")["crash"] == 0.5
    assert chances(network, "load100", "steady")["crash"] == 0.3
    assert chances(network, "load80", "restrict") == {
        "load0": 0.1,
        "load40": 0.1,
        "load60": 0.3,
        "load80": 0.3,
        "load100": 0.1,
        "crash": 0.1,
    }
    assert chances(network, "crash", "steady") == {"crash": 1.0}
    for state in network.states:
        assert follow(network, state, "reboot") == ("load0", -40.0)
    R = np.asarray(network.R)[:, network.actions.index("steady")]
    assert R.tolist() == [-20.0, 0.0, 20.0, 40.0, 60.0, 80.0, -20.0]
    assert start(network) == {state: round(1 / 7, 12) for state in network.states}
    down = [views(network, state).get("down", 0.0) for state in network.states]
    assert down == [0.0, 0.0, 0.0, 0.1, 0.3, 0.5, 1.0]


def test_shuttle_there_and_back():
    shuttle = library.shuttle()
    assert start(shuttle) == {"docked-mrv": 1.0}
    there = ["forward", "forward", "forward", "turn"]
    assert follow(shuttle, "docked-mrv", *there) == ("at-lrv-facing-mrv", 0.0)
    docking = chances(shuttle, "at-lrv-facing-mrv", "backup")
    assert docking == {"docked-lrv": 0.7, "at-lrv-facing-mrv": 0.3}
    s, a = shuttle.states.index("at-lrv-facing-mrv"), shuttle.actions.index("backup")
    assert float(np.asarray(shuttle.R)[s, a]) == pytest.approx(7.0, abs=1e-12)
    # Having docked, this is the station visited most recently.
    assert follow(shuttle, "docked-lrv", "forward") == ("at-mrv-facing-lrv", 0.0)
    assert follow(shuttle, "docked-lrv", "backup") == ("docked-mrv", 0.0)
    assert follow(shuttle, "at-lrv-facing-lrv", "forward") == ("at-lrv-facing-lrv", -3.0)
    assert np.count_nonzero(np.asarray(shuttle.R)) == 3


def test_shuttle_stations_are_alike_but_for_docking():
    """Exchanging the stations changes nothing about moving through space."""
    shuttle = library.shuttle()
    exchanged = {"mrv": "lrv", "lrv": "mrv", "space": "space"}
    for state in shuttle.states[1:7]:
        _, place, _, ahead = state.split("-")
        mirror = f"at-{exchanged[place]}-facing-{exchanged[ahead]}"
        for action in shuttle.actions:
            mirrored = {
                "-".join(exchanged.get(word, word) for word in to.split("-")): p
                for to, p in chances(shuttle, state, action).items()
            }
            assert chances(shuttle, mirror, action) == mirrored


# The limits of the λ-discrepancy


@pytest.mark.parametrize("gamma", [0.5, 0.9, 1.0])
def test_parity_check_hides_from_every_memoryless_policy(gamma):
    parity = library.parity_check(gamma=gamma)
    for seed in range(5):
        assert float(lambda_discrepancy(parity, random_policy(parity, seed))) < 1e-12


@pytest.mark.parametrize("change", [{"stay": 0.3}, {"start": (0.4, 0.2, 0.2, 0.2)}])
def test_parity_check_shows_itself_when_perturbed(change):
    parity = library.parity_check(**change)
    for seed in range(5):
        assert float(lambda_discrepancy(parity, random_policy(parity, seed))) > 1e-4


def test_parity_check_pays_for_matching_families():
    parity = library.parity_check()
    for pair, up in (("red-pink", 1), ("red-cyan", -1), ("blue-pink", -1), ("blue-cyan", 1)):
        assert follow(parity, f"{pair}-first", "up", "down", "up") == ("end", up)
        assert follow(parity, f"{pair}-first", "down", "up", "down") == ("end", -up)
    lingering = chances(library.parity_check(stay=0.25), "red-cyan-first", "down")
    assert lingering == {"red-cyan-first": 0.25, "red-cyan-second": 0.75}


def test_parity_check_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match=r"stay is a probability .* got 1\.5"):
        library.parity_check(stay=1.5)
    with pytest.raises(ValueError, match="start needs 4 probabilities"):
        library.parity_check(start=(0.5, 0.5))
    with pytest.raises(ValueError, match="p0: the row sums to 2"):
        library.parity_check(start=(0.5, 0.5, 0.5, 0.5))


def probability_of_seeing(pomdp, actions, observations):
    """Pr(o_0 .. o_n | a_0 .. a_{n-1}), by summing over hidden paths."""
    T, Phi = np.asarray(pomdp.T), np.asarray(pomdp.Phi)
    weight = np.asarray(pomdp.p0) * Phi[:, observations[0]]
    for a, o in zip(actions, observations[1:], strict=True):
        weight = (weight @ T[a]) * Phi[:, o]
    return weight.sum()


@given(
    fork=st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
    actions=st.lists(st.integers(0, 1), min_size=3, max_size=3),
    observations=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    seed=st.integers(0, 99),
)
@settings(max_examples=30)
def test_equivalent_mdp_is_an_mdp(fork, actions, observations, seed):
    fork = np.array(fork) / np.sum(fork)
    pomdp, mdp = library.equivalent_mdp(fork), library.equivalent_mdp_collapsed(fork)
    observations[0] = 0
    assert probability_of_seeing(pomdp, actions, observations) == pytest.approx(
        probability_of_seeing(mdp, actions, observations), abs=1e-12
    )
    policy = random_policy(pomdp, seed)
    assert float(start_value(pomdp, policy)) == pytest.approx(
        float(start_value(mdp, policy)), abs=1e-12
    )
    assert float(lambda_discrepancy(pomdp, policy)) < 1e-12


def transition_policies(pomdp, policy):
    """T Π^S and T Φ W^Π as arrays [a, s, s', a'], from their definitions."""
    T, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.Phi, pomdp.p0))
    policy = np.asarray(policy)
    in_state = Phi @ policy
    moves = np.einsum("sa,ast->st", in_state, T)
    visits = np.linalg.solve(np.eye(len(p0)) - float(pomdp.gamma) * moves.T, p0)
    W = (Phi * visits[:, None]).T
    W = W / W.sum(axis=1, keepdims=True)
    true = np.einsum("ast,tb->astb", T, in_state)
    blurred = np.einsum("asu,uo,ot,ob->astb", T, Phi, W, policy)
    return true, blurred


def test_equivalent_mdp_is_no_block_mdp_but_its_transition_policies_match():
    pomdp, maze = library.equivalent_mdp(), library.tmaze()
    assert (np.count_nonzero(np.asarray(pomdp.Phi), axis=0) > 1).any()
    for seed in range(5):
        true, blurred = transition_policies(pomdp, random_policy(pomdp, seed))
        np.testing.assert_allclose(true, blurred, rtol=0, atol=1e-14)
        true, blurred = transition_policies(maze, random_policy(maze, seed))
        assert np.abs(true - blurred).max() > 0.01


# Random models


sizes = {"s": st.integers(2, 7), "a": st.integers(1, 4), "o": st.integers(2, 6)}


@given(seed=st.integers(0, 9999), **sizes)
@settings(max_examples=20)
def test_random_pomdp_is_the_same_for_the_same_seed_only(seed, s, a, o):
    one, same, other = (
        np.asarray(library.random_pomdp(k, s, a, o).T) for k in (seed, seed, seed + 1)
    )
    assert (one == same).all()
    assert not (one == other).all()


@given(seed=st.integers(0, 9999), k=st.integers(1, 7), **sizes)
@settings(max_examples=40)
def test_random_pomdp_options_do_what_they_say(seed, k, s, a, o):
    k = min(k, s - 1)
    pomdp = library.random_pomdp(
        seed, s, a, o, gamma=1.0, deterministic_observations=True, terminal=True, successors=k
    )
    assert np.asarray(pomdp.terminal).tolist() == [False] * (s - 1) + [True]
    assert (np.count_nonzero(np.asarray(pomdp.T)[:, :-1, :-1], axis=2) == k).all()
    Phi = np.asarray(pomdp.Phi)
    assert (np.count_nonzero(Phi, axis=1) == 1).all()
    assert np.count_nonzero(Phi.sum(axis=0)) == min(s, o)
    assert Phi[-1, -1] == 1.0


@given(seed=st.integers(0, 9999), s=st.integers(2, 5), k=st.integers(1, 3))
@settings(max_examples=20)
def test_random_block_mdp_gives_every_observation_to_one_state(seed, s, k):
    block = library.random_block_mdp(seed, s, 2, observations_per_state=k)
    Phi = np.asarray(block.Phi)
    assert Phi.shape == (s, s * k)
    assert ((Phi > 0).sum(axis=0) == 1).all()


@given(seed=st.integers(0, 9999))
@settings(max_examples=20)
def test_random_block_mdp_has_no_discrepancy(seed):
    block = library.random_block_mdp(seed)
    assert float(lambda_discrepancy(block, random_policy(block, seed))) < 1e-10


def test_random_pomdps_are_aliased_and_show_it():
    for seed in range(10):
        pomdp = library.random_pomdp(seed)
        assert float(lambda_discrepancy(pomdp, random_policy(pomdp, seed))) > 1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_states": 1, "terminal": True}, "need at least 2 states"),
        ({"n_actions": 0}, "need at least 1 of each"),
        ({"n_states": 3, "successors": 4}, "successors must be between 1 and 3, got 4"),
    ],
)
def test_random_pomdp_refuses_impossible_sizes(arguments, message):
    with pytest.raises(ValueError, match=message):
        library.random_pomdp(0, **arguments)


# Resolving what a command was given


def test_resolve_takes_a_name_or_a_file(tmp_path):
    from markovlens.pomdp.cassandra import write_pomdp

    path = tmp_path / "mine.POMDP"
    write_pomdp(library.tiger(), path)
    assert library.resolve(str(path)).states == library.resolve("tiger").states


def test_resolve_says_what_it_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"no file '.*gone\.POMDP'; give the path"):
        library.resolve(str(tmp_path / "gone.POMDP"))
    with pytest.raises(ValueError, match=r"unknown model or file 'chese'; did you mean 'cheese'"):
        library.resolve("chese")
