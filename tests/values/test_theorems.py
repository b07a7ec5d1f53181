"""The theorems as checks: each case of the paper is recognised."""

import numpy as np
import pytest

import markovlens as ml
from markovlens.values.theorems import (
    is_block_mdp,
    transition_policies_match,
    zero_for_all_policies,
)


def test_block_mdp():
    block = ml.library.random_block_mdp(seed=1)
    assert is_block_mdp(block)
    assert zero_for_all_policies(block)
    assert ml.explain(block, ml.random_policy(block)).case == "block MDP"


def test_a_block_mdp_that_looks_no_step_ahead():
    """With γ = 0 later states have no weight; they are no less told apart."""
    seen = ml.Pomdp(
        T=np.full((1, 2, 2), 0.5), R=[[1.0], [0.0]], Phi=np.eye(2), p0=[1.0, 0.0], gamma=0.0
    )
    assert ml.explain(seen, np.ones((2, 1))).case == "block MDP"


def test_a_policy_is_checked_even_where_it_does_not_matter():
    block = ml.library.random_block_mdp(seed=1)
    with pytest.raises(ValueError, match="policy"):
        ml.explain(block, np.full((block.n_observations, block.n_actions), 5.0))


def test_equivalent_mdp():
    example = ml.library.equivalent_mdp()
    assert not is_block_mdp(example)
    assert transition_policies_match(example)
    assert zero_for_all_policies(example)
    assert ml.explain(example, ml.random_policy(example)).case == "equivalent MDP"


def test_parity_check_is_projected_away():
    parity = ml.library.parity_check(gamma=0.9)
    assert not transition_policies_match(parity)
    assert zero_for_all_policies(parity)
    explanation = ml.explain(parity, ml.random_policy(parity))
    assert explanation.case == "projected away"
    assert "random memory" in str(explanation)


def test_tmaze_names_what_is_confused():
    tmaze = ml.library.tmaze()
    explanation = ml.explain(tmaze, ml.random_policy(tmaze, 2))
    assert explanation.case == "partially observable"
    assert sum(item.share for item in explanation.confused) > 0.97
    junction = next(item for item in explanation.confused if item.observation == "junction")
    assert len(junction.states) == 2
    assert abs(sum(junction.states.values()) - 1.0) < 1e-9


def test_a_policy_that_happens_to_hide_it():
    """Never leaving the start, the T-maze looks Markov; the explanation says it is not."""
    tmaze = ml.library.tmaze()
    stay = np.zeros((tmaze.n_observations, tmaze.n_actions))
    stay[:, tmaze.actions.index("left")] = 1.0
    explanation = ml.explain(tmaze, stay)
    assert explanation.case == "partially observable"
    assert "almost every other policy" in str(explanation)


def test_the_size_of_the_rewards_does_not_matter():
    tmaze = ml.library.tmaze()
    small = ml.Pomdp(tmaze.T, 1e-10 * np.asarray(tmaze.R), tmaze.Phi, tmaze.p0, tmaze.gamma)
    found = ml.explain(small, ml.random_policy(small))
    assert found.case == "partially observable"
    assert found.confused


def test_states_count_however_short_sighted_one_is():
    assert ml.explain(ml.library.tmaze(gamma=0.0), ml.random_policy(ml.library.tmaze())).case == (
        "projected away"
    )


def test_ends_that_look_alike_confuse_nobody():
    T = np.array([[[0, 1, 0], [0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 1, 0], [0, 0, 1]]], float)
    R, Phi = [[1, -1], [0, 0], [0, 0]], [[1, 0], [0, 1], [0, 1]]
    assert is_block_mdp(ml.Pomdp(T, R, Phi, [1, 0, 0], 0.9))


@pytest.mark.parametrize("gamma", [0.9, 0.99999, 0.9999999])
def test_rounding_near_gamma_one_explains_nothing(gamma):
    """Parity Check for ever, with something paid at each step: its discrepancy is still zero."""
    check = ml.library.load("parity_check")
    T = np.asarray(check.T).copy()
    T[:, np.asarray(check.terminal)] = np.asarray(check.p0)
    pomdp = ml.Pomdp(T, np.asarray(check.R) + 1.0, check.Phi, check.p0, gamma)
    assert ml.explain(pomdp, ml.random_policy(pomdp)).case == "projected away"
