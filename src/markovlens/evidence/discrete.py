"""Steps whose observations and actions are indices."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from markovlens.evidence.trajectories import Trajectories

VISITS = 20  # on average, of things that are counted
SAME_PAY = 1e-9  # of the largest: rewards this near are the same


@dataclass(frozen=True)
class Moves:
    """The distinct (observation, action, next observation, luck), sorted; K of them, from P pairs.

    Luck is whether a step was paid more than such steps are on average: what its reward says beyond
    observations and action.
    """

    of_step: Int[np.ndarray, "N"]
    next_observation: Int[np.ndarray, "K"]  # n_observations where the episode terminated
    pair: Int[np.ndarray, "K"]  # which (observation, action) it starts from
    luck: Int[np.ndarray, "K"]  # 0 or 1
    observation: Int[np.ndarray, "P"]  # of each pair
    action: Int[np.ndarray, "P"]

    @property
    def n_pairs(self) -> int:
        return len(self.observation)

    def over_pairs(self, values: Float[np.ndarray, "R K *m"]) -> Float[np.ndarray, "R P *m"]:
        """Sums over the moves that start from each pair."""
        first = np.searchsorted(self.pair, np.arange(self.n_pairs))
        return np.add.reduceat(values, first, axis=1)


@dataclass(frozen=True)
class Discrete:
    """Trajectories whose observations and actions are indices.

    `next_observation` is `n_observations`, one past the last, where the episode terminated.
    """

    observation: Int[np.ndarray, "N"]
    action: Int[np.ndarray, "N"]
    reward: Float[np.ndarray, "N"]
    next_observation: Int[np.ndarray, "N"]
    truncated: np.ndarray  # [N]
    start: Int[np.ndarray, "E"]
    n_observations: int
    n_actions: int
    names: tuple[str, ...]  # of the observations

    @property
    def length(self) -> Int[np.ndarray, "E"]:
        return np.diff(np.append(self.start, len(self.reward)))

    @cached_property
    def moves(self) -> Moves:
        after = self.n_observations + 1
        key = (self.observation * self.n_actions + self.action) * after + self.next_observation
        lucky = self._lucky(key)
        key *= 2
        key += lucky
        kinds, of_step = numbered(key)
        pairs, pair = np.unique(kinds // (2 * after), return_inverse=True)
        action = pairs % self.n_actions
        return Moves(of_step, kinds // 2 % after, pair, kinds % 2, pairs // self.n_actions, action)

    def without_actions(self) -> "Discrete":
        """As if there were only one action."""
        return replace(self, action=np.zeros_like(self.action), n_actions=1)

    def _lucky(self, key: Int[np.ndarray, "N"]) -> Bool[np.ndarray, "N"]:
        """Where a step was paid more than the mean of its kind, and the episode goes on."""
        _, kind = numbered(key)
        usual = np.bincount(kind, self.reward) / np.bincount(kind)
        going = self.next_observation < self.n_observations
        return (usual[kind] < self.reward - _same_pay(self.reward[going])) & going


def discretise(trajectories: Trajectories) -> Discrete:
    """Numbers every distinct observation and action."""
    n = len(trajectories)
    values, index = _distinct(trajectories.observation, trajectories.next_observation)
    following = np.where(trajectories.terminated, len(values), index[n:])
    kinds, action = _distinct(trajectories.action)
    return Discrete(
        observation=index[:n],
        action=action,
        reward=trajectories.reward,
        next_observation=following,
        truncated=trajectories.truncated,
        start=trajectories.start,
        n_observations=len(values),
        n_actions=len(kinds),
        names=_names(values, trajectories),
    )


def countable(trajectories: Trajectories) -> bool:
    """Whether observations are whole numbers, or vectors seen often enough to count visits."""
    observation, n = trajectories.observation, len(trajectories)
    if observation.ndim == 1 and observation.dtype.kind in "biu":
        return True
    index = np.zeros(n, dtype=np.int64)
    for column in observation.reshape(n, -1).T:
        index = _finer(index, column)
        if not visited(int(index.max()) + 1, n):
            return False
    return True


def _distinct(*parts: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, "N"]]:
    """The distinct rows of all parts, in order, as vectors; and which of them each row is."""
    flat = [part.reshape(len(part), -1) for part in parts]
    index = np.zeros(sum(len(part) for part in flat), dtype=np.int64)
    for columns in zip(*(part.T for part in flat), strict=True):
        index = _finer(index, np.concatenate(columns))
    kinds = np.empty((int(index.max()) + 1, flat[0].shape[1]), np.result_type(*flat))
    begin = 0
    for part in flat:
        kinds[index[begin : begin + len(part)]] = part
        begin += len(part)
    return kinds, index


def _finer(index: Int[np.ndarray, "N"], column: np.ndarray) -> Int[np.ndarray, "N"]:
    """Numbers for the distinct (index, value), in order."""
    kinds, values = numbered(column)
    return numbered(index * len(kinds) + values)[1]


def numbered(values: np.ndarray) -> tuple[np.ndarray, Int[np.ndarray, "N"]]:
    """The distinct values, in order, and which of them each is; without sorting, if they are dense.

    >>> [part.tolist() for part in numbered(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        if high - low < len(values) and high <= np.iinfo(np.int64).max:
            place = values.astype(np.int64) - low  # small integers would overflow
            seen = np.zeros(high - low + 1, dtype=bool)
            seen[place] = True
            return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[place]
    return np.unique(values, return_inverse=True)


def numbered_pay(
    reward: Float[np.ndarray, "N"],
) -> tuple[Float[np.ndarray, "k"], Int[np.ndarray, "N"]]:
    """The distinct rewards, in order, and which of them each is, whatever rounding does to them.

    >>> numbered_pay(np.array([0.3, 0.1 + 0.2, 1.0]))[1].tolist()
    [0, 0, 1]
    """
    unit = _same_pay(reward)
    kinds, kind = numbered(np.round(reward / unit))
    return kinds * unit, kind


def _same_pay(reward: Float[np.ndarray, "N"]) -> float:
    """Rewards that are nearer to each other are the same."""
    return SAME_PAY * float(np.abs(reward).max(initial=0.0)) or 1.0


def visited(kinds: int, steps: int) -> bool:
    """Whether so many kinds of things are seen often enough in so many steps to count visits."""
    return kinds * VISITS <= steps


def _names(values: np.ndarray, trajectories: Trajectories) -> tuple[str, ...]:
    """By the names of the observations or, for vectors of bits, of those that are set."""
    names = trajectories.names
    if trajectories.observation.ndim == 1:
        return tuple(names[int(v)] if names else f"{v:.12g}" for (v,) in values)
    if names and np.isin(values, (0, 1)).all():
        set_bits = (
            [name for name, bit in zip(names, value, strict=True) if bit] for value in values
        )
        return tuple(", ".join(found) or "nothing" for found in set_bits)
    return tuple("(" + ", ".join(f"{v:.6g}" for v in value) + ")" for value in values)
