"""The closed form against the paper's equation, and the identities the paper states."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import markovlens as ml
from tests.values import oracle
from tests.values.strategies import pomdps, random_memory


def policies(pomdp, seed):
    return np.asarray(ml.random_policy(pomdp, seed))


@settings(max_examples=300)
@given(pomdps(), st.integers(0, 1000), st.sampled_from([0.0, 0.3, 0.9, 1.0]))
def test_q_values_match_the_equation_written_out(pomdp, seed, lam):
    policy = policies(pomdp, seed)
    scale = 1.0 + np.abs(np.asarray(pomdp.R)).max() / (1.0 - float(pomdp.gamma))
    found = np.asarray(ml.q_values(pomdp, policy, lam))
    assert np.isfinite(found).all()
    assert np.abs(found - oracle.q_values(pomdp, policy, lam)).max() < 1e-9 * scale


@settings(max_examples=50)
@given(pomdps(), st.integers(0, 1000))
def test_occupancy_and_weights(pomdp, seed):
    policy = policies(pomdp, seed)
    visits = np.asarray(ml.occupancy(pomdp, policy))
    assert visits == pytest.approx(oracle.occupancy(pomdp, policy), rel=1e-9, abs=1e-12)
    assert visits.sum() * (1.0 - float(pomdp.gamma)) == pytest.approx(1.0)
    weights = np.asarray(ml.state_weights(pomdp, policy))
    sums = weights.sum(axis=1)
    assert np.all((np.abs(sums - 1.0) < 1e-12) | (sums == 0.0))


@settings(max_examples=50)
@given(pomdps(), st.integers(0, 1000))
def test_monte_carlo_values_are_projected_state_values(pomdp, seed):
    policy = policies(pomdp, seed)
    weights = np.asarray(ml.state_weights(pomdp, policy))
    values = np.asarray(ml.state_values(pomdp, policy))
    T, R, gamma = np.asarray(pomdp.T), np.asarray(pomdp.R), float(pomdp.gamma)
    state_q = R + gamma * np.einsum("ast,t->sa", T, values)
    expected = weights @ state_q
    assert np.asarray(ml.q_values(pomdp, policy, 1.0)) == pytest.approx(
        expected, rel=1e-8, abs=1e-8
    )


@settings(max_examples=50)
@given(pomdps(), st.integers(0, 1000))
def test_td_values_solve_the_effective_mdp(pomdp, seed):
    policy = policies(pomdp, seed)
    mdp = ml.effective_mdp(pomdp, policy)
    q = np.asarray(ml.q_values(pomdp, policy, 0.0))
    v = (policy * q).sum(axis=1)
    backed_up = np.asarray(mdp.R) + float(pomdp.gamma) * np.einsum(
        "aop,p->oa", np.asarray(mdp.T), v
    )
    assert q == pytest.approx(backed_up, rel=1e-8, abs=1e-8)


@settings(max_examples=50)
@given(pomdps(), st.integers(0, 1000), st.floats(0.0, 1.0))
def test_v_is_q_averaged_over_actions(pomdp, seed, lam):
    policy = policies(pomdp, seed)
    q, v = ml.q_values(pomdp, policy, lam), ml.v_values(pomdp, policy, lam)
    assert np.asarray(v) == pytest.approx((policy * np.asarray(q)).sum(axis=1), abs=1e-9)


@settings(max_examples=50)
@given(pomdps(), st.integers(0, 1000))
def test_td_values_of_the_first_observation_give_the_start_value(pomdp, seed):
    """p0·Φ·V^{λ=0} = J exactly, for every policy (not so for λ = 1)."""
    policy = policies(pomdp, seed)
    seen_first = np.asarray(pomdp.p0) @ np.asarray(pomdp.Phi)
    td = seen_first @ np.asarray(ml.v_values(pomdp, policy, 0.0))
    assert td == pytest.approx(float(ml.start_value(pomdp, policy)), rel=1e-8, abs=1e-8)


def test_monte_carlo_values_of_the_first_observation_do_not():
    cheese = ml.library.cheese()
    policy = policies(cheese, 1)
    seen_first = np.asarray(cheese.p0) @ np.asarray(cheese.Phi)
    mc = seen_first @ np.asarray(ml.v_values(cheese, policy, 1.0))
    assert abs(mc - float(ml.start_value(cheese, policy))) > 1e-3


@settings(max_examples=40)
@given(
    # Without terminal states: the product view freezes the memory there, the exact one need not.
    pomdps(sizes=[(3, 2, 1), (5, 3, 4)], may_end=False),
    st.sampled_from([1, 3]),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.4, 1.0]),
)
def test_exact_memory_equals_the_product_view(pomdp, n_memory, seed, lam):
    """A memory is a policy over (action, next memory) in P_M; Q averages over m' ~ μ."""
    policy, memory = random_memory(pomdp, n_memory, seed)
    product = ml.product_memory(pomdp, n_memory)
    joint = np.einsum("oma,oamn->oman", policy, memory)
    flat = joint.reshape(joint.shape[0] * n_memory, -1)
    assert float(ml.start_value(product, flat)) == pytest.approx(
        float(ml.start_value(pomdp, policy, memory=memory)), rel=1e-9, abs=1e-9
    )
    q = np.asarray(ml.q_values(product, flat, lam)).reshape(joint.shape)
    expected = np.einsum("oman,oamn->oma", q, memory)
    found = np.asarray(ml.q_values(pomdp, policy, lam, memory=memory))
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_exact_memory_equals_a_simulated_agent_and_the_folded_view_does_not():
    """FACTS: one observation serves action and memory; folding draws a second one."""
    rng = np.random.default_rng(5)
    pomdp = ml.library.random_pomdp(seed=11, n_states=4, n_actions=2, n_observations=2, gamma=0.8)
    policy = rng.dirichlet(np.full(2, 0.2), size=(2, 2))
    memory = rng.dirichlet(np.full(2, 0.05), size=(2, 2, 2))
    exact = float(ml.start_value(pomdp, policy, memory=memory))
    folded = float(ml.start_value(ml.fold_memory(pomdp, memory), policy.reshape(4, 2)))
    returns = simulate(pomdp, policy, memory, n_episodes=200_000, n_steps=50, rng=rng)
    standard_error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - exact) < 4 * standard_error
    assert abs(folded - exact) > 10 * standard_error


