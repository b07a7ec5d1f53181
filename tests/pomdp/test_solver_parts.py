"""The solver's parts against simpler ways to the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from markovlens.pomdp import library
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.solve import solve
from markovlens.pomdp.solver.exact import solve_exact
from markovlens.pomdp.solver.fixpoint import fixpoint
from markovlens.pomdp.solver.graph import BeliefGraph
from markovlens.pomdp.solver.hull import lower_hull
from markovlens.pomdp.solver.initial import blind_values, fast_informed_bound, mdp_values
from markovlens.pomdp.solver.lump import lump

seeds = st.integers(0, 2**32 - 1)


def random_pomdp(seed, **sizes):
    sizes = {"n_states": 3, "n_actions": 2, "n_observations": 2, "gamma": 0.5} | sizes
    return library.random_pomdp(seed, **sizes)


@given(seeds, st.integers(2, 6), st.integers(0, 40))
def test_the_hull_is_the_linear_programs(seed, k, n):
    rng = np.random.default_rng(seed)
    points = np.concatenate([np.eye(k), rng.dirichlet(np.full(k, 0.5), n)])
    heights = rng.normal(size=k + n)
    queries = rng.dirichlet(np.ones(k), 5)
    values, basis = lower_hull(queries, points, heights, np.tile(np.arange(k), (5, 1)))
    for query, value in zip(queries, values, strict=True):
        expected = linprog(heights, A_eq=points.T, b_eq=query, method="highs").fun
        np.testing.assert_allclose(value, expected, atol=1e-6)
    lowered = heights - rng.random(k + n)
    again, _ = lower_hull(queries, points, lowered, basis)
    afresh, _ = lower_hull(queries, points, lowered, np.tile(np.arange(k), (5, 1)))
    np.testing.assert_allclose(again, afresh, atol=1e-8)


def test_split_models_shrink_back():
    """Tiger has two places and an end, paint four kinds of part, before states are split."""
    assert lump(library.load("tiger")).reward.shape[1] == 3
    assert lump(library.load("paint")).reward.shape[1] == 4


@settings(max_examples=20)
@given(seeds)
def test_classes_have_one_future(seed):
    """Merging keeps Pr(o₁…o₄ | actions), computed on the states and on the classes."""
    pomdp = library.load("tiger") if seed % 2 else random_pomdp(seed)
    model = lump(pomdp)
    rng = np.random.default_rng(seed)
    T, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.Phi, pomdp.p0))
    possible = np.flatnonzero(p0 @ Phi > 0.0)
    first = rng.integers(len(possible))
    on_states = p0 * Phi[:, possible[first]]
    on_classes = model.root_weights[first] * model.roots[first]
    for _ in range(4):
        a, o = rng.integers(pomdp.n_actions), rng.integers(pomdp.n_observations)
        on_states = (on_states @ T[a]) * Phi[:, o]
        on_classes = on_classes @ model.joint[a, o]
        np.testing.assert_allclose(on_classes.sum(), on_states.sum(), atol=1e-12)


@settings(max_examples=20)
@given(seeds)
def test_first_bounds_are_in_order(seed):
    """Blind ≤ optimal ≤ fast informed ≤ state seen, at every first belief."""
    pomdp = random_pomdp(seed, gamma=0.8)
    model = lump(pomdp)
    blind = (model.roots @ blind_values(model).T).max(axis=1)
    informed = (model.roots @ fast_informed_bound(model).T).max(axis=1)
    seen = model.roots @ mdp_values(model)
    assert (blind <= informed + 1e-9).all()
    assert (informed <= seen + 1e-9).all()
    solution = solve(pomdp)
    assert model.root_weights @ blind <= solution.upper + 1e-9
    assert solution.lower <= model.root_weights @ informed + 1e-9


@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_exact_value_iteration_agrees(seed):
    pomdp = random_pomdp(seed)
    exact, solution = solve_exact(pomdp, tol=1e-4), solve(pomdp, tol=1e-6)
    assert exact.upper - exact.lower <= 3e-4
    assert exact.lower - 1e-6 <= solution.upper
    assert solution.lower <= exact.upper + 1e-6


@pytest.mark.slow
def test_exact_value_iteration_agrees_on_tiger():
    tiger = library.tiger(gamma=0.6)
    exact, solution = solve_exact(tiger, tol=1e-4), solve(tiger, tol=1e-6)
    assert exact.upper - exact.lower <= 0.02
    assert exact.lower - 1e-5 <= solution.upper
    assert solution.lower <= exact.upper + 1e-5


def test_exact_needs_discounting():
    pomdp = random_pomdp(0, gamma=1.0, terminal=True)
    with pytest.raises(ValueError, match="gamma < 1"):
        solve_exact(pomdp)


def test_rewards_of_any_size_keep_states_apart():
    """Two states that pay 1e-13 for different actions are two states."""
    arrays = {"T": np.full((2, 2, 2), 0.5), "Phi": [[0.9, 0.1], [0.1, 0.9]], "p0": [0.5, 0.5]}
    for size in (1.0, 1e-13):
        solution = solve(Pomdp(R=size * np.eye(2), gamma=0.5, **arrays))
        assert solution.lower / size == pytest.approx(1.8, rel=1e-3)
        assert solution.upper / size == pytest.approx(1.8, rel=1e-3)


@settings(max_examples=20)
@given(seeds)
def test_the_fixpoint_is_where_sweeping_ends(seed):
    """A graph of beliefs, some of them mixtures of others, some left on the frontier."""
    model = lump(random_pomdp(seed, gamma=0.9))
    graph = BeliefGraph(model)
    corners = graph.add(np.eye(3))
    graph.expand(np.union1d(corners, graph.add(model.roots)))
    graph.expand(np.flatnonzero(graph.node_of < 0)[::2])
    values = np.full(len(graph.beliefs), 20.0)
    mixed = np.random.default_rng(seed).random(len(values)) < 0.3
    mixed[corners] = False
    weights = np.where(mixed[:, None], graph.beliefs, 0.0)
    mixing = sparse.csr_array(weights @ np.eye(len(values))[corners])
    found = fixpoint(graph, 0.9, values, mixed, mixing)
    nodes = graph.belief_of[~mixed[graph.belief_of]]
    for _ in range(500):
        values[nodes] = graph.q_values(values).max(axis=1)[graph.node_of[nodes]]
        values[mixed] = (mixing @ values)[mixed]
    np.testing.assert_allclose(found, np.minimum(values, 20.0), rtol=1e-9)
