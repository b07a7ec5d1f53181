"""Choosing hyperparameters, and paying for the choice honestly.

The best of many settings looks better than it is, and the best of more settings looks better
still. So settings are chosen on sweep seeds and judged on others, and an algorithm with a larger
grid is also judged as if it had been given no more settings than its rival.
"""

from collections.abc import Mapping
from math import comb
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from markovlens.agents.interval import Estimate, mean_interval

Setting = TypeVar("Setting")


def best_setting(sweep: Mapping[Setting, Float[np.ndarray, "seeds"]]) -> Setting:
    """The setting with the highest mean score; the first of equals. A run without a score
    (it diverged, or no episode ended) counts as -∞.
    """
    if not sweep:
        raise ValueError("nothing to choose from: the sweep has no finished settings")

    def mean(setting: Setting) -> float:
        scores = np.asarray(sweep[setting])
        return float(scores.mean()) if np.isfinite(scores).all() else -np.inf

    return max(sweep, key=mean)


def chance_of_winning(n: int, budget: int) -> Float[np.ndarray, "n"]:
    """The chance that the i-th best of n settings is the best of a random `budget` of them.

    It must be drawn, and none of the i better ones: `C(n-1-i, budget-1) / C(n, budget)`.

    >>> chance_of_winning(3, 2).round(3).tolist()
    [0.667, 0.333, 0.0]
    """
    if not 1 <= budget <= n:
        raise ValueError(f"a budget of {budget} settings out of {n}: must be between 1 and {n}")
    return np.array([comb(n - 1 - i, budget - 1) / comb(n, budget) for i in range(n)])


def equal_budget(sweep: Float[np.ndarray, "settings seeds"], budget: int) -> Estimate:
    """What an algorithm scores when it may try only `budget` of its settings.

    The average over *all* subsets of that size, in closed form: the settings are ranked by the
    other seeds and judged on the seed left out, each in turn, and the i-th best counts with its
    `chance_of_winning`. No seed judges a choice it took part in. The interval is the t interval
    over the seeds left out.
    """
    scores = np.asarray(sweep, dtype=np.float64)
    n_settings, n_seeds = scores.shape
    if n_seeds < 2:
        raise ValueError("choosing and judging need different seeds: at least two per setting")
    chance = chance_of_winning(n_settings, budget)
    chosen_by = np.where(np.isfinite(scores), scores, -np.inf)
    judged = []
    for seed in range(n_seeds):
        others = np.delete(chosen_by, seed, axis=1).mean(axis=1)
        ranked = np.argsort(-others, kind="stable")
        counts = chance > 0
        judged.append(chance[counts] @ scores[ranked[counts], seed])
    return mean_interval(np.array(judged))
