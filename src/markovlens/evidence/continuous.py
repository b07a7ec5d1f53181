"""The test for continuous observations: does the past predict returns, given the present?

With features that cannot express the value exactly, TD and Monte Carlo values differ even in an
MDP. What cannot differ is this: for any function V, if the observations are Markov, then

    E[ Σ_k (γλ)^k δ_{t+k} | o_t, a_t, everything before ] = h(o_t, a_t),    δ = r + γ V(o') − V(o),

so nothing from before t correlates with the target once its mean given o_t and a_t is taken off
both. Half of the episodes teach V, h and the function of present and past that best predicts what h
leaves, the probe; in the other half the probe, less its mean given o_t and a_t, is correlated with
the target less h; then the halves change places. Errors in h matter only where the probe's
conditional mean is wrong too, and what is left of their product is measured between nearest
neighbours from different episodes and taken off. With many steps even the rest would be
significant, so the hypothesis allows for it: the past adds no more than 5% of the return's standard
deviation. The sum, less that, is compared with a normal distribution.
"""

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from scipy.special import ndtr, ndtri

from markovlens.evidence.columns import ROWS_AT_ONCE, Made
from markovlens.evidence.features import Smooth
from markovlens.evidence.finding import Evidence, Settings, shares_of, spread
from markovlens.evidence.history import discounted_sum_to_end
from markovlens.evidence.inputs import Inputs, inputs_of
from markovlens.evidence.lstd import lstd
from markovlens.evidence.regression import Regression
from markovlens.evidence.smooth_estimate import smooth_discrepancy
from markovlens.evidence.stacking import PRESENT, Stack
from markovlens.evidence.trajectories import Trajectories
from markovlens.progress import Advance, silent

TARGET_LAMBDA = 0.9  # long enough that chance outweighs what features miss in one step
ALLOWANCE = 0.05  # standard deviations of the return that features may miss
HYPOTHESIS = f"the past adds at most {ALLOWANCE:.0%} of the return's standard deviation"
BLOCK = 100  # steps within which the errors of targets may be correlated
NEIGHBOURS = 4
MOST_NEIGHBOUR_COMPONENTS = 12  # beyond, the nearest are not near
VALUE_COSINES, PRESENT_COSINES, PAST_COSINES = 60, 240, 150
WIDTHS = (0.5, 1.0, 2.5)  # of the present's cosines
MOST_CROSSED = 120  # products of the past with the present; twice as many with rewards
COMMON = 0.01  # a squared correlation that is more than chance


