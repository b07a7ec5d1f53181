"""What comes before and after each step, within its episode."""

import numpy as np
from jaxtyping import Float, Int
from scipy.signal import lfilter

from markovlens.evidence.trajectories import Trajectories


def decayed_past(
    values: Float[np.ndarray, "n d"], time: Int[np.ndarray, "n"], decay: float
) -> Float[np.ndarray, "n d"]:
    """`(1-c) (x_{t-1} + c x_{t-2} + …)` back to the start of the episode: a fading memory.

    The rows are those of whole episodes; `time` is 0 where one starts.
    """
    totals = lfilter([1.0], [1.0, -decay], values, axis=0)
    before = np.vstack([np.zeros((1, values.shape[1])), totals])[:-1]
    at_start = before[np.arange(len(time)) - time]
    return (1.0 - decay) * (before - decay ** time[:, None] * at_start)


def discounted_sum_to_end(
    value: Float[np.ndarray, "N"], trajectories: Trajectories, discount: float
) -> Float[np.ndarray, "N"]:
    """`x_t + d x_{t+1} + d² x_{t+2} + …` up to the end of each episode.

    One linear filter runs backwards over everything; what leaks in from the next episode,
    `d^(steps to its start)` times the filter's value there, is taken off again.
    """
    total = np.append(lfilter([1.0], [1.0, -discount], value[::-1])[::-1], 0.0)
    after = np.append(trajectories.start[1:], len(trajectories))
    to_go = np.repeat(after, trajectories.length) - np.arange(len(trajectories))
    return total[:-1] - discount**to_go * np.repeat(total[after], trajectories.length)
