"""A mean, and how sure it is."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Estimate(NamedTuple):
    """A number and an interval around it; three arrays of one shape for a curve."""

    value: Any
    low: Any
    high: Any

    def __str__(self) -> str:
        return f"{float(self.value):.4g} [{float(self.low):.4g}, {float(self.high):.4g}]"


def mean_interval(scores: ArrayLike, confidence: float = 0.95) -> Estimate:
    """The mean over seeds and its t interval, `x̄ ± t_{n-1} s / √n`; scores[seeds, ...].

    One seed says nothing about the spread: its interval is NaN, never a point.

    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 [-0.4841, 4.484]
    """
    by_seed = np.asarray(scores, dtype=np.float64)
    n = by_seed.shape[0]
    if n == 0:
        raise ValueError("the mean of no scores: at least one seed is needed")
    mean = by_seed.mean(axis=0)
    if n == 1:
        unknown = np.full_like(mean, np.nan)
        return Estimate(mean, unknown, unknown)
    half = stats.t.ppf(0.5 + confidence / 2, n - 1) * by_seed.std(axis=0, ddof=1) / np.sqrt(n)
    return Estimate(mean, mean - half, mean + half)
