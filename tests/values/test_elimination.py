"""Elimination gives what a dense solve gives, for any pattern of links."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.values.elimination import Eliminated, without_next
from markovlens.values.linear import Lu
from markovlens.values.links import independent, links_of, pairs, plan


def random_links(seed, n_nodes=9, density=0.15):
    return links_of(np.random.default_rng(seed).random((n_nodes, n_nodes)) < density)


def random_moves(links, n_memory, n_systems, seed=0):
    """P[b, i, m, j, n] with links as given, and its blocks [b, e, m, n]."""
    linked = np.zeros((len(links), len(links)))
    linked[pairs(links)] = 1.0
    rng = np.random.default_rng(seed)
    P = rng.exponential(size=(n_systems, len(links), n_memory, len(links), n_memory))
    P *= linked[:, None, :, None]
    P /= P.sum(axis=(-2, -1), keepdims=True)
    nodes, following = pairs(links)
    return P, P[:, nodes, :, following, :].swapaxes(0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_eliminated_nodes_are_linked_and_the_rest_has_all_the_paths(seed):
    links = random_links(seed)
    linked = np.zeros((9, 9), bool)
    linked[pairs(links)] = True
    how = plan(links)
    among = linked[np.ix_(how.eliminated, how.eliminated)]
    assert how.eliminated.tolist() == independent(links)[:8]
    assert (among == np.eye(len(among), dtype=bool)).all()
    # Nothing that could also go is kept.
    either = linked | linked.T
    assert len(how.kept) == 1 or all(either[node, how.eliminated].any() for node in how.kept)
    through = linked[np.ix_(how.kept, how.eliminated)] @ linked[np.ix_(how.eliminated, how.kept)]
    assert how.rest == links_of(linked[np.ix_(how.kept, how.kept)] | through)


@pytest.mark.parametrize("gamma", [0.9, 0.999999])
@pytest.mark.parametrize(("seed", "n_memory"), [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
def test_as_a_dense_solve(seed, n_memory, gamma):
    links = random_links(seed)
    P, moves = random_moves(links, n_memory, n_systems=3)
    size = len(links) * n_memory
    A = np.eye(size) - gamma * P.reshape(3, size, size)
    b = np.random.default_rng(1).normal(size=(3, size))

    def solutions(moves, b):
        system = without_next(moves, jnp.asarray(gamma), links)
        assert isinstance(system, Eliminated)
        return system.solve(b), system.solve_transposed(b)

    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(solutions))(jnp.asarray(moves), jnp.asarray(b))
    for x, matrix in zip(found, (A, A.swapaxes(1, 2)), strict=True):
        scale = np.abs(x).max()
        np.testing.assert_allclose(
            x, np.linalg.solve(matrix, b[..., None])[..., 0], atol=1e-9 * scale
        )


def test_nothing_is_eliminated_where_everything_is_linked():
    links = links_of(np.ones((4, 4), bool))
    _, moves = random_moves(links, 2, n_systems=1)
    with jax.enable_x64(True):
        system = without_next(jnp.asarray(moves[0]), jnp.asarray(0.9), links)
        assert isinstance(system, Lu)
        x = system.solve(jnp.ones(8))
    np.testing.assert_allclose(x, np.full(8, 10.0), rtol=1e-12)
