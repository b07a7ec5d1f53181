"""The test for continuous observations: does the past predict returns, given the present?

With features that cannot express the value exactly, TD and Monte Carlo values differ even in an
MDP. What cannot differ is this: for any function V, if the observations are Markov, then

    E[ Σ_k (γλ)^k δ_{t+k} | o_t, everything before ] = h(o_t),    δ = r + γ V(o') − V(o),

so nothing from before t correlates with the target once its mean given o_t is taken off both. Half
of the episodes teach V, h and the function of present and past that best predicts what h leaves,
the probe; in the other half the probe, less its mean given o_t, is correlated with the target less
h; then the halves change places. Errors in h matter only where the probe's conditional mean is
wrong too, and what is left of their product is measured between nearest neighbours from different
episodes and taken off. With many steps even the rest would be significant, so the hypothesis
allows for it: the past adds no more than 5% of the return's standard deviation. The sum, less that,
is compared with a normal distribution.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree
from scipy.special import ndtr, ndtri

from markovlens.evidence.features import Normalise, Smooth
from markovlens.evidence.history import decayed_past, discounted_sum_to_end, lag
from markovlens.evidence.interval import Size, size
from markovlens.evidence.lstd import lstd
from markovlens.evidence.null import Evidence
from markovlens.evidence.regression import Regression
from markovlens.evidence.trajectories import Trajectories
from markovlens.progress import Advance, silent

TARGET_LAMBDA = 0.9  # long enough that chance outweighs what features miss in one step
ALLOWANCE = 0.05  # standard deviations of the return that features may miss
DECAYS = (0.5, 0.9, 0.99)  # of the memories of older observations and actions
FARTHEST = 4.0  # standard deviations; the past is clipped beyond
BLOCK = 100  # steps within which the errors of targets may be correlated
LEADING = 30  # directions of the value's features in which the discrepancy is estimated
NEIGHBOURS = 4
MOST_NEIGHBOUR_COMPONENTS = 12  # beyond, the nearest are not near
VALUE_COSINES, PRESENT_COSINES, PAST_COSINES = 60, 240, 150
MOST_CROSSED = 120  # products of the last observation and action with the present
MOST_KINDS_OF_ACTION = 32


@dataclass(frozen=True)
class _Inputs:
    """What regressions see."""

    present: Float[np.ndarray, "N d"]
    following: Float[np.ndarray, "N d"]
    past: Float[np.ndarray, "N p"]
    names: tuple[str, ...]  # of the columns of `past`
    usable: Bool[np.ndarray, "N"]  # rows with a past, and with a full stack


def continuous_evidence(
    data: Trajectories,
    gamma: float,
    rng: np.random.Generator,
    skip: int = 0,
    resamples: int = 400,
    level: float = 0.05,
    advance: Advance = silent,
) -> Evidence:
    """Estimate, interval and p-value for observations that are vectors of numbers.

    The first `skip` steps of each episode are left out: there a stack of frames is not yet full.
    """
    inputs = _inputs(data, skip)
    scale = float(discounted_sum_to_end(data.reward, data, gamma).std())
    fold, inner = _halves(rng, data), _halves(rng, data)
    values = Smooth(rng, inputs.present.shape[1], VALUE_COSINES, (1.0, 2.5), products=True)
    errors = [_td_errors(data, inputs, values, gamma, fold == f) for f in (0, 1)]
    targets = [discounted_sum_to_end(e, data, gamma * TARGET_LAMBDA) for e in errors]
    advance(0.2)
    regression = _regression(rng, inputs, np.stack([*targets, *errors], axis=1), fold, inner)
    advance(0.6)
    block = data.episode * (1 + int(data.length.max()) // BLOCK) + data.time // BLOCK
    total, explained, bounds, shares = 0.0, [], [], np.zeros(inputs.past.shape[1])
    for f in (0, 1):
        test = inputs.usable & (fold != f)
        probe = regression.probe(f, column=f)[test]
        left = regression.residuals(f, column=f)[test]
        coefficient = _less_neighbours(probe, inputs.present[test], data.episode[test])
        score = np.bincount(np.unique(block[test], return_inverse=True)[1], coefficient * left)
        noise = np.sqrt((score**2).sum()) + 1e-300
        spread = len(probe) * probe.std() + 1e-300
        total += (score.sum() - ALLOWANCE * scale * spread) / noise / np.sqrt(2.0)
        explained.append(max(score.sum(), 0.0) / spread)
        bounds.append((max(score.sum(), 0.0) - ndtri(level) * noise) / spread)
        shares += _shares(probe, inputs, test)
        advance(0.7 + 0.1 * f)
    one_step = [regression.residuals(f, column=2 + f) for f in (0, 1)]
    found = _discrepancy(data, inputs, values, one_step, gamma, fold, rng, resamples, level)
    order = np.argsort(-shares)
    return Evidence(
        discrepancy=found,
        p_value=float(ndtr(-total)),
        remembered=float(np.mean(explained)),
        upper=max(found.upper, float(np.mean(bounds))),
        revealed_by="memory",
        shares={inputs.names[i]: float(shares[i] / shares.sum()) for i in order},
        scale=scale,
    )


def pay_for_observations(data: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The same steps with a random smooth function of the next observation as reward.

    If the observations are Markov their values are, whatever is paid; so where the true reward
    hardly ever varies, this asks of the observations themselves.
    """
    seen = data.observation.reshape(len(data), -1).astype(np.float64)
    following = data.next_observation.reshape(len(data), -1).astype(np.float64)
    normal = Normalise(seen)
    weights = rng.normal(size=normal.size) / np.sqrt(max(normal.size, 1))
    pay = np.tanh(normal(following) @ weights)
    return Trajectories(**data.arrays() | {"reward": pay})