def simulate(pomdp, policy, memory, n_episodes, n_steps, rng):
    """Discounted returns of agents that use one observation a step for action and memory."""
    T, R, Phi = np.asarray(pomdp.T), np.asarray(pomdp.R), np.asarray(pomdp.Phi)
    gamma = float(pomdp.gamma)

    def draw(rows):
        return (rows.cumsum(axis=1) < rng.random(len(rows))[:, None]).sum(axis=1)

    s = draw(np.tile(np.asarray(pomdp.p0), (n_episodes, 1)))
    m = np.zeros(n_episodes, dtype=int)
    returns = np.zeros(n_episodes)
    for t in range(n_steps):
        o = draw(Phi[s])
        a = draw(policy[o, m])
        returns += gamma**t * R[s, a]
        m = draw(memory[o, a, m])
        s = draw(T[a, s])
    return returns


def test_tmaze_values_known_by_hand():
    tmaze = ml.library.tmaze()
    policy = right_then_up(tmaze)
    blue, right = 0, tmaze.actions.index("right")
    assert float(ml.q_values(tmaze, policy, 1.0)[blue, right]) == pytest.approx(2.125764, abs=1e-12)
    assert float(ml.q_values(tmaze, policy, 0.0)[blue, right]) == pytest.approx(
        1.03630995, abs=1e-12
    )


def test_tmaze_undiscounted():
    tmaze = ml.library.tmaze(gamma=1.0 - 1e-9)
    policy = right_then_up(tmaze)
    blue, right = 0, tmaze.actions.index("right")
    assert float(ml.q_values(tmaze, policy, 1.0)[blue, right]) == pytest.approx(4.0, abs=1e-6)
    assert float(ml.q_values(tmaze, policy, 0.0)[blue, right]) == pytest.approx(1.95, abs=1e-6)


def right_then_up(tmaze):
    policy = np.zeros((tmaze.n_observations, tmaze.n_actions))
    policy[:, tmaze.actions.index("right")] = 1.0
    policy[tmaze.observations.index("junction")] = np.eye(tmaze.n_actions)[
        tmaze.actions.index("up")
    ]
    return policy


def test_gamma_one_counts_each_episode_once():
    parity = ml.library.parity_check(gamma=1.0)
    policy = policies(parity, 0)
    visits = np.asarray(ml.occupancy(parity, policy))
    assert visits[np.asarray(parity.terminal)] == pytest.approx([1.0])
    assert visits.sum() == pytest.approx(4.0)  # three decisions and the end
    for lam in (0.0, 0.5, 1.0):
        assert np.isfinite(np.asarray(ml.q_values(parity, policy, lam))).all()


