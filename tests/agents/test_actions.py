import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from markovlens.agents.actions import Categorical, Gaussian, action_distribution, forbid
from markovlens.envs.spaces import Binary, Box, Discrete


def test_categorical_draws_with_its_probabilities():
    logits = jnp.array([1.0, 0.0, -1.0])
    space = Categorical(3)
    n = 20_000
    drawn = space.sample(jnp.broadcast_to(logits, (n, 3)), space.noise(jax.random.key(0), (n,)))
    counts = np.bincount(drawn, minlength=3)
    probs = np.exp(np.float64(space.log_prob(jnp.broadcast_to(logits, (3, 3)), jnp.arange(3))))
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-6)
    assert stats.chisquare(counts, probs / probs.sum() * n).pvalue > 1e-3
    np.testing.assert_allclose(space.entropy(logits), stats.entropy(probs), rtol=1e-5)


def test_forbidden_actions_have_no_probability_and_no_part_in_the_entropy():
    allowed = jnp.array([True, False, True])
    logits = forbid(jnp.array([0.0, 50.0, 0.0]), allowed)
    space = Categorical(3)
    drawn = space.sample(
        jnp.broadcast_to(logits, (1000, 3)), space.noise(jax.random.key(1), (1000,))
    )
    assert set(np.unique(drawn)) == {0, 2}
    assert space.mode(logits) != 1
    np.testing.assert_allclose(space.entropy(logits), np.log(2), rtol=1e-6)
    assert np.exp(space.log_prob(logits, jnp.int32(1))) == 0.0


def test_gaussian_against_scipy():
    space = Gaussian((2,))
    outputs = jnp.array([0.5, -1.0, 0.2, -0.3])
    mean, sd = np.array([0.5, -1.0]), np.exp([0.2, -0.3])
    action = jnp.array([0.1, 0.4])
    want = stats.norm.logpdf(action, mean, sd).sum()
    np.testing.assert_allclose(space.log_prob(outputs, action), want, rtol=1e-5)
    np.testing.assert_allclose(
        space.entropy(outputs), stats.norm.entropy(mean, sd).sum(), rtol=1e-5
    )
    np.testing.assert_allclose(space.mode(outputs), mean)
    drawn = space.sample(
        jnp.broadcast_to(outputs, (5000, 4)), space.noise(jax.random.key(0), (5000,))
    )
    np.testing.assert_allclose(drawn.std(0), sd, rtol=0.05)


def test_a_space_chooses_its_distribution():
    assert action_distribution(Discrete(4)).n_outputs == 4
    assert action_distribution(Box((3,))).n_outputs == 6
    with pytest.raises(ValueError, match="Discrete or Box"):
        action_distribution(Binary(3))
