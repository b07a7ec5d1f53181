"""The iterative path agrees with the dense one, and works where a dense T cannot exist."""

import numpy as np
import pytest
import scipy.sparse as sp

import markovlens as ml
from markovlens.values import sparse


@pytest.mark.parametrize("name", ["tmaze", "cheese", "network", "shuttle"])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_agrees_with_the_dense_closed_form(name, lam):
    pomdp = ml.library.load(name)
    policy = np.asarray(ml.random_policy(pomdp, 1))
    thin = sparse.SparsePomdp.from_dense(pomdp)
    found = sparse.q_values(thin, policy, lam)
    assert found == pytest.approx(np.asarray(ml.q_values(pomdp, policy, lam)), rel=1e-8, abs=1e-8)
    visits = sparse.occupancy(thin, policy)
    assert visits == pytest.approx(np.asarray(ml.occupancy(pomdp, policy)), rel=1e-8, abs=1e-9)


def test_a_ring_of_ten_thousand_states():
    """A walk round a ring, paid at one cell; with one observation per cell it is an MDP."""
    n, gamma = 10_000, 0.8
    step = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    stay = sp.eye_array(n, format="csr")
    rewards = np.zeros((n, 2))
    rewards[0] = 1.0
    seen = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) // 2)), shape=(n, n // 2))
    start = np.full(n, 1.0 / n)
    full = sparse.SparsePomdp([step, stay], rewards, stay, start, gamma)
    policy = np.tile([1.0, 0.0], (n, 1))
    values = sparse.q_values(full, policy, 0.3)[:, 0]
    expected = gamma ** ((n - np.arange(n)) % n) / (1.0 - gamma**n)
    assert values == pytest.approx(expected, abs=1e-8)
    paired = sparse.SparsePomdp([step, stay], rewards, seen, start, gamma)
    policy = np.tile([0.7, 0.3], (n // 2, 1))
    td, mc = (sparse.q_values(paired, policy, lam) for lam in (0.0, 1.0))
    assert np.abs(td - mc).max() > 1e-3


def test_bad_rows_are_named():
    eye = sp.eye_array(3, format="csr")
    with pytest.raises(ValueError, match=r"T\[1\]: row 0 sums to 0.5"):
        sparse.SparsePomdp([eye, 0.5 * eye], np.zeros((3, 2)), eye, np.full(3, 1 / 3), 0.9)


def test_what_is_hardly_ever_seen_has_its_value():
    """The junction of a long T-maze: reached once in 10^19 steps, and worth 1.95 all the same."""
    pomdp = ml.library.tmaze(corridor=400)
    policy = np.zeros((pomdp.n_observations, pomdp.n_actions))
    policy[:, pomdp.actions.index("right")] = 1.0
    policy[pomdp.observations.index("junction")] = np.eye(4)[pomdp.actions.index("up")]
    found = sparse.q_values(sparse.SparsePomdp.from_dense(pomdp), policy, 1.0)
    junction, up = pomdp.observations.index("junction"), pomdp.actions.index("up")
    assert found[junction, up] == pytest.approx(1.95)


def test_logits_are_refused():
    thin = sparse.SparsePomdp.from_dense(ml.library.tmaze())
    with pytest.raises(ValueError, match=r"policy\[0\] sums to 12, expected 1; pass prob"):
        sparse.q_values(thin, np.full((5, 4), 3.0), 1.0)