def test_lambda_and_gamma_sweeps_compile_once():
    pomdp = ml.library.tiger()
    policy = policies(pomdp, 0)
    traces = []

    @jax.jit
    def value(lam, gamma):
        traces.append(1)
        return ml.v_values(eqx.tree_at(lambda p: p.gamma, pomdp, gamma), policy, lam)

    for lam, gamma in ((0.0, 0.5), (0.5, 0.9), (1.0, 0.99)):
        value(lam, gamma)
    assert len(traces) == 1
    swept = jax.vmap(lambda lam: ml.q_values(pomdp, policy, lam))(jnp.linspace(0.0, 1.0, 5))
    assert np.asarray(swept[2]) == pytest.approx(np.asarray(ml.q_values(pomdp, policy, 0.5)))


@pytest.mark.parametrize("field", ["T", "R", "Phi", "p0", "gamma"])
def test_gradients_with_respect_to_the_model(field):
    pomdp = ml.library.random_pomdp(seed=3, n_states=4, n_actions=2, n_observations=3, gamma=0.9)
    policy = policies(pomdp, 0)

    def discrepancy(pomdp):
        return ml.lambda_discrepancy(pomdp, policy)

    gradient = np.asarray(getattr(jax.grad(discrepancy)(pomdp), field))
    value = np.asarray(getattr(pomdp, field))
    direction = np.random.default_rng(0).normal(size=value.shape)

    def along(t):
        moved = eqx.tree_at(lambda p: getattr(p, field), pomdp, value + t * direction)
        return float(discrepancy(moved))

    numeric = (along(1e-5) - along(-1e-5)) / 2e-5
    assert (gradient * direction).sum() == pytest.approx(numeric, rel=1e-6)


def test_gradients_with_respect_to_policy_and_memory():
    pomdp = ml.library.random_pomdp(seed=3, n_states=4, n_actions=2, n_observations=3, gamma=0.9)
    policy, memory = random_memory(pomdp, 2, seed=1)
    rng = np.random.default_rng(0)

    def discrepancy(policy, memory):
        return ml.lambda_discrepancy(pomdp, policy, memory=memory)

    with jax.enable_x64(True):
        gradients = jax.grad(discrepancy, argnums=(0, 1))(jnp.asarray(policy), jnp.asarray(memory))
    # Directions along the simplex, so that moved rows still sum to 1.
    d_policy = _centred(rng.normal(size=policy.shape))
    d_memory = _centred(rng.normal(size=memory.shape))

    def along(t):
        return float(discrepancy(policy + t * d_policy, memory + t * d_memory))

    numeric = (along(1e-6) - along(-1e-6)) / 2e-6
    found = (np.asarray(gradients[0]) * d_policy).sum() + (
        np.asarray(gradients[1]) * d_memory
    ).sum()
    assert found == pytest.approx(numeric, rel=1e-5)


def _centred(x):
    return (x - x.mean(axis=-1, keepdims=True)) * 1e-2


def test_float32_callers_get_float32_gradients_without_warnings():
    pomdp = ml.library.tiger()
    policy = jnp.asarray(np.asarray(ml.random_policy(pomdp)), jnp.float32)
    gradient = jax.jit(jax.grad(lambda p: ml.lambda_discrepancy(pomdp, p)))(policy)
    assert gradient.dtype == jnp.float32
    assert np.isfinite(np.asarray(gradient)).all()


def test_lists_are_as_good_as_arrays():
    pomdp = ml.library.tiger()
    policy, memory = np.full((4, 2, 3), 1 / 3), np.full((4, 3, 2, 2), 0.5)
    found = ml.start_value(pomdp, policy.tolist(), memory=memory.tolist())
    assert found == ml.start_value(pomdp, policy, memory=memory)


@pytest.mark.parametrize(
    ("policy", "memory", "lam", "message"),
    [
        (np.full((4, 3), 0.5), None, 0.5, r"policy\[0\] sums to 1.5, expected 1.*softmax"),
        (np.array([[2.0, -1.0, 0.0]] * 4), None, 0.5, r"policy\[0, 1\] is -1, below 0.*logits"),
        (np.full((4, 3), np.nan), None, 0.5, "not a finite number"),
        (np.full((3, 4), 0.25), None, 0.5, r"\[observation, action\] = \[4, 3\], got \[3, 4\]"),
        (np.full((4, 3), 1 / 3), np.ones((4, 3, 1, 1)), 0.5, r"\[observation, memory, action\]"),
        (np.full((4, 2, 3), 1 / 3), np.ones((3, 4, 2, 2)) / 2, 0.5, r"memory must have shape"),
        (np.full((4, 3), 1 / 3), None, 1.5, r"lam must be in \[0, 1\], got 1.5"),
        (np.full((4, 3), 1 / 3), None, np.zeros(2), "jax.vmap"),
    ],
)
def test_bad_input_is_named(policy, memory, lam, message):
    with pytest.raises(ValueError, match=message):
        ml.q_values(ml.library.tiger(), policy, lam, memory=memory)