def continuous_evidence(
    data: Trajectories,
    settings: Settings,
    rng: np.random.Generator,
    stack: Stack = PRESENT,
    advance: Advance = silent,
) -> Evidence:
    """Estimate, interval and p-value for observations that are vectors of numbers, or stacks.

    A few numbers are held for every step; features, of which there are hundreds, for a portion of
    the episodes at a time.
    """
    gamma, level = settings.gamma, settings.level
    inputs = inputs_of(data, stack, settings.rewards, rng)
    fold, inner = _halves(rng, data), _halves(rng, data)
    values = Smooth(rng, inputs.present.width, VALUE_COSINES, (1.0, 2.5), products=True)
    weights = [_td_weights(data, inputs, values, gamma, fold == f) for f in (0, 1)]
    returns = _returns(data, inputs, values, np.mean(weights, axis=0), gamma)
    scale, possible = spread(returns), _range(returns, data)
    targets, errors = np.empty((len(data), 2)), np.empty((len(data), 2))  # for each fold's value
    for f in (0, 1):
        errors[:, f] = _td_errors(data, inputs, values, gamma, weights[f], possible)
        targets[:, f] = discounted_sum_to_end(errors[:, f], data, gamma * TARGET_LAMBDA)
    advance(0.2)
    group = np.where(inputs.usable, 2 * fold + inner, -1)
    regression = _regression(rng, inputs, targets, group)
    advance(0.6)
    block = data.episode * (1 + int(data.length.max()) // BLOCK) + data.time // BLOCK
    total, explained, bounds, shares = 0.0, [], [], np.zeros(inputs.past.width)
    for f in (0, 1):
        test = inputs.usable & (fold != f)
        probe = regression.probe(f, column=f)[test]
        left = regression.residuals(f, column=f)[test]
        given = np.concatenate([inputs.given[rows][test[rows]] for rows in inputs.portions])
        near = inputs.present.width <= MOST_NEIGHBOUR_COMPONENTS
        coefficient = _less_neighbours(probe, given, data.episode[test]) if near else probe
        score = np.bincount(np.unique(block[test], return_inverse=True)[1], coefficient * left)
        noise = np.sqrt((score**2).sum()) + 1e-300
        size = len(probe) * probe.std() + 1e-300
        total += (score.sum() - ALLOWANCE * scale * size) / noise / np.sqrt(2.0)
        explained.append(max(score.sum(), 0.0) / size)
        bounds.append((max(score.sum(), 0.0) - ndtri(level) * noise) / size)
        shares += _shares(probe, inputs, test)
        advance(0.7 + 0.1 * f)
    plain = _regression_on_present(rng, inputs, errors, group)
    one_step = [plain.residuals(f, column=f) for f in (0, 1)]
    found = smooth_discrepancy(data, inputs, values, one_step, settings, fold, rng)
    return Evidence(
        discrepancy=found,
        hypothesis=HYPOTHESIS,
        p_value=float(ndtr(-total)),
        remembered=float(np.mean(explained)),
        upper=max(found.upper, float(np.mean(bounds))),
        revealed_by="memory",
        shares=shares_of(shares, inputs.names),
        scale=scale,
        rewards=inputs.rewards,
    )


def _halves(rng: np.random.Generator, data: Trajectories) -> Int[np.ndarray, "N"]:
    """Half of the episodes 0, half 1."""
    side = rng.permutation(data.n_episodes) % 2
    return np.repeat(side.astype(np.int8), data.length)


def _td_weights(
    data: Trajectories, inputs: Inputs, values: Smooth, gamma: float, learn: np.ndarray
) -> Float[np.ndarray, "k"]:
    """The TD(0) value learnt from some episodes."""
    rows, part = np.flatnonzero(learn), data.take(np.flatnonzero(learn[data.start]))
    seen = (inputs.present.at(rows), inputs.following.at(rows))
    return lstd(part, values, gamma, lam=0.0, ridge=1e-6, inputs=seen)


def _returns(
    data: Trajectories, inputs: Inputs, values: Smooth, weights: np.ndarray, gamma: float
) -> Float[np.ndarray, "N"]:
    """Discounted returns; where an episode was cut, its last observation's value goes on."""
    ends = data.start + data.length - 1
    ahead = 1.0 / max(1.0 - gamma, 1e-9)
    final = values(inputs.following[ends]) @ weights
    final = np.clip(final, *_range(data.reward * ahead, data))  # of going on for ever
    paid = data.reward.copy()
    paid[ends] += np.where(data.truncated[ends], gamma * final, 0.0)
    return discounted_sum_to_end(paid, data, gamma)


def _range(values: Float[np.ndarray, "N"], data: Trajectories) -> tuple[float, float]:
    """From the smallest to the largest; with 0, if episodes end."""
    low, high = float(values.min()), float(values.max())
    return (min(low, 0.0), max(high, 0.0)) if data.terminated.any() else (low, high)


def _td_errors(
    data: Trajectories,
    inputs: Inputs,
    values: Smooth,
    gamma: float,
    weights: np.ndarray,
    possible: tuple[float, float],
) -> Float[np.ndarray, "N"]:
    """δ of a value, kept within what is possible."""

    def value(column: Made) -> Float[np.ndarray, "N"]:
        found = [values(column[rows]) @ weights for rows in inputs.portions]
        return np.clip(np.concatenate(found), *possible)

    then = np.where(data.terminated, 0.0, value(inputs.following))
    return data.reward + gamma * then - value(inputs.present)


def _regression_on_present(
    rng: np.random.Generator, inputs: Inputs, columns: Float[np.ndarray, "N c"], group: np.ndarray
) -> Regression:
    """On the observation alone."""
    features = Smooth(rng, inputs.present.width, PRESENT_COSINES, WIDTHS, products=True)

    def none(rows: slice) -> np.ndarray:
        return np.zeros((len(inputs.usable[rows]), 0))

    return Regression(
        lambda rows: features(inputs.present[rows]), none, columns, group, inputs.portions
    )


def _regression(
    rng: np.random.Generator, inputs: Inputs, columns: Float[np.ndarray, "N c"], group: np.ndarray
) -> Regression:
    """On the observation and the action, and then on the past."""
    d, p = inputs.given.width, inputs.past.width
    present = Smooth(rng, d, PRESENT_COSINES, WIDTHS, products=True)
    mixed = Smooth(rng, d + p, PAST_COSINES, (0.5, 1.0), products=False)
    crossed = max(1, min(p, MOST_CROSSED * (1 + inputs.rewards) // d))

    def past(rows: slice) -> np.ndarray:
        now, before = inputs.given[rows], inputs.past[rows]
        products = (before[:, :crossed, None] * now[:, None, :]).reshape(len(now), -1)
        cosines = mixed(np.hstack([now, before]))[:, 1 + d :]
        return np.hstack([cosines, products])

    return Regression(
        lambda rows: present(inputs.given[rows]), past, columns, group, inputs.portions
    )


def _less_neighbours(
    probe: Float[np.ndarray, "n"], given: Float[np.ndarray, "n d"], episode: np.ndarray
) -> Float[np.ndarray, "n"]:
    """Coefficients c with `Σ c_j ε_j = Σ_i probe_i (ε_i − mean of ε over i's neighbours)`.

    Neighbours come from other episodes, so they share what the regressions miss of the present but
    nothing hidden.
    """
    tree, left = cKDTree(given), probe.copy()
    for begin in range(0, len(probe), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        _, near = tree.query(given[rows], k=min(4 * NEIGHBOURS, len(given)))
        other = episode[near] != episode[rows, None]
        order = np.argsort(~other, axis=1, kind="stable")[:, :NEIGHBOURS]
        near, other = np.take_along_axis(near, order, 1), np.take_along_axis(other, order, 1)
        share = other / np.maximum(other.sum(1, keepdims=True), 1)
        left -= np.bincount(near.ravel(), (share * probe[rows, None]).ravel(), len(probe))
    return left


def _shares(probe: np.ndarray, inputs: Inputs, test: np.ndarray) -> Float[np.ndarray, "p"]:
    """How much each part of the past has in common with the probe, by their squared correlation.

    Where that is what chance gives, none: the probe may follow parts in ways that no line shows.
    """
    total: Any = 0.0
    squares: Any = 0.0
    common: Any = 0.0
    begin = 0
    for rows in inputs.portions:
        past = inputs.past[rows][test[rows]]
        total, squares = total + past.sum(0), squares + (past**2).sum(0)
        common = common + past.T @ probe[begin : begin + len(past)]
        begin += len(past)
    n = len(probe)
    shared = (common - total * probe.mean()) ** 2 / (squares - total**2 / n + 1e-9)
    return np.where(shared > COMMON * n * probe.var(), shared, 0.0)
