"""Belief policies: Bayes' rule, and returns that agree with the bounds."""

import numpy as np
import pytest

from markovlens.pomdp import library
from markovlens.pomdp.beliefs import simulate
from markovlens.pomdp.solve import solve


@pytest.fixture(scope="module")
def tiger():
    return solve(library.load("tiger"))


def test_two_roars_on_the_same_side(tiger):
    """0.85² / (0.85² + 0.15²), by hand."""
    policy = tiger.policy
    names = policy.pomdp.observations
    listen = policy.pomdp.actions.index("listen")
    belief = policy.start(
        int(np.argmax(np.asarray(policy.pomdp.p0) @ np.asarray(policy.pomdp.Phi)))
    )
    heard = next(o for o, name in enumerate(names) if "left" in name)
    belief = policy.update(policy.update(belief, listen, heard), listen, heard)
    np.testing.assert_allclose(belief.max(), 0.85**2 / (0.85**2 + 0.15**2))
    np.testing.assert_allclose(belief.sum(), 1.0)


def test_many_beliefs_at_once_are_each_alone(tiger):
    policy = tiger.policy
    rng = np.random.default_rng(0)
    beliefs = rng.dirichlet(np.ones(policy.pomdp.n_states), 6)
    actions = policy.act(beliefs)
    observations = np.full(6, 1)
    together = policy.update(beliefs, np.zeros(6, dtype=int), observations)
    for i in range(6):
        assert actions[i] == policy.act(beliefs[i])
        np.testing.assert_allclose(together[i], policy.update(beliefs[i], 0, 1))


def test_an_impossible_observation_is_named():
    policy = solve(library.load("tmaze")).policy
    end = policy.pomdp.n_observations - 1
    with pytest.raises(ValueError, match=f"observation '{policy.pomdp.observations[end]}' cannot"):
        policy.start(end)


@pytest.mark.parametrize(
    ("name", "steps"),
    [("tiger", 100), ("maze4x3", 200), ("shuttle", 200), ("paint-episodic", 200)],
)
def test_simulated_returns_agree_with_the_bounds(name, steps):
    """The policy is worth at least `lower`, and nothing is worth more than `upper`."""
    solution = solve(library.load(name))
    returns = simulate(solution.policy, episodes=5000, steps=steps, seed=1)
    error = 4.0 * returns.std() / np.sqrt(len(returns))
    beyond = 0.95**steps * 10.0 / 0.05  # what the steps cut off can be worth
    assert solution.lower - error - beyond <= returns.mean() <= solution.upper + error


def test_returns_end_with_the_episode():
    """The T-maze's best return is always the same: 4 after six steps of discount."""
    solution = solve(library.load("tmaze"))
    returns = simulate(solution.policy, episodes=50, steps=1000)
    np.testing.assert_allclose(returns, 4 * 0.9**6)
