"""The λ-discrepancy of discrete observations, from episodes counted more or less often."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float

from markovlens.evidence.copies import Probes, Rows, rows_of
from markovlens.evidence.discrete import Discrete
from markovlens.evidence.finding import Settings, shares_of
from markovlens.evidence.interval import Size, size
from markovlens.evidence.tabular import CELLS_AT_ONCE, Episodes, Gaps, replications_at_once

HALVINGS = 25


def estimate(
    data: Discrete,
    rows: Rows,
    own: Gaps,
    copies: Float[np.ndarray, "R P 1"],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Size, dict[str, float]]:
    """‖Q¹ − Q⁰‖ over the steps taken, and each observation's share of its square.

    The square is the product of the differences found in two halves of the episodes, averaged over
    random halvings: independent noises multiply to 0. The noise for the interval comes from
    resampled episodes or, with no resamples, from the differences found in simulated `copies`.
    """
    episodes = Episodes(data, rows)
    weights = own.visits[0, :, 0] / own.visits[0].sum()
    first, second = _halves(episodes, settings.gamma, rng)
    products = weights * (first * second).mean(0)
    direction = own.mean[0, :, 0]
    if settings.resamples:
        n = len(data.start)
        even = np.full(n, 1.0 / n)
        counts = (rng.multinomial(n, even, k) for k in _portions(data, settings.resamples))
        drawn = _weighted(episodes, counts, settings.gamma)
        noise = np.where(np.isnan(drawn), 0.0, drawn - direction)
    else:
        noise = copies[:, :, 0]
    found = size(float(products.sum()), direction, noise, weights, settings.level)
    by_observation = np.bincount(data.moves.observation, products, data.n_observations)
    return found, shares_of(by_observation, data.names)


def reproducibility(data: Discrete, gamma: float, rng: np.random.Generator) -> float:
    """How alike two halves of the episodes find Q¹ − Q⁰: 0 for noise alone, 1 for none.

    The mean over halvings of the correlation between the halves, weighted by visits; -1, less than
    what noise gives, if there was nothing to find, as when no step was paid.
    """
    episodes = Episodes(data, rows_of(data, Probes(rng, 0, data.moves.n_pairs), gamma))
    weights = np.bincount(data.moves.pair[data.moves.of_step])
    first, second = _halves(episodes, gamma, rng)
    alike = (first * second) @ weights
    spread = np.sqrt((first**2 @ weights) * (second**2 @ weights))
    return float(alike.sum() / spread.sum()) if spread.sum() > 0.0 else -1.0


def _halves(
    episodes: Episodes, gamma: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "H P"], Float[np.ndarray, "H P"]]:
    """Q¹ − Q⁰ in two halves of the episodes, for several random halvings; 0 where not seen."""
    n = len(episodes.data.start)
    sides = (np.stack([side, ~side]) for side in _random_halves(n, rng))
    both = np.nan_to_num(_weighted(episodes, sides, gamma))
    return both[::2], both[1::2]


def _random_halves(n: int, rng: np.random.Generator) -> Iterator[Bool[np.ndarray, "E"]]:
    for _ in range(HALVINGS):
        yield rng.permutation(n) < n // 2


def _weighted(
    episodes: Episodes, portions: Iterable[np.ndarray], gamma: float
) -> Float[np.ndarray, "R P"]:
    """Q¹ − Q⁰ of each pair, for each row of weights; NaN for pairs that no weight sees."""
    found = []
    for weights in portions:
        gaps = episodes.weighted(weights.astype(np.float64), gamma)
        found.append(np.where(gaps.visits > 0.0, gaps.mean, np.nan)[:, :, 0])
    return np.concatenate(found)


def _portions(data: Discrete, rows: int) -> list[int]:
    """How many rows of weights, one for each episode, to hold at a time."""
    most = min(replications_at_once(data, m=1), 1 + CELLS_AT_ONCE // len(data.start))
    return [min(most, rows - begin) for begin in range(0, rows, most)]