def _inputs(data: Trajectories, skip: int) -> _Inputs:
    n = len(data)
    usable = data.time >= max(skip, 1)
    seen = data.observation.reshape(n, -1).astype(np.float64)
    following = data.next_observation.reshape(n, -1).astype(np.float64)
    full = data.time >= skip
    if usable.sum() < 200:
        raise ValueError(
            f"{int(usable.sum())} usable steps are too few for continuous observations; "
            "give a few thousand"
        )
    normal = Normalise(seen[full])
    if normal.size == 0:
        raise ValueError("the observation never changes: there is nothing to test")
    action, action_names = _actions(data)
    columns = [lag(seen, data, 1), lag(action, data, 1)]
    components = range(seen.shape[1])
    names = [f"previous observation[{i}]" for i in components]
    names += [f"previous {name}" for name in action_names]
    for decay in DECAYS:
        columns += [decayed_past(seen, data, decay), decayed_past(action, data, decay)]
        older = f"over ~{round(1 / (1 - decay))} steps"
        names += [f"observation[{i}] {older}" for i in components]
        names += [f"{name} {older}" for name in action_names]
    past, kept = _news(np.hstack(columns), seen, usable)
    return _Inputs(normal(seen), normal(following), past, tuple(names[i] for i in kept), usable)


def _news(
    past: Float[np.ndarray, "N p"], seen: Float[np.ndarray, "N d"], usable: np.ndarray
) -> tuple[Float[np.ndarray, "N q"], np.ndarray]:
    """What is new in the past: less its best linear guess from the present, in standard units.

    The last position differs little from this one, and it is the difference that matters.
    Columns that the present gives exactly are dropped; returns also which are kept.
    """
    centred, present = past - past[usable].mean(0), seen - seen[usable].mean(0)
    present = present / (present[usable].std(0) + 1e-12)
    weights = np.linalg.lstsq(present[usable], centred[usable], rcond=1e-10)[0]
    left = centred - present @ weights
    spread, before = left[usable].std(0), centred[usable].std(0)
    kept = np.flatnonzero(spread > 1e-5 * before)
    if len(kept) == 0:
        raise ValueError("the present observation already holds all of the past: nothing to test")
    news = np.clip(left[:, kept] / spread[kept], -FARTHEST, FARTHEST)
    return np.where(usable[:, None], news, 0.0), kept


def _actions(data: Trajectories) -> tuple[Float[np.ndarray, "N a"], list[str]]:
    """One column for each kind of action but the first, or the components of the vector."""
    flat = data.action.reshape(len(data), -1)
    kinds = np.unique(flat) if flat.dtype.kind in "biu" and flat.shape[1] == 1 else None
    if kinds is not None and len(kinds) <= MOST_KINDS_OF_ACTION:
        return (flat == kinds[None, 1:]).astype(np.float64), [f"action {k}" for k in kinds[1:]]
    return flat.astype(np.float64), [f"action[{i}]" for i in range(flat.shape[1])]


def _halves(rng: np.random.Generator, data: Trajectories) -> Int[np.ndarray, "N"]:
    """Half of the episodes 0, half 1."""
    side = rng.permutation(data.n_episodes) % 2
    return np.repeat(side, data.length)


