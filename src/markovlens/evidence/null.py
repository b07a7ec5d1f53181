"""The test for discrete observations: data against replays of their own effective MDP."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from markovlens.evidence.interval import Size, size
from markovlens.evidence.tabular import Discrete, Gaps, Probes, Rows, gaps, replicate, rows_of
from markovlens.progress import Advance, silent

SPLITS = 25


@dataclass(frozen=True)
class Evidence:
    """What data say about the hypothesis that the observations are Markov."""

    discrepancy: Size  # of the observations as they are, in units of the return
    p_value: float
    remembered: float  # the discrepancy with the memory that shows it best, or what it explains
    upper: float  # bound on the discrepancy, with and without every memory probe
    revealed_by: str  # "values", or "memory" if a memory probe says it louder
    shares: dict[str, float]  # of the squared discrepancy, by what carries it, largest first
    scale: float  # standard deviation of the return


def tabular_evidence(
    data: Discrete,
    gamma: float,
    rng: np.random.Generator,
    replications: int = 200,
    n_probes: int = 8,
    resamples: int = 200,
    level: float = 0.05,
    advance: Advance = silent,
) -> Evidence:
    """Estimate, interval and p-value for discrete observations.

    The same statistics, with all their finite-sample bias, are computed on the data and on
    `replications` simulated copies that are Markov by construction; the p-value is the rank of the
    data among them. Besides the plain observations, `n_probes` random memories are tried: whether
    TD and Monte Carlo values differ with them, and whether values depend on what they hold. The
    copies' loudest voice is what the data's loudest has to beat.
    """
    probes = Probes(rng, n_probes, data.n_observations, data.n_actions)
    observed = rows_of(data, probes, gamma)
    kinds: list[int | None] = [None, *range(n_probes)]
    sizes = (data.n_observations, data.n_actions)
    own = {kind: gaps(observed, gamma, *sizes, kind) for kind in kinds}
    found: dict[int | None, list[Gaps]] = {kind: [gap] for kind, gap in own.items()}
    done = 0
    for rows in replicate(data, probes, gamma, rng, replications):
        for kind in kinds:
            found[kind].append(gaps(rows, gamma, *sizes, kind))
        done += rows.n_replications
        advance(0.8 * done / replications)

    scale = float(own[None].returns.std())
    plain_noise = np.concatenate([gap.mean for gap in found[None][1:]])
    # Each voice: its scores on the data and on every copy, its size, and who carries it.
    scores, sizes_found, shares = [], [], []
    for kind in kinds:
        visits = np.concatenate([gap.visits for gap in found[kind]])
        totals = [np.concatenate([gap.total for gap in found[kind]])]
        if kind is not None:
            totals.append(np.concatenate([gap.by_memory for gap in found[kind]]))
        for total in totals:
            scores.append(np.maximum(_score(_norm(total, visits)), _score(_standardised(total))))
            sizes_found.append(_null_size(total, visits, level))
            shares.append(_excess_shares(total, visits, data.names))
    scores_of_all = np.array(scores)  # [voices, 1 + replications]
    loudest = scores_of_all.max(axis=0)
    p_value = float((1 + (loudest[1:] >= loudest[0]).sum()) / (1 + replications))
    winner = int(np.argmax(scores_of_all[:, 0]))
    discrepancy, by_observation = _estimate(
        observed, own[None], data, gamma, rng, resamples, level, plain_noise, advance
    )
    return Evidence(
        discrepancy=discrepancy,
        p_value=p_value,
        remembered=sizes_found[winner].value,
        upper=max(discrepancy.upper, *(found.upper for found in sizes_found)),
        revealed_by="values" if winner == 0 else "memory",
        shares=by_observation if winner == 0 else shares[winner],
        scale=scale,
    )


def _norm(total: Float[np.ndarray, "R X A"], visits: np.ndarray) -> Float[np.ndarray, "R"]:
    """Σ (visits / steps) Δ²: the squared λ-discrepancy itself, noise included."""
    return (total**2 / np.maximum(visits, 1.0)).sum((1, 2)) / visits.sum((1, 2))


def _standardised(total: Float[np.ndarray, "R X A"]) -> Float[np.ndarray, "R"]:
    """Σ z² over cells, each in units of its own noise: hears small but clear differences.

    Mean and spread are over the data and the copies alike: under the hypothesis none stands out.
    """
    flat = total.reshape(len(total), -1)
    spread = flat.std(axis=0)
    heard = spread > 1e-9 * np.abs(flat).max(initial=1e-300)
    return (((flat[:, heard] - flat[:, heard].mean(0)) / spread[heard]) ** 2).sum(axis=1)


def _score(statistic: Float[np.ndarray, "R"]) -> Float[np.ndarray, "R"]:
    """On a common scale: cube roots of sums of squares are near normal."""
    root = np.cbrt(statistic)
    spread = root.std()
    return (root - root.mean()) / spread if spread > 0.0 else np.zeros_like(root)


def _null_size(total: np.ndarray, visits: np.ndarray, level: float) -> Size:
    """The discrepancy that the data allow, with the noise of the simulated copies."""
    mean = (total / np.maximum(visits, 1.0)).reshape(len(total), -1)
    weights = visits[0].ravel() / visits[0].sum()
    noise = mean[1:]
    square = float(mean[0] ** 2 @ weights - (noise**2 @ weights).mean())
    return size(square, mean[0], noise, weights, level)


def _excess_shares(total: np.ndarray, visits: np.ndarray, names: tuple[str, ...]) -> dict:
    """Each observation's part in the squared discrepancy, beyond what the copies show."""
    parts = (total**2 / np.maximum(visits, 1.0)).sum(2).reshape(len(total), len(names), -1).sum(2)
    return _ranked(parts[0] - parts[1:].mean(0), names)


