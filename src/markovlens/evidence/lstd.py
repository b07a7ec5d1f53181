"""LSTD(λ): the fixed point of TD(λ) in a span of features, in one pass over the data."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.signal import lfilter

from markovlens.evidence.columns import ROWS_AT_ONCE, Column
from markovlens.evidence.trajectories import Trajectories

Features = Callable[[np.ndarray], Float[np.ndarray, "n k"]]


def lstd(
    trajectories: Trajectories,
    features: Features,
    gamma: float,
    lam: float,
    ridge: float = 1e-9,
    inputs: tuple[Column, Column] | None = None,
) -> Float[np.ndarray, "k"]:
    """The weights A⁻¹ b: with eligibility traces `z_t = γλ z_{t-1} + φ_t` that restart with every
    episode,

        A = Σ z_t (φ_t − γ φ_{t+1})ᵀ,    b = Σ z_t r_t,    V^λ = φ · A⁻¹ b

    where φ_{t+1} is 0 after a termination and the features of the final observation at a
    truncation. For Q^λ, let the features be those of (observation, action) pairs and give the pairs
    and their successors as `inputs`; by default those are the observations. Memory is that of a few
    thousand rows of features and of A, however many steps there are.

    >>> two = Trajectories(observation=[0, 1], action=[0, 0], reward=[1.0, 2.0],
    ...                    terminated=[False, True])
    >>> lstd(two, one_hot(2), gamma=0.5, lam=1.0).round(6).tolist()
    [2.0, 2.0]
    """
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lam must be in [0, 1], got {lam:g}")
    seen: Column
    following: Column
    seen, following = inputs or (trajectories.observation, trajectories.next_observation)
    first = np.zeros(len(trajectories), dtype=bool)
    first[trajectories.start] = True
    size = features(seen[:1]).shape[1]
    A, b, trace = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for begin in range(0, len(trajectories), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        phi = features(seen[rows])
        after = features(following[rows]) * ~trajectories.terminated[rows, None]
        z = _traces(phi, first[rows], gamma * lam, trace)
        trace = z[-1]
        A += z.T @ (phi - gamma * after)
        b += z.T @ trajectories.reward[rows]
    # A few units in the last place: cells that were never visited must not make A singular.
    scale = ridge * np.trace(np.abs(A)) / size
    return np.linalg.solve(A + scale * np.eye(size), b)


def _traces(
    phi: Float[np.ndarray, "n k"],
    first: np.ndarray,
    decay: float,
    before: Float[np.ndarray, "k"],
) -> Float[np.ndarray, "n k"]:
    """Eligibility traces of consecutive rows.

    One linear filter ignores the starts of episodes; what it carries over a start, its value just
    before times a power of the decay, is then taken off.
    """
    carried, _ = lfilter([1.0], [1.0, -decay], phi, axis=0, zi=(decay * before)[None])
    index = np.arange(len(phi))
    latest = np.maximum.accumulate(np.where(first, index, -1))
    old = np.where((latest > 0)[:, None], carried[np.maximum(latest - 1, 0)], before)
    leak = np.where(latest >= 0, decay ** (index - latest + 1.0), 0.0)
    return carried - leak[:, None] * old


def one_hot(n: int) -> Features:
    """Tabular features: observations are whole numbers below n."""

    def features(observation: np.ndarray) -> np.ndarray:
        return np.eye(n)[np.asarray(observation, dtype=np.int64)]

    return features
