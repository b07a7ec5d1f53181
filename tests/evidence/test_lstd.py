import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markovlens.evidence import lstd as module
from markovlens.evidence.lstd import lstd, one_hot
from markovlens.evidence.trajectories import Trajectories


def random_data(seed: int, n: int = 150, n_observations: int = 4) -> Trajectories:
    rng = np.random.default_rng(seed)
    ends = rng.random(n) < 0.15
    over = ends & (rng.random(n) < 0.6)
    o = rng.integers(0, n_observations, n)
    return Trajectories(
        observation=o,
        action=rng.integers(0, 2, n),
        reward=rng.normal(size=n) + o,
        terminated=over,
        truncated=ends & ~over,
        next_observation=np.where(ends, rng.integers(0, n_observations, n), np.roll(o, -1)),
    )


def by_definition(data: Trajectories, phi, gamma: float, lam: float) -> np.ndarray:
    """Step by step, with a trace that is set to zero at every start."""
    size = phi(data.observation[:1]).shape[1]
    A, b, z = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for t in range(len(data)):
        z = (0.0 if data.time[t] == 0 else gamma * lam) * z + phi(data.observation[t : t + 1])[0]
        after = phi(data.next_observation[t : t + 1])[0] * (not data.terminated[t])
        A += np.outer(z, phi(data.observation[t : t + 1])[0] - gamma * after)
        b += z * data.reward[t]
    return np.linalg.solve(A, b)


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.0, 0.99), st.floats(0.0, 1.0))
def test_agrees_with_the_definition(seed, gamma, lam):
    data = random_data(seed)
    fast = lstd(data, one_hot(4), gamma, lam, ridge=0.0)
    np.testing.assert_allclose(fast, by_definition(data, one_hot(4), gamma, lam), rtol=1e-8)


def test_portions_do_not_matter(monkeypatch):
    data = random_data(1)
    whole = lstd(data, one_hot(4), 0.9, 0.7)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(lstd(data, one_hot(4), 0.9, 0.7), whole, rtol=1e-10)


def test_lambda_1_without_truncation_is_the_average_return():
    data = Trajectories(
        observation=[0, 1, 0, 1, 0],
        action=[0] * 5,
        reward=[1.0, 2.0, 3.0, 4.0, 5.0],
        terminated=[False, True, False, True, True],
    )
    # Returns with γ = 1/2: from 0: 1 + 1, 3 + 2, 5; from 1: 2, 4.
    np.testing.assert_allclose(lstd(data, one_hot(2), 0.5, 1.0), [4.0, 3.0], rtol=1e-8)


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_a_truncation_is_not_an_end(lam):
    """One state that pays 1 for ever is worth 1 / (1 − γ), however short the pieces we watch."""
    n = 30
    data = Trajectories(
        observation=np.zeros(n, dtype=int),
        action=np.zeros(n, dtype=int),
        reward=np.ones(n),
        terminated=np.zeros(n, dtype=bool),
        truncated=np.arange(n) % 3 == 2,
        next_observation=np.zeros(n, dtype=int),
    )
    np.testing.assert_allclose(lstd(data, one_hot(1), 0.9, lam), [10.0], rtol=1e-6)


def test_values_of_pairs_are_action_values():
    """Q of a bandit: the action's own reward, and nothing after it."""
    data = Trajectories(
        observation=[0, 0, 0, 0],
        action=[0, 1, 0, 1],
        reward=[1.0, 5.0, 2.0, 7.0],
        terminated=[True] * 4,
    )
    pairs = data.observation * 2 + data.action
    fit = lstd(data, one_hot(2), 0.9, 0.3, inputs=(pairs, np.zeros(4, dtype=int)))
    np.testing.assert_allclose(fit, [1.5, 6.0], rtol=1e-8)


def test_lambda_out_of_range():
    with pytest.raises(ValueError, match="lam"):
        lstd(random_data(0), one_hot(4), 0.9, 1.5)
