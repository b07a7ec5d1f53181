"""The λ-discrepancy of continuous observations."""

import numpy as np
from jaxtyping import Float, Int

from markovlens.evidence.features import Smooth
from markovlens.evidence.finding import Settings
from markovlens.evidence.history import discounted_sum_to_end
from markovlens.evidence.inputs import Inputs
from markovlens.evidence.interval import Size, size
from markovlens.evidence.trajectories import Trajectories

LEADING = 30  # directions of the value's features in which the discrepancy is estimated
RESAMPLES = 400


def smooth_discrepancy(
    data: Trajectories,
    inputs: Inputs,
    values: Smooth,
    one_step: list[Float[np.ndarray, "N"]],
    settings: Settings,
    fold: Int[np.ndarray, "N"],
    rng: np.random.Generator,
) -> Size:
    """‖V¹ − V⁰‖ over the steps taken: `V¹(o) − V⁰(o) = E[Σ_{k≥1} γ^k δ_{t+k} | o_t = o]`.

    The TD errors are less their mean given the observation, which for the true V⁰ is 0. The sum is
    regressed on the leading directions of the features of o_t in each fold; the product of the two
    folds' coefficients is free of noise on average.
    """
    gamma, usable = settings.gamma, inputs.usable
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
    multipliers = rng.normal(size=(RESAMPLES, data.n_episodes))
    noise = multipliers @ (moments - steps[:, None] * mean) / steps.sum() @ solve.T
    square, weights = float(means[0] @ means[1]), np.ones(len(mean))
    return size(square, solve @ mean, noise, weights, settings.level)


def _carried_over(
    data: Trajectories,
    inputs: Inputs,
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
