"""What a handful of seeds says: differences, areas, and how sure they are.

Everything here works on final scores or learning curves, with seeds on the first axis.
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats

from markovlens.agents.interval import Estimate

FEW_SEEDS = 5  # with fewer, an interval is so wide that pictures show the seeds instead

Scores = Float[np.ndarray, "seeds"]


def difference_interval(x: ArrayLike, y: ArrayLike, confidence: float = 0.95) -> Estimate:
    """`mean(x) - mean(y)` with Welch's interval: the seeds are independent, the spreads differ."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if min(len(a), len(b)) < 2:
        raise ValueError(f"a difference needs two seeds a side, got {len(a)} and {len(b)}")
    apart = a.mean() - b.mean()
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    error = np.sqrt(parts.sum())
    if error == 0:
        return Estimate(apart, apart, apart)
    freedom = parts.sum() ** 2 / (parts**2 / np.array([len(a) - 1, len(b) - 1])).sum()
    half = stats.t.ppf(0.5 + confidence / 2, freedom) * error
    return Estimate(apart, apart - half, apart + half)


def area_under_curve(steps: ArrayLike, values: ArrayLike) -> np.ndarray:
    """The average height of learning curves, by trapezoids: values[..., T] over steps[T].

    Dividing the area by the range of steps leaves the unit of the return, so that runs of
    different lengths can be compared. Points that are NaN (no episode ended there) are left out.

    >>> float(area_under_curve([0, 1, 3], [0.0, 2.0, 2.0]))
    1.6666666666666667
    """
    x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if y.ndim > 1:
        return np.array([area_under_curve(x, row) for row in y])
    known = np.isfinite(y)
    x, y = x[known], y[known]
    if len(y) == 0:
        raise ValueError("the area under a curve without a single finite point")
    if len(y) == 1:
        return y[0]
    return np.trapezoid(y, x) / (x[-1] - x[0])


def interquartile_mean(scores: ArrayLike) -> float:
    """The mean of the middle half of all scores: a quarter (rounded down) off each end."""
    return float(stats.trim_mean(np.ravel(np.asarray(scores, dtype=np.float64)), 0.25))


def probability_of_improvement(x: Sequence[Scores], y: Sequence[Scores]) -> float:
    """How often a run of X beats one of Y on the same task, ties counting half.

    `1/M Σ_m P(X_m > Y_m) + ½ P(X_m = Y_m)`; x and y have one array of seeds per task.

    >>> probability_of_improvement([np.array([1.0, 2.0])], [np.array([0.0, 2.0])])
    0.625
    """
    _check_same_tasks(x, y)
    pairs = (np.subtract.outer(a, b) for a, b in zip(x, y, strict=True))
    return float(np.mean([(d > 0).mean() + 0.5 * (d == 0).mean() for d in pairs]))


def stratified_bootstrap(
    statistic: Callable[..., float],
    *groups: Sequence[Scores],
    repetitions: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """A percentile interval for a statistic of one or two algorithms over several tasks.

    Each group is one algorithm: an array of seeds per task. Seeds are drawn again with replacement
    within each task (the strata), never across them.

    >>> tasks = [np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0])]
    >>> value, low, high = stratified_bootstrap(lambda t: float(np.mean(np.concatenate(t))), tasks)
    """
    if any(len(scores) == 0 for group in groups for scores in group):
        raise ValueError("a task without a single score cannot be drawn from")
    rng = np.random.default_rng(seed)

    def again(group: Sequence[Scores]) -> list[Scores]:
        return [np.asarray(s)[rng.integers(len(s), size=len(s))] for s in group]

    drawn = [statistic(*(again(group) for group in groups)) for _ in range(repetitions)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Estimate(statistic(*groups), low, high)


def _check_same_tasks(x: Sequence[Scores], y: Sequence[Scores]) -> None:
    if len(x) != len(y) or not len(x):
        raise ValueError(
            f"two algorithms are compared on the same tasks, got {len(x)} and {len(y)}"
        )