def _td_errors(
    data: Trajectories, inputs: _Inputs, values: Smooth, gamma: float, learn: np.ndarray
) -> Float[np.ndarray, "N"]:
    """δ of the TD(0) value learnt from some episodes, kept within the returns seen."""
    episodes = np.flatnonzero(learn[data.start])
    seen = data.with_observations(inputs.present, inputs.following)
    weights = lstd(seen.take(episodes), values, gamma, lam=0.0, ridge=1e-6).weights
    returns = discounted_sum_to_end(data.reward, data, gamma)
    low, high = min(returns.min(), 0.0), max(returns.max(), 0.0)
    portions = np.array_split(np.arange(len(data)), 1 + len(data) // 16_384)
    now = np.concatenate([values(inputs.present[rows]) @ weights for rows in portions])
    then = np.concatenate([values(inputs.following[rows]) @ weights for rows in portions])
    then = np.where(data.terminated, 0.0, np.clip(then, low, high))
    return data.reward + gamma * then - np.clip(now, low, high)


def _regression(
    rng: np.random.Generator,
    inputs: _Inputs,
    columns: Float[np.ndarray, "N c"],
    fold: np.ndarray,
    inner: np.ndarray,
) -> Regression:
    d, p = inputs.present.shape[1], inputs.past.shape[1]
    present = Smooth(rng, d, PRESENT_COSINES, (0.5, 1.0, 2.5), products=True)
    mixed = Smooth(rng, d + p, PAST_COSINES, (0.5, 1.0), products=False)
    crossed = max(1, min(p, MOST_CROSSED // d))

    def past(rows: slice) -> np.ndarray:
        now, before = inputs.present[rows], inputs.past[rows]
        products = (before[:, :crossed, None] * now[:, None, :]).reshape(len(now), -1)
        cosines = mixed(np.hstack([now, before]))[:, 1 + d :]
        return np.hstack([cosines, products])

    group = np.where(inputs.usable, 2 * fold + inner, -1)
    return Regression(lambda rows: present(inputs.present[rows]), past, columns, group)


def _less_neighbours(
    probe: Float[np.ndarray, "n"], present: Float[np.ndarray, "n d"], episode: np.ndarray
) -> Float[np.ndarray, "n"]:
    """Coefficients c with `Σ c_j ε_j = Σ_i probe_i (ε_i − mean of ε over i's neighbours)`.

    Neighbours come from other episodes, so they share what the regressions miss of the present but
    nothing hidden.
    """
    if present.shape[1] > MOST_NEIGHBOUR_COMPONENTS:
        return probe
    _, near = cKDTree(present).query(present, k=min(4 * NEIGHBOURS, len(present)))
    other = episode[near] != episode[:, None]
    order = np.argsort(~other, axis=1, kind="stable")[:, :NEIGHBOURS]
    near, other = np.take_along_axis(near, order, 1), np.take_along_axis(other, order, 1)
    share = other / np.maximum(other.sum(1, keepdims=True), 1)
    taken = np.bincount(near.ravel(), (share * probe[:, None]).ravel(), minlength=len(probe))
    return probe - taken


def _shares(probe: np.ndarray, inputs: _Inputs, test: np.ndarray) -> Float[np.ndarray, "p"]:
    """How much each part of the past has in common with the probe."""
    past = inputs.past[test]
    past = past - past.mean(0)
    return (past.T @ (probe - probe.mean())) ** 2 / ((past**2).sum(0) + 1e-9)


def _discrepancy(
    data: Trajectories,
    inputs: _Inputs,
    values: Smooth,
    one_step: list[Float[np.ndarray, "N"]],
    gamma: float,
    fold: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    level: float,
) -> Size:
    """‖V¹ − V⁰‖ over the steps taken: `V¹(o) − V⁰(o) = E[Σ_{k≥1} γ^k δ_{t+k} | o_t = o]`.

    The TD errors are less their mean given the observation, which for the true V⁰ is 0. The sum is
    regressed on the leading directions of the features of o_t in each fold; the product of the two
    folds' coefficients is free of noise on average.
    """
    usable = inputs.usable
    ahead = np.where(fold == 1, one_step[0], one_step[1])
    ahead = discounted_sum_to_end(ahead * usable, data, gamma) - ahead * usable
    phi = values(inputs.present)
    scale, axes = np.linalg.eigh(phi[usable].T @ phi[usable] / usable.sum())
    kept = np.argsort(-scale)[:LEADING]
    whiten = axes[:, kept] / np.sqrt(scale[kept])
    phi = phi @ whiten * usable[:, None]
    moments = np.add.reduceat(phi * ahead[:, None], data.start)
    steps = np.add.reduceat(usable.astype(np.float64), data.start)
    solve = np.linalg.inv(
        np.eye(phi.shape[1]) - _carried_over(data, inputs, values, whiten, phi, gamma)
    )
    side = fold[data.start]
    means = [solve @ moments[side == f].sum(0) / steps[side == f].sum() for f in (0, 1)]
    mean = moments.sum(0) / steps.sum()
    multipliers = rng.normal(size=(resamples, data.n_episodes))
    noise = multipliers @ (moments - steps[:, None] * mean) / steps.sum() @ solve.T
    return size(float(means[0] @ means[1]), solve @ mean, noise, np.ones(len(mean)), level)


def _carried_over(
    data: Trajectories,
    inputs: _Inputs,
    values: Smooth,
    whiten: np.ndarray,
    phi: np.ndarray,
    gamma: float,
) -> Float[np.ndarray, "k k"]:
    """E[φ_t γⁿ φ_Tᵀ] over truncated episodes: beyond a cut, the difference at the cut goes on."""
    ends = data.start + data.length - 1
    cut = data.truncated[ends]
    weight = gamma ** (np.repeat(ends, data.length) - np.arange(len(data)) + 1.0)
    starts = np.add.reduceat(phi * weight[:, None], data.start)[cut]
    finals = values(inputs.following[ends[cut]]) @ whiten
    return starts.T @ finals / inputs.usable.sum()
