"""The test for discrete observations: data against replays of their own effective MDP."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from markovlens.evidence.copies import ROWS_AT_ONCE, Probes, Simulator, rows_of
from markovlens.evidence.discrete import Discrete, visited
from markovlens.evidence.estimate import estimate
from markovlens.evidence.finding import Evidence, Settings, shares_of, spread
from markovlens.evidence.interval import Size, size
from markovlens.evidence.tabular import Gaps, final_values, gaps_of, replications_at_once
from markovlens.progress import Advance, silent

# What is seen once is followed by the same in every copy: nothing could differ there.
SEEN_OFTEN = 5
HYPOTHESIS = "the observations are Markov"


def tabular_evidence(
    data: Discrete, settings: Settings, rng: np.random.Generator, advance: Advance = silent
) -> Evidence:
    """Estimate, interval and p-value for discrete observations.

    The same statistics, with all their finite-sample bias, are computed on the data and on
    simulated copies that are Markov by construction; the p-value is the rank of the data among
    them. Besides the plain observations, random memories are tried: whether TD and Monte Carlo
    values differ with them, and whether values depend on what they hold. Where rewards say what
    observations and actions do not, as many memories again that also see them. The copies' loudest
    voice is what the data's loudest has to beat. Actions that are too many to be counted with each
    observation are not looked at: the values are then those of observations.
    """
    by_action = visited(data.moves.n_pairs, len(data.reward))
    data = data if by_action else data.without_actions()
    gamma, replications = settings.gamma, settings.replications
    rewards = settings.rewards and bool(data.moves.luck.any())
    probes = Probes(rng, settings.probes, data.moves, settings.probes if rewards else 0)
    kinds = [None, *(probes[i] for i in range(probes.n))]
    observed = rows_of(data, probes, gamma)
    final = final_values(data, observed, 1)
    returns = np.concatenate([rows.completed(final).returns for rows in observed])
    found = [[gaps] for gaps in gaps_of(data, observed, final, kinds, gamma)]
    simulator = Simulator(data, probes, gamma, rng)
    too_quiet = simulator.too_quiet, simulator.too_quiet_by_pair
    # Episodes advance side by side: enough to make a step in Python worth it, few enough to hold.
    at_once = max(1, ROWS_AT_ONCE // len(data.reward))
    at_once = min(at_once, replications_at_once(data, m=2, memories=len(kinds)))
    for done in range(0, replications, at_once):
        n = min(at_once, replications - done)
        copies = simulator.copies(n)
        of_copies = gaps_of(data, copies, final_values(data, copies, n), kinds, gamma)
        for of_kind, gaps in zip(found, of_copies, strict=True):
            of_kind.append(gaps.louder(*too_quiet))
        advance((done + n) / replications)

    voices = [
        voice
        for kind, gaps in enumerate(found)
        for voice in _voices(data, kind, gaps, settings.level)
    ]
    scores_of_all = np.array([voice.scores for voice in voices])  # [voices, 1 + replications]
    winner = voices[int(np.argmax(scores_of_all[:, 0]))]

    def p_value(scores: Float[np.ndarray, "v R"]) -> float:
        loudest = scores.max(axis=0)
        return float((1 + (loudest[1:] >= loudest[0]).sum()) / (1 + replications))

    unpaid = np.array([voice.kind <= settings.probes for voice in voices])
    own, plain_copies = found[0][0], np.concatenate([gaps.mean for gaps in found[0][1:]])
    discrepancy, by_observation = estimate(data, observed, own, plain_copies, settings, rng)
    return Evidence(
        discrepancy=discrepancy,
        hypothesis=HYPOTHESIS,
        p_value=p_value(scores_of_all),
        remembered=winner.size.value,
        upper=max(discrepancy.upper, *(voice.size.upper for voice in voices)),
        revealed_by="values" if winner.kind == 0 else "memory",
        shares=by_observation if winner.kind == 0 else winner.shares,
        scale=spread(returns),
        thin=not _seen_often(data.observation),
        by_action=by_action,
        rewards=rewards,
        p_without_rewards=p_value(scores_of_all[unpaid]) if rewards else None,
    )


@dataclass(frozen=True)
class _Voice:
    """One statistic, of the data and of every copy."""

    kind: int  # 0 is without memory, others are the number of the probe
    scores: Float[np.ndarray, "1+R"]  # of the data, then of the copies
    size: Size
    shares: dict[str, float]  # who carries it


def _voices(data: Discrete, kind: int, gaps: list[Gaps], level: float) -> Iterator[_Voice]:
    """What differs with a memory, or without one, by action and for all actions together.

    Together they are heard better where actions are many and make little difference.
    """
    total, visits, by_memory = (
        np.concatenate([getattr(of_some, name) for of_some in gaps])
        for name in ("total", "visits", "by_memory")
    )
    cell = data.moves.observation  # of each pair
    tables = [(cell, total, visits, by_memory)]
    if data.n_actions > 1:
        cells, first = np.unique(cell, return_index=True)
        together = [np.add.reduceat(x, first, axis=1) for x in (total, visits, by_memory)]
        tables.append((cells, together[0], together[1], together[2]))
    for cell, total, visits, by_memory in tables:
        parts = [(total, visits.sum((1, 2)))]
        parts += [(by_memory, _comparisons(visits))] if kind > 0 else []
        for part, terms in parts:
            norm = _norm(part, visits, terms)
            yield _Voice(
                kind=kind,
                scores=np.maximum(_score(norm), _score(_standardised(part))),
                size=_null_size(part, visits, level),
                shares=_excess_shares(part, visits, cell, data),
            )


def _seen_often(kind: Int[np.ndarray, "N"]) -> bool:
    """Whether most steps are of a kind of which there are at least a few."""
    return bool(np.median(np.bincount(kind)[kind]) >= SEEN_OFTEN)


def _norm(
    total: Float[np.ndarray, "R P m"], visits: np.ndarray, terms: Float[np.ndarray, "R"]
) -> Float[np.ndarray, "R"]:
    """Σ visits Δ², a term each: with steps as terms the squared λ-discrepancy, noise included."""
    return (total**2 / np.maximum(visits, 1.0)).sum((1, 2)) / np.maximum(terms, 1.0)


def _comparisons(visits: Float[np.ndarray, "R P m"]) -> Float[np.ndarray, "R"]:
    """How many memories can be compared with another at the same pair.

    Pairs that were seen only a few times are seen less often with every memory in the copies. What
    the data, in front, saw once is followed by the same in every copy, and does not count.
    """
    seen = (visits > 0.0) & (visits[0].sum(axis=1) > 1.0)[None, :, None]
    return (seen.sum((1, 2)) - seen.any(axis=2).sum(axis=1)).astype(float)


def _standardised(total: Float[np.ndarray, "R P m"]) -> Float[np.ndarray, "R"]:
    """Σ z² over pairs, each in units of its own noise: hears small but clear differences.

    Mean and deviation are over the data and the copies alike: under the hypothesis none stands out.
    """
    flat = total.reshape(len(total), -1)
    deviation = flat.std(axis=0)
    heard = deviation > 1e-9 * np.abs(flat).max(initial=1e-300)
    return (((flat[:, heard] - flat[:, heard].mean(0)) / deviation[heard]) ** 2).sum(axis=1)


def _score(statistic: Float[np.ndarray, "R"]) -> Float[np.ndarray, "R"]:
    """On a common scale: cube roots of sums of squares are near normal."""
    root = np.cbrt(statistic)
    deviation = root.std()
    return (root - root.mean()) / deviation if deviation > 0.0 else np.zeros_like(root)


def _null_size(total: np.ndarray, visits: np.ndarray, level: float) -> Size:
    """The discrepancy that the data allow, with the noise of the simulated copies."""
    mean = (total / np.maximum(visits, 1.0)).reshape(len(total), -1)
    weights = visits[0].ravel() / visits[0].sum()
    noise = mean[1:]
    square = float(mean[0] ** 2 @ weights - (noise**2 @ weights).mean())
    return size(square, mean[0], noise, weights, level)


def _excess_shares(
    total: np.ndarray, visits: np.ndarray, cell: Int[np.ndarray, "P"], data: Discrete
) -> dict[str, float]:
    """Each observation's part in the squared discrepancy, beyond what the copies show."""
    parts = (total**2 / np.maximum(visits, 1.0)).sum(2)
    excess = parts[0] - parts[1:].mean(0)
    by_observation = np.bincount(cell, excess, data.n_observations)
    return shares_of(by_observation, data.names)
