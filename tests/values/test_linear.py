"""Factored systems: right in any nesting of vmap, and never a batch that XLA shares out."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import markovlens as ml
from markovlens.values.linear import MOST_WORK, Factored, Lu


def systems(*shape, n):
    rng = np.random.default_rng(0)
    rows = 0.9 * rng.dirichlet(np.ones(n), (*shape, n))
    return np.eye(n) - rows, rng.normal(size=(*shape, n))


def solutions(matrix, b):
    system = Factored(Lu(matrix), Partial(jnp.dot, matrix))
    return system.solve(b), system.solve_transposed(b)


@pytest.mark.parametrize(("shape", "n"), [((7,), 5), ((40,), 20), ((3, 30), 20), ((2,), 61)])
def test_every_system_of_a_batch_is_solved(shape, n):
    matrices, b = systems(*shape, n=n)
    with jax.enable_x64(True):
        many = solutions
        for _ in shape:
            many = jax.vmap(many)
        found = many(jnp.asarray(matrices), jnp.asarray(b))
    expected = np.linalg.solve(matrices, b[..., None])[..., 0]
    transposed = np.linalg.solve(np.swapaxes(matrices, -1, -2), b[..., None])[..., 0]
    np.testing.assert_allclose(found[0], expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], transposed, rtol=1e-10, atol=1e-12)


def test_one_matrix_and_many_right_hand_sides():
    matrix, _ = systems(n=9)
    with jax.enable_x64(True):
        inverse = jax.jacobian(lambda b: solutions(jnp.asarray(matrix), b)[0])(jnp.ones(9))
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["parity_check", "cheese", "tmaze-20"])
def test_no_batch_is_large_enough_to_be_shared_between_threads(name):
    # Two batches that are shared out at the same time can wait for each other for ever.
    pomdp = ml.library.load(name)

    gradient = jax.grad(lambda policy: ml.lambda_discrepancy(pomdp, policy))
    policies = jnp.full((500, pomdp.n_observations, pomdp.n_actions), 1.0 / pomdp.n_actions)
    program = jax.jit(jax.vmap(gradient)).lower(policies).compile().as_text()
    calls = re.findall(r"= \(?f64\[([\d,]+)\].*custom_call_target=\"lapack_d(getrf|trsm)", program)
    assert {kind for _, kind in calls} == {"getrf", "trsm"}
    for shape, _ in calls:
        *batch, n, k = (int(size) for size in shape.split(","))
        assert np.prod(batch) == 1 or np.prod(batch) <= np.ceil(MOST_WORK / (n * n * k))
