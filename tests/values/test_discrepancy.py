"""The λ-discrepancy: zero where it must be, not zero where it must not, norms as defined."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import markovlens as ml
from markovlens.values.discrepancy import discrepancy_by_observation
from tests.values.strategies import pomdps, random_memory


@settings(max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.5, 0.95]))
def test_block_mdps_have_none(seed, lam2):
    pomdp = ml.library.random_block_mdp(seed=seed)
    policy = ml.random_policy(pomdp, seed)
    assert float(ml.lambda_discrepancy(pomdp, policy, 1.0, lam2)) < 1e-10


@settings(max_examples=20)
@given(pomdps(sizes=[(5, 3, 4)]), st.integers(0, 1000))
def test_norms_and_weightings_are_as_defined(pomdp, seed):
    policy = np.asarray(ml.random_policy(pomdp, seed))
    q0, q1 = (np.asarray(ml.q_values(pomdp, policy, lam)) for lam in (0.0, 1.0))
    delta = q0 - q1
    going = ~np.asarray(pomdp.terminal)
    visits = np.asarray(pomdp.Phi)[going].T @ np.asarray(ml.occupancy(pomdp, policy))[going]
    visits = visits / visits.sum() if visits.sum() > 0 else visits
    for weighting, seen in (("policy", np.ones(len(q0))), ("occupancy", visits)):
        w = seen[:, None] * policy
        v_delta = (policy * delta).sum(axis=1)
        expected = {
            ("l2", "q"): np.sqrt((w * delta**2).sum()),
            ("max", "q"): (w * np.abs(delta)).max(),
            ("l2", "v"): np.sqrt((seen * v_delta**2).sum()),
            ("max", "v"): (seen * np.abs(v_delta)).max(),
        }
        for (norm, of), value in expected.items():
            found = ml.lambda_discrepancy(pomdp, policy, norm=norm, weighting=weighting, of=of)
            assert float(found) == pytest.approx(value, abs=1e-9), (norm, of, weighting)


def test_parity_check_is_zero_for_every_policy_but_not_with_memory():
    parity = ml.library.parity_check(gamma=0.9)
    seeds = jnp.arange(1000)
    found = jax.vmap(lambda s: ml.lambda_discrepancy(parity, ml.random_policy(parity, s)))(seeds)
    assert np.asarray(found).max() < 1e-12
    with_memory = []
    for seed in range(50):
        policy, memory = random_memory(parity, 2, seed)
        with_memory.append(float(ml.lambda_discrepancy(parity, policy, memory=memory)))
    assert min(with_memory) > 1e-6


def test_parity_check_perturbed_shows_a_discrepancy():
    for perturbed in (
        ml.library.parity_check(stay=0.3),
        ml.library.parity_check(start=(0.4, 0.2, 0.2, 0.2)),
    ):
        assert float(ml.lambda_discrepancy(perturbed, ml.random_policy(perturbed, 0))) > 1e-4


def test_almost_every_policy_reveals_the_tmaze():
    tmaze = ml.library.tmaze()
    found = jax.vmap(lambda s: ml.lambda_discrepancy(tmaze, ml.random_policy(tmaze, s)))(
        jnp.arange(200)
    )
    assert np.asarray(found).min() > 0.0


def test_the_gradient_at_zero_is_zero():
    mdp = ml.library.random_block_mdp(seed=0)
    policy = np.asarray(ml.random_policy(mdp, 0))
    gradient = jax.grad(lambda lam: ml.lambda_discrepancy(mdp, policy, lam, lam))(0.5)
    assert float(gradient) == 0.0


def test_unknown_options_suggest_the_nearest():
    tiger = ml.library.tiger()
    with pytest.raises(ValueError, match="did you mean 'max'"):
        ml.lambda_discrepancy(tiger, ml.uniform_policy(tiger), norm="maxx")


@pytest.mark.parametrize("weighting", ["policy", "occupancy"])
def test_observations_make_up_the_whole(weighting):
    pomdp = ml.library.load("cheese")
    policy = ml.random_policy(pomdp, seed=1)
    for norm, of_parts in (("l2", np.linalg.norm), ("max", np.max)):
        asked = pomdp, policy, 0.1, 0.9, norm, weighting
        parts = np.asarray(discrepancy_by_observation(*asked))
        np.testing.assert_allclose(of_parts(parts), ml.lambda_discrepancy(*asked), rtol=1e-12)
    with pytest.raises(ValueError, match="unknown norm 'l3'"):
        discrepancy_by_observation(pomdp, policy, norm="l3")
