"""The λ-discrepancy of continuous observations."""

from typing import Any

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
    whiten = _leading(inputs, values)
    ends = data.start + data.length - 1
    moments, steps, carried = [], [], np.zeros((whiten.shape[1],) * 2)
    for rows in inputs.portions:
        here = slice(*np.searchsorted(data.start, [rows.start, rows.stop]))
        first, last, cut = data.start[here] - rows.start, ends[here], data.truncated[ends[here]]
        phi = values(inputs.present[rows]) @ whiten * usable[rows, None]
        moments.append(np.add.reduceat(phi * ahead[rows, None], first))
        steps.append(np.add.reduceat(usable[rows].astype(np.float64), first))
        # Beyond a cut, the difference at the cut goes on: E[φ_t γⁿ φ_Tᵀ].
        to_go = np.repeat(last, data.length[here]) - np.arange(rows.start, rows.stop) + 1.0
        starts = np.add.reduceat(phi * (gamma**to_go)[:, None], first)[cut]
        carried += starts.T @ (values(inputs.following[last[cut]]) @ whiten) / usable.sum()
    solve = np.linalg.inv(np.eye(len(carried)) - carried)
    of_episode, n, side = np.concatenate(moments), np.concatenate(steps), fold[data.start]
    means = [solve @ of_episode[side == f].sum(0) / n[side == f].sum() for f in (0, 1)]
    mean = of_episode.sum(0) / n.sum()
    centred = (of_episode - n[:, None] * mean) / n.sum()
    noise = np.stack([rng.normal(size=len(n)) @ centred for _ in range(RESAMPLES)]) @ solve.T
    square, weights = float(means[0] @ means[1]), np.ones(len(mean))
    return size(square, solve @ mean, noise, weights, settings.level)


def _leading(inputs: Inputs, values: Smooth) -> Float[np.ndarray, "k l"]:
    """The leading directions of the features, each of size 1 over the steps."""
    products: Any = 0.0
    for rows in inputs.portions:
        phi = values(inputs.present[rows])[inputs.usable[rows]]
        products = products + phi.T @ phi
    scale, axes = np.linalg.eigh(products / inputs.usable.sum())
    kept = np.argsort(-scale)[:LEADING]
    return axes[:, kept] / np.sqrt(scale[kept])
