"""The λ-discrepancy of discrete observations, from episodes counted more or less often."""

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float

from markovlens.evidence.copies import Portions, Probes, rows_of
from markovlens.evidence.discrete import Discrete
from markovlens.evidence.finding import Settings, shares_of
from markovlens.evidence.interval import Size, size
from markovlens.evidence.tabular import Blocks, Gaps, replications_at_once

HALVINGS = 25


def estimate(
    data: Discrete,
    observed: Portions,
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
    blocks = Blocks(data, observed)
    weights = own.visits[0, :, 0] / own.visits[0].sum()
    first, second = _halves(blocks, settings.gamma, rng)
    products = weights * (first * second).mean(0)
    direction = own.mean[0, :, 0]
    if settings.resamples:
        even = np.full(blocks.n, 1.0 / blocks.n)
        counts = (rng.multinomial(blocks.n, even, k) for k in _portions(data, settings.resamples))
        drawn = _weighted(blocks, counts, settings.gamma)
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
    blocks = Blocks(data, rows_of(data, Probes(rng, 0, data.moves), gamma))
    weights = np.bincount(data.moves.pair[data.moves.of_step])
    first, second = _halves(blocks, gamma, rng)
    alike = (first * second) @ weights
    spread = np.sqrt((first**2 @ weights) * (second**2 @ weights))
    return float(alike.sum() / spread.sum()) if spread.sum() > 0.0 else -1.0


def _halves(
    blocks: Blocks, gamma: float, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "H P"], Float[np.ndarray, "H P"]]:
    """Q¹ − Q⁰ in two halves of the episodes, for several random halvings; 0 where not seen."""
    sides = (np.stack([side, ~side]) for side in _random_halves(blocks.n, rng))
    both = np.nan_to_num(_weighted(blocks, sides, gamma))
    return both[::2], both[1::2]


def _random_halves(n: int, rng: np.random.Generator) -> Iterator[Bool[np.ndarray, "E"]]:
    for _ in range(HALVINGS):
        yield rng.permutation(n) < n // 2


def _weighted(
    blocks: Blocks, portions: Iterable[np.ndarray], gamma: float
) -> Float[np.ndarray, "R P"]:
    """Q¹ − Q⁰ of each pair, for each row of weights; NaN for pairs that no weight sees."""
    found = []
    for weights in portions:
        gaps = blocks.weighted(weights.astype(np.float64), gamma)
        found.append(np.where(gaps.visits > 0.0, gaps.mean, np.nan)[:, :, 0])
    return np.concatenate(found)


def _portions(data: Discrete, rows: int) -> list[int]:
    """How many rows of weights to look at together."""
    most = replications_at_once(data, m=1)
    return [min(most, rows - begin) for begin in range(0, rows, most)]
