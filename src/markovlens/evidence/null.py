"""The test for discrete observations: data against replays of their own effective MDP."""

import numpy as np
from jaxtyping import Float, Int

from markovlens.evidence.copies import ROWS_AT_ONCE, Probes, Simulator, rows_of
from markovlens.evidence.discrete import Discrete
from markovlens.evidence.estimate import estimate
from markovlens.evidence.finding import Evidence, Settings, shares_of, spread
from markovlens.evidence.interval import Size, size
from markovlens.evidence.tabular import final_values, gaps_of, replications_at_once
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
    by_action = _seen_often(data.moves.pair[data.moves.of_step])
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
    # Episodes advance side by side: enough to make a step in Python worth it, few enough to hold.
    at_once = max(1, ROWS_AT_ONCE // len(data.reward))
    at_once = min(at_once, replications_at_once(data, m=2, memories=len(kinds)))
    for done in range(0, replications, at_once):
        n = min(at_once, replications - done)
        copies = simulator.copies(n)
        of_copies = gaps_of(data, copies, final_values(data, copies, n), kinds, gamma)
        for of_kind, gaps in zip(found, of_copies, strict=True):
            of_kind.append(gaps.louder(simulator.too_quiet, simulator.too_quiet_by_pair))
        advance((done + n) / replications)

    # Each voice: its scores on the data and on every copy, its size, and who carries it.
    scores, sizes, shares = [], [], []
    for kind, of_kind in zip(kinds, found, strict=True):
        visits = np.concatenate([gaps.visits for gaps in of_kind])
        voices = [(np.concatenate([gaps.total for gaps in of_kind]), visits.sum((1, 2)))]
        if kind is not None:
            by_memory = np.concatenate([gaps.by_memory for gaps in of_kind])
            voices.append((by_memory, _comparisons(visits)))
        for total, terms in voices:
            norm = _norm(total, visits, terms)
            scores.append(np.maximum(_score(norm), _score(_standardised(total))))
            sizes.append(_null_size(total, visits, settings.level))
            shares.append(_excess_shares(total, visits, data))
    scores_of_all = np.array(scores)  # [voices, 1 + replications]
    winner = int(np.argmax(scores_of_all[:, 0]))

    def p_value(voices: Float[np.ndarray, "v R"]) -> float:
        loudest = voices.max(axis=0)
        return float((1 + (loudest[1:] >= loudest[0]).sum()) / (1 + replications))

    own, plain_copies = found[0][0], np.concatenate([gaps.mean for gaps in found[0][1:]])
    discrepancy, by_observation = estimate(data, observed, own, plain_copies, settings, rng)
    return Evidence(
        discrepancy=discrepancy,
        hypothesis=HYPOTHESIS,
        p_value=p_value(scores_of_all),
        remembered=sizes[winner].value,
        upper=max(discrepancy.upper, *(found.upper for found in sizes)),
        revealed_by="values" if winner == 0 else "memory",
        shares=by_observation if winner == 0 else shares[winner],
        scale=spread(returns),
        thin=not _seen_often(data.observation),
        by_action=by_action,
        rewards=rewards,
        p_without_rewards=p_value(scores_of_all[: 1 + 2 * settings.probes]) if rewards else None,
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


def _excess_shares(total: np.ndarray, visits: np.ndarray, data: Discrete) -> dict[str, float]:
    """Each observation's part in the squared discrepancy, beyond what the copies show."""
    parts = (total**2 / np.maximum(visits, 1.0)).sum(2)
    excess = parts[0] - parts[1:].mean(0)
    by_observation = np.bincount(data.moves.observation, excess, data.n_observations)
    return shares_of(by_observation, data.names)
