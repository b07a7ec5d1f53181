"""The two-stage protocol, and budgets compared fairly."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markovlens.experiments.selection import best_setting, chance_of_winning, equal_budget


def test_best_setting_by_mean_and_never_a_diverged_one():
    sweep = {
        "a": np.array([1.0, 3.0]),
        "b": np.array([4.0, 1.0]),
        "lucky": np.array([9.0, np.nan]),
        "b-again": np.array([2.5, 2.5]),
    }
    assert best_setting(sweep) == "b"
    with pytest.raises(ValueError, match="no finished settings"):
        best_setting({})


@given(st.integers(1, 8), st.data())
def test_chance_of_winning_counts_all_subsets(n, data):
    budget = data.draw(st.integers(1, n))
    best_of = [min(subset) for subset in combinations(range(n), budget)]
    counted = np.bincount(best_of, minlength=n) / len(best_of)
    assert chance_of_winning(n, budget) == pytest.approx(counted)


def test_budget_outside_the_grid():
    for budget in (0, 4):
        with pytest.raises(ValueError, match="between 1 and 3"):
            chance_of_winning(3, budget)


def test_equal_budget_is_the_average_over_all_subsets():
    scores = np.random.default_rng(0).normal(size=(6, 4))
    judged = np.zeros((4, 20))
    for seed in range(4):
        others = np.delete(scores, seed, axis=1).mean(axis=1)
        for i, subset in enumerate(combinations(range(6), 3)):
            winner = max(subset, key=lambda s: others[s])
            judged[seed, i] = scores[winner, seed]
    assert equal_budget(scores, 3).value == pytest.approx(judged.mean())


def test_more_settings_of_pure_noise_do_not_look_better():
    # Every setting is as good as every other: what is left of the winner's curse must be nothing.
    rng = np.random.default_rng(1)
    few, many, naive = [], [], []
    for _ in range(400):
        scores = rng.normal(size=(40, 5))
        few.append(equal_budget(scores, 2).value)
        many.append(equal_budget(scores, 40).value)
        naive.append(scores.mean(axis=1).max())
    error = 4 / np.sqrt(400 * 5)
    assert abs(np.mean(few)) < error
    assert abs(np.mean(many)) < error
    assert np.mean(naive) > 0.7  # the mean of the best of 40, judged by the seeds that chose it


def test_one_diverged_run_spoils_only_its_own_setting():
    scores = np.array([[1.0, 1.0, 1.0], [5.0, np.nan, 5.0], [0.0, 0.0, 0.0]])
    # Judged on seed 1, the diverged setting still wins by the other seeds: that is what it earned.
    assert np.isnan(equal_budget(scores, 3).value)
    assert equal_budget(scores[[0, 2]], 2).value == 1.0
    with pytest.raises(ValueError, match="at least two per setting"):
        equal_budget(scores[:, :1], 2)