def _ranked(parts: Float[np.ndarray, "O"], names: tuple[str, ...]) -> dict[str, float]:
    parts = np.maximum(parts, 0.0)
    if parts.sum() == 0.0:
        return {}
    order = np.argsort(-parts, kind="stable")
    return {names[i]: float(parts[i] / parts.sum()) for i in order if parts[i] > 0.0}


def reproducibility(data: Discrete, gamma: float, rng: np.random.Generator) -> float:
    """How alike two halves of the episodes find Q¹ − Q⁰: 0 for noise alone, 1 for none.

    The mean over halvings of the correlation between the halves, weighted by visits.
    """
    rows = rows_of(data, Probes(rng, 0, data.n_observations, data.n_actions), gamma)
    weights = gaps(rows, gamma, data.n_observations, data.n_actions).visits[0]
    pairs = list(_halves(rows, data, gamma, rng))
    alike = sum((weights * a * b).sum() for a, b in pairs)
    spread = sum(np.sqrt((weights * a**2).sum() * (weights * b**2).sum()) for a, b in pairs)
    return float(alike / spread) if spread > 0.0 else 0.0


def _halves(
    rows: Rows, data: Discrete, gamma: float, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Q¹ − Q⁰ in two halves of the episodes, for several random halvings."""
    n_episodes = len(data.start)
    for _ in range(SPLITS):
        half = np.zeros(n_episodes)
        half[rng.permutation(n_episodes)[: n_episodes // 2]] = 1.0
        first, second = (
            gaps(rows, gamma, data.n_observations, data.n_actions, weights=side[rows.episode])
            for side in (half, 1.0 - half)
        )
        yield first.mean[0], second.mean[0]


def _estimate(
    rows: Rows,
    own: Gaps,
    data: Discrete,
    gamma: float,
    rng: np.random.Generator,
    resamples: int,
    level: float,
    null_noise: Float[np.ndarray, "R X A"],
    advance: Advance,
) -> tuple[Size, dict[str, float]]:
    """The λ-discrepancy of the plain observations.

    Its square is the product of the differences found in two halves of the episodes, averaged over
    random halvings: independent noises multiply to 0. The noise for the interval comes from
    resampling episodes or, with no resamples, from the simulated copies.
    """
    sizes = (data.n_observations, data.n_actions)
    n_episodes = len(data.start)
    weights = own.visits[0] / own.visits[0].sum()

    products = np.mean([a * b for a, b in _halves(rows, data, gamma, rng)], axis=0)
    noise = []
    for b in range(resamples):
        count = rng.multinomial(n_episodes, np.full(n_episodes, 1.0 / n_episodes))
        drawn = gaps(rows, gamma, *sizes, weights=count[rows.episode].astype(np.float64))
        noise.append(np.where(drawn.visits > 0.0, drawn.mean - own.mean, 0.0)[0].ravel())
        advance(0.8 + 0.2 * (b + 1) / resamples)
    draws = np.array(noise) if resamples else null_noise.reshape(len(null_noise), -1)
    square = float((weights * products).sum())
    found = size(square, own.mean[0].ravel(), draws, weights.ravel(), level)
    return found, _ranked((weights * products).sum(axis=1), data.names)
