"""The t interval against values worked out by hand, and against scipy."""

import numpy as np
import pytest
from scipy import stats

from markovlens.agents.interval import mean_interval


def test_mean_interval_by_hand():
    # mean 2, sd 1, n 3, and the two-sided 95% point of t with 2 degrees of freedom is 4.302653.
    estimate = mean_interval([1.0, 2.0, 3.0])
    assert estimate.value == 2.0
    assert estimate.high == pytest.approx(2 + 4.302653 / np.sqrt(3), abs=1e-6)
    assert estimate.low == pytest.approx(2 - 4.302653 / np.sqrt(3), abs=1e-6)


def test_mean_interval_of_curves_agrees_with_scipy_at_every_point():
    curves = np.random.default_rng(0).normal(size=(7, 4))
    estimate = mean_interval(curves, confidence=0.9)
    for t in range(4):
        low, high = stats.t.interval(0.9, 6, curves[:, t].mean(), stats.sem(curves[:, t]))
        assert (estimate.low[t], estimate.high[t]) == pytest.approx((low, high))


def test_one_seed_has_no_interval_and_none_has_no_mean():
    estimate = mean_interval([3.0])
    assert estimate.value == 3.0
    assert np.isnan(estimate.low)
    assert np.isnan(estimate.high)
    with pytest.raises(ValueError, match="at least one seed"):
        mean_interval([])


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    estimate = mean_interval(rng.normal(3.0, 2.0, size=(5, 20_000)))
    covered = ((estimate.low < 3.0) & (estimate.high > 3.0)).mean()
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 20_000))
