"""Splitting states on the arriving action gives the same decision problem."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markovlens.pomdp.cassandra import parse_pomdp
from markovlens.pomdp.splitting import split_on_action
from markovlens.values.td_lambda import start_value

TIGER = """
discount: 0.95
states: left right
actions: listen open-left open-right
observations: hear-left hear-right
start: uniform
T: listen identity
T: open-left uniform
T: open-right uniform
O: listen 0.85 0.15 0.15 0.85
O: open-left uniform
O: open-right uniform
R: listen : * : * : * -1
R: open-left : left : * : * -100
R: open-left : right : * : * 10
R: open-right : left : * : * 10
R: open-right : right : * : * -100
"""


class Original(NamedTuple):
    """A POMDP that shows `o` with probability `O[a, s', o]` after `a` has led to `s'`."""

    T: np.ndarray
    R: np.ndarray
    O: np.ndarray  # noqa: E741
    p0: np.ndarray
    gamma: float

    def split(self):
        names = [
            [f"{letter}{i}" for i in range(n)] for letter, n in zip("sao", self.sizes, strict=True)
        ]
        return split_on_action(self.T, self.R, self.O, self.p0, self.gamma, *names)

    @property
    def sizes(self):
        n_actions, n_states, n_observations = self.O.shape
        return n_states, n_actions, n_observations


def random_original(seed, n_states=3, n_actions=3, n_observations=2):
    rng = np.random.default_rng(seed)
    T = rng.dirichlet(np.full(n_states, 0.5), (n_actions, n_states))
    T = np.where(T < 0.1, 0.0, T)
    T /= T.sum(axis=2, keepdims=True)
    O = rng.dirichlet(np.ones(n_observations), (n_actions, n_states))  # noqa: E741
    if rng.random() < 0.5:
        O[0] = O[1]  # some actions share what they show
    p0 = rng.dirichlet(np.ones(n_states)) * (rng.random(n_states) < 0.7)
    p0 = p0 / p0.sum() if p0.any() else np.eye(n_states)[0]
    return Original(T, rng.normal(size=(n_states, n_actions)), O, p0, 0.9)


def best(horizon, belief, actions, step, pays, gamma):
    """The best expected return from an unnormalised belief, over all plans of that length."""
    if horizon == 0:
        return 0.0
    return max(
        float(belief @ pays[:, a])
        + gamma
        * sum(best(horizon - 1, after, actions, step, pays, gamma) for after in step(belief, a))
        for a in actions
    )


def best_in_original(model, horizon):
    def step(belief, a):
        reached = belief @ model.T[a]
        return [reached * model.O[a, :, o] for o in range(model.O.shape[2])]

    return best(horizon, model.p0, range(model.T.shape[0]), step, model.R, model.gamma)


def best_in_split(pomdp, horizon):
    """The agent sees the first observation before it acts."""
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))

    def step(belief, a):
        return [(belief @ T[a]) * Phi[:, o] for o in range(pomdp.n_observations)]

    return sum(
        best(horizon, p0 * Phi[:, o], range(pomdp.n_actions), step, R, float(pomdp.gamma))
        for o in range(pomdp.n_observations)
    )


@given(st.integers(0, 10**6))
@settings(max_examples=40)
def test_belief_values_are_the_same(seed):
    model = random_original(seed)
    pomdp = model.split()
    assert pomdp.observations[-1] == "initial"
    for horizon in (1, 3):
        assert best_in_split(pomdp, horizon) == pytest.approx(
            best_in_original(model, horizon), abs=1e-11
        )


def test_belief_values_of_the_tiger():
    """Known: listening twice beats guessing, and the file says so after splitting too."""
    pomdp = parse_pomdp(TIGER)
    assert best_in_split(pomdp, 1) == pytest.approx(-1.0, abs=1e-12)
    # Two steps: listen, listen. Three: after hearing the same side twice, open the other door.
    assert best_in_split(pomdp, 2) == pytest.approx(-1.95, abs=1e-12)
    agree = 0.85**2 + 0.15**2
    gain = (10 * 0.85**2 - 100 * 0.15**2) / agree
    third = agree * gain + (1 - agree) * -1.0
    assert best_in_split(pomdp, 3) == pytest.approx(-1.95 + 0.95**2 * third, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_simulated_returns_are_the_same(seed):
    """Play the original by its rules, and compare with the closed form of the split model."""
    model = random_original(seed)
    pomdp = model.split()
    rng = np.random.default_rng(seed + 1)
    policy = rng.dirichlet(np.ones(pomdp.n_actions), pomdp.n_observations)
    n, steps = 20_000, 100
    draw = lambda rows: (rng.random((len(rows), 1)) > rows.cumsum(axis=1)[:, :-1]).sum(axis=1)  # noqa: E731
    state = draw(np.tile(model.p0, (n, 1)))
    seen = np.full(n, pomdp.observations.index("initial"))
    returns = np.zeros(n)
    for t in range(steps):
        action = draw(policy[seen])
        returns += model.gamma**t * model.R[state, action]
        state = draw(model.T[action, state])
        seen = draw(model.O[action, state])
    error = returns.std() / np.sqrt(n)
    assert abs(returns.mean() - float(start_value(pomdp, policy))) < 4 * error + 1e-3


def test_copies_are_made_for_groups_of_actions_that_show_the_same():
    pomdp = parse_pomdp(TIGER)
    assert pomdp.observations == ("hear-left", "hear-right", "initial")
    assert pomdp.states == (
        "left-initial",
        "right-initial",
        "left-after-listen",
        "left-after-open-left-or-open-right",
        "right-after-listen",
        "right-after-open-left-or-open-right",
    )
    assert np.asarray(pomdp.p0)[:2].tolist() == [0.5, 0.5]
    assert np.asarray(pomdp.Phi)[2].tolist() == [0.85, 0.15, 0.0]


def test_nothing_is_split_when_the_action_makes_no_difference():
    text = TIGER.replace("O: open-left uniform", "").replace("O: open-right uniform", "")
    pomdp = parse_pomdp(text.replace("O: listen", "O: *"))
    assert pomdp.states == ("left", "right")
    assert pomdp.observations == ("hear-left", "hear-right")


def test_nothing_is_split_when_the_difference_can_never_be_seen():
    """`back` never leads to `far`, so what it would show there does not matter."""
    pomdp = parse_pomdp(
        "discount: 0.9 states: near far actions: go back observations: x y start: near "
        "T: go : * : far 1 T: back : * : near 1 O: * : near : x 1 "
        "O: go : far : y 1 O: back : far : x 1"
    )
    assert pomdp.states == ("near", "far")
    assert np.asarray(pomdp.Phi).tolist() == [[1, 0], [0, 1]]


def test_an_end_reached_by_different_actions_stays_an_end():
    with pytest.warns(UserWarning, match="state 'over' is never left"):
        pomdp = parse_pomdp(
            "discount: 1 states: on over actions: win lose observations: up down start: on "
            "T: * : * : over 1 O: win : * : up 1 O: lose : * : down 1 "
            "R: win : on : * : * 1 R: * : over : * : * 5"
        )
    assert pomdp.states == ("on-initial", "over-after-win", "over-after-lose")
    assert np.asarray(pomdp.terminal).tolist() == [False, True, True]
    assert np.asarray(pomdp.R).tolist() == [[1, 0], [0, 0], [0, 0]]


def test_a_state_that_never_changes_is_no_end_as_long_as_it_pays():
    """A patient who is ill or not: tests tell, treatment pays, and the illness stays."""
    model = Original(
        T=np.stack([np.eye(2)] * 2),
        R=np.array([[-0.1, 1.0], [-0.1, -2.0]]),
        O=np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]]),
        p0=np.array([0.5, 0.5]),
        gamma=0.9,
    )
    pomdp = model.split()
    assert not np.asarray(pomdp.terminal).any()
    assert best_in_split(pomdp, 4) == pytest.approx(best_in_original(model, 4), abs=1e-12)
    assert best_in_split(pomdp, 4) > best_in_split(pomdp, 1) > -0.11


def test_new_names_do_not_clash_with_old_ones():
    text = TIGER.replace("hear-left", "initial").replace("left right", "left left-initial")
    pomdp = parse_pomdp(text.replace(": right", ": left-initial"))
    assert pomdp.observations == ("initial", "hear-right", "initial_")
    assert len(set(pomdp.states)) == 6
