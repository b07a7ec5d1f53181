import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from markovlens.agents.losses import (
    Losses,
    clipped_policy_loss,
    clipped_value_loss,
    discrepancy_loss,
    lambda_returns,
)

unit = st.floats(0.0, 1.0, width=32)


def returns_by_the_definition(reward, next_value, ended, gamma, lam):
    """Backwards through G_t = r_t + γ ((1-λ) v_{t+1} + λ G_{t+1})."""
    n = len(reward)
    out = np.zeros(n)
    for t in reversed(range(n)):
        if ended[t] or t == n - 1:
            out[t] = reward[t] + gamma * next_value[t]
        else:
            out[t] = reward[t] + gamma * ((1 - lam) * next_value[t] + lam * out[t + 1])
    return out


@given(st.integers(0, 2**32 - 1), unit, unit)
def test_lambda_returns_against_a_loop(seed, gamma, lam):
    rng = np.random.default_rng(seed)
    n = 12
    reward, value = rng.normal(size=(2, n))
    ended = rng.random(n) < 0.25
    terminated = ended & (rng.random(n) < 0.5)
    # Within an episode v_{t+1} is the next value; at its end and the sequence's, something else.
    next_value = np.append(value[1:], rng.normal())
    next_value = np.where(ended, rng.normal(size=n), next_value)
    next_value[terminated] = 0.0
    got = lambda_returns(
        *(jnp.float32(x) for x in (reward, value, next_value)), jnp.array(ended), gamma, lam
    )
    want = returns_by_the_definition(reward, next_value, ended, gamma, lam)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_clipped_policy_loss_by_hand():
    """Advantages ±1 after normalisation. Ratio 2 counts 1.2 for the good action, 2 for the bad."""
    advantage = jnp.array([3.0, 1.0])
    loss = clipped_policy_loss(jnp.log(jnp.array([2.0, 2.0])), advantage, 0.2)
    np.testing.assert_allclose(loss, -(1.2 - 2.0) / 2, rtol=1e-5)


def test_clipped_value_loss_is_the_worse_of_two():
    value, old, target = jnp.array([[1.0]]), jnp.array([[0.0]]), jnp.array([[1.0]])
    # Moving from 0 to the target 1 exceeds ε = 0.2: the loss is that of 0.2, and has no gradient.
    np.testing.assert_allclose(clipped_value_loss(value, old, target, 0.2), [0.64], rtol=1e-6)
    np.testing.assert_allclose(clipped_value_loss(value, old, -target, 0.2), [4.0], rtol=1e-6)


def test_discrepancy_loss():
    value = jnp.array([[1.0, 3.0], [2.0, 2.0]])
    assert discrepancy_loss(value) == 2.0
    assert discrepancy_loss(value[:, :1]) == 0.0


def test_total_averages_the_critics_and_trades_them_for_the_discrepancy():
    losses = Losses(jnp.float32(10.0), jnp.array([2.0, 4.0]), jnp.float32(8.0), jnp.float32(0.5))
    total = losses.total(beta=0.25, value_weight=0.5, entropy_weight=0.1)
    np.testing.assert_allclose(total, 10.0 + 0.5 * (0.25 * 8.0 + 0.75 * 3.0) - 0.05)
