"""Statistics against values worked out by hand, and against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from markovlens.experiments.stats import (
    area_under_curve,
    difference_interval,
    interquartile_mean,
    probability_of_improvement,
    stratified_bootstrap,
)


def test_difference_agrees_with_scipys_welch():
    rng = np.random.default_rng(2)
    x, y = rng.normal(1, 1, 6), rng.normal(0, 3, 9)
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    estimate = difference_interval(x, y)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))
    assert difference_interval([1.0, 1.0], [0.0, 0.0]) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="got 1 and 2"):
        difference_interval([1.0], [1.0, 2.0])


def test_area_by_hand():
    # Trapezoids 1 and 4 over a range of 3.
    assert area_under_curve([0, 1, 3], [0.0, 2.0, 2.0]) == pytest.approx(5 / 3)
    both = area_under_curve([0, 1, 3], [[0.0, 2.0, 2.0], [1.0, 1.0, 1.0]])
    assert both == pytest.approx([5 / 3, 1.0])


def test_area_leaves_out_points_without_an_episode():
    assert area_under_curve([0, 1, 3], [0.0, np.nan, 3.0]) == pytest.approx(1.5)
    assert area_under_curve([0, 1], [np.nan, 3.0]) == 3.0
    with pytest.raises(ValueError, match="finite point"):
        area_under_curve([0, 1], [np.nan, np.nan])


@given(st.floats(-10, 10), st.floats(-10, 10), st.integers(2, 20))
def test_area_of_a_straight_line_is_its_middle(start, slope, n):
    steps = np.sort(np.random.default_rng(n).uniform(0, 1, n)) + np.arange(n)
    middle = start + slope * (steps[0] + steps[-1]) / 2
    assert area_under_curve(steps, start + slope * steps) == pytest.approx(middle, abs=1e-9)


def test_interquartile_mean_by_hand():
    # Eight scores: two go at each end, wherever they stand.
    assert interquartile_mean([100, 1, 2, 3, 4, 5, 6, -100]) == pytest.approx(3.5)
    assert interquartile_mean([[0, 1], [2, 9]]) == pytest.approx(1.5)


def test_probability_of_improvement_by_hand_and_by_mann_whitney():
    # Of the four pairs, three wins... (1>0), (2>0) win, (2,2) ties, (1,2) loses: 2.5 of 4.
    assert probability_of_improvement([np.array([1.0, 2.0])], [np.array([0.0, 2.0])]) == 0.625
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 5, 8).astype(float), rng.integers(0, 5, 6).astype(float)
    u = stats.mannwhitneyu(x, y).statistic / (8 * 6)
    assert probability_of_improvement([x], [y]) == pytest.approx(u)
    assert probability_of_improvement([x, y], [y, x]) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="same tasks"):
        probability_of_improvement([x], [y, y])


def test_bootstrap_agrees_with_scipys_percentile_interval():
    x = np.random.default_rng(4).exponential(size=30)
    mine = stratified_bootstrap(lambda tasks: float(tasks[0].mean()), [x], repetitions=5000)
    theirs = stats.bootstrap((x,), np.mean, method="percentile", n_resamples=5000, rng=0)
    spread = x.std() / np.sqrt(30)
    assert mine.value == pytest.approx(x.mean())
    assert mine.low == pytest.approx(theirs.confidence_interval.low, abs=0.1 * spread)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, abs=0.1 * spread)


def test_bootstrap_never_mixes_tasks():
    # Within each task all seeds agree, so drawing within tasks changes nothing at all.
    tasks = [np.full(4, 1.0), np.full(2, 10.0)]
    estimate = stratified_bootstrap(lambda t: float(np.mean([s.mean() for s in t])), tasks)
    assert estimate == (5.5, 5.5, 5.5)
    with pytest.raises(ValueError, match="without a single score"):
        stratified_bootstrap(lambda t: 0.0, [np.array([])])


def test_bootstrap_of_two_algorithms_draws_both():
    x, y = [np.arange(10.0)], [np.arange(10.0) + 0.5]
    estimate = stratified_bootstrap(probability_of_improvement, x, y)
    assert estimate.low < 0.45 < estimate.high
    assert estimate.value == pytest.approx(0.45)
