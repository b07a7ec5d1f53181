"""Episodes step by step, those of the data and simulated ones, with memory probes alongside."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from markovlens.evidence.discrete import Discrete, Moves

ROWS_AT_ONCE = 400_000  # few enough to stay near the processor's caches
NEGLIGIBLE = 1e-9  # discounts below this carry nothing over a cut


class Probes:
    """Random one-bit memories, 63 at most, updated together in the bits of one integer.

    For each (observation, action) a probe sets its bit to 0, to 1, keeps it or flips it, each with
    probability 1/4: `m' = (m & keep) ^ flip`, whatever m was. The last `n_paid` do so for each
    (observation, action, luck). A memory of a Markov process is Markov together with it, so a probe
    can only reveal what is there.
    """

    def __init__(self, rng: np.random.Generator, n: int, moves: Moves, n_paid: int = 0):
        self.n = n + n_paid

        def table() -> Int[np.ndarray, "K"]:
            by_pair = rng.integers(0, 2**n, moves.n_pairs)[moves.pair]
            if n_paid == 0:
                return by_pair
            by_luck = rng.integers(0, 2**n_paid, (moves.n_pairs, 2))[moves.pair, moves.luck]
            return by_pair | by_luck << n

        self.keep, self.flip = table(), table()

    def __call__(self, bits: np.ndarray, move: np.ndarray) -> np.ndarray:
        """The bits after a move."""
        return (bits & self.keep[move]) ^ self.flip[move]

    def __getitem__(self, index: int) -> "Probe":
        return Probe(index, (self.keep >> index) & 1, (self.flip >> index) & 1)


@dataclass(frozen=True)
class Probe:
    """One of the memories, by itself."""

    index: int
    keep: Int[np.ndarray, "K"]
    flip: Int[np.ndarray, "K"]

    def bit(self, bits: np.ndarray) -> np.ndarray:
        """What it holds, given the bits of all."""
        return (bits >> self.index) & 1

    def after(self, bit: Int[np.ndarray, "m"]) -> Int[np.ndarray, "K m"]:
        """What it holds after every move, if it held `bit`."""
        return (bit & self.keep[:, None]) ^ self.flip[:, None]


@dataclass(frozen=True)
class Rows:
    """Steps of one or more replications, in any order, with what follows each in its episode."""

    replication: Int[np.ndarray, "N"]
    episode: Int[np.ndarray, "N"]
    move: Int[np.ndarray, "N"]
    reward: Float[np.ndarray, "N"]
    bits: Int[np.ndarray, "N"]  # the memory bits of all probes
    returns: Float[np.ndarray, "N"]  # discounted, up to the end of the episode
    cut: Int[np.ndarray, "C"]  # rows whose episode was truncated before the discount wore off
    tail: Float[np.ndarray, "C"]  # γ^(steps left)
    last: Int[np.ndarray, "C"]  # the final observation of the episode

    def completed(self, final: Float[np.ndarray, "R X"]) -> "Rows":
        """Returns that go on, where an episode was cut, with the value of its final observation."""
        returns = self.returns.copy()
        returns[self.cut] += self.tail * final[self.replication[self.cut], self.last]
        return replace(self, returns=returns)


class Portions:
    """Steps of one or more replications, a portion of their episodes at a time.

    They can be gone through again, and are the same then: made anew, so that one portion is all
    that is held however many steps there are. An only portion is kept.
    """

    def __init__(self, make: Callable[[slice], Rows], episodes: int, steps: int):
        """`make` gives the steps of some of all `episodes`; `steps` is about how many there are."""
        each = max(1, episodes * ROWS_AT_ONCE // steps)
        self._make = make
        self._parts = [slice(i, min(i + each, episodes)) for i in range(0, episodes, each)]
        self._only = make(self._parts[0]) if len(self._parts) == 1 else None

    def __iter__(self) -> Iterator[Rows]:
        return map(self._make, self._parts) if self._only is None else iter([self._only])


class _History:
    """Collects steps time by time, then works out backwards what followed each of them."""

    def __init__(self, lanes: int, gamma: float):
        self.lanes, self.gamma = lanes, gamma
        self.steps: list[tuple[np.ndarray, ...]] = []  # lanes, move, reward, bits
        self.cuts: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by time: lanes, last

    def add(self, *step: np.ndarray) -> None:
        self.steps.append(step)

    def cut(self, lanes: np.ndarray, last: np.ndarray) -> None:
        """The step just added was, for some lanes, the last that was watched."""
        if len(lanes):
            self.cuts[len(self.steps) - 1] = (lanes, last)

    def rows(self, replication: Int[np.ndarray, "L"], episode: Int[np.ndarray, "L"]) -> Rows:
        """Each step's, given those of the lanes."""
        returns, tail = np.zeros(self.lanes), np.zeros(self.lanes)
        last = np.zeros(self.lanes, dtype=np.int64)
        later, tails = [], []
        for t in reversed(range(len(self.steps))):
            lanes, _, reward, _ = self.steps[t]
            g = reward + self.gamma * returns[lanes]
            returns[lanes] = g
            later.append(g)
            if t in self.cuts:
                ending, seen = self.cuts[t]
                tail[ending], last[ending] = 1.0, seen
            if self.cuts:
                tail[lanes] *= self.gamma
                tails.append(tail[lanes])
        lane, move, reward, bits = (np.concatenate(c) for c in zip(*self.steps, strict=True))
        ahead = np.concatenate(tails[::-1]) if tails else np.zeros(0)
        cut = np.flatnonzero(ahead > NEGLIGIBLE)
        return Rows(
            replication=replication[lane],
            episode=episode[lane],
            move=move,
            reward=reward,
            bits=bits,
            returns=np.concatenate(later[::-1]),
            cut=cut,
            tail=ahead[cut],
            last=last[lane[cut]],
        )


def rows_of(data: Discrete, probes: Probes, gamma: float) -> Portions:
    """The data as one replication."""
    return Portions(partial(_watched, data, probes, gamma), len(data.start), len(data.reward))


def _watched(data: Discrete, probes: Probes, gamma: float, episodes: slice) -> Rows:
    """Some of the data's episodes."""
    moves, start, length = data.moves, data.start[episodes], data.length[episodes]
    history = _History(len(length), gamma)
    order = np.argsort(-length, kind="stable")
    bits = np.zeros(len(length), dtype=np.int64)
    going = np.searchsorted(-length[order], -np.arange(1, length.max() + 1), side="right")
    for t, n in enumerate(going):
        lanes = order[:n]
        row = start[lanes] + t
        move, now = moves.of_step[row], bits[lanes]
        bits[lanes] = probes(now, move)
        history.add(lanes, move, data.reward[row], now)
        cut = data.truncated[row]
        history.cut(lanes[cut], data.next_observation[row[cut]])
    numbers = np.arange(episodes.start, episodes.stop)
    return history.rows(np.zeros_like(numbers), numbers)


class Simulator:
    """The empirical effective MDP of some data.

    From observation o, the step (action, reward, next observation, whether it ended) is one of the
    steps that the data took from o, drawn uniformly. Starts are resampled; an episode is cut where
    its counterpart in the data was, or at the longest length seen.
    """

    def __init__(self, data: Discrete, probes: Probes, gamma: float, rng: np.random.Generator):
        self.data, self.probes, self.gamma, self.rng = data, probes, gamma, rng
        self._count = np.bincount(data.observation, minlength=data.n_observations + 1)
        self._first = np.concatenate([[0], np.cumsum(self._count)])[:-1]
        order = np.argsort(data.observation, kind="stable")
        self._move, self._reward = data.moves.of_step[order], data.reward[order]
        self._starts = data.observation[data.start]
        ends = data.start + data.length - 1
        self._limit = np.where(data.truncated[ends], data.length, data.length.max())

    @property
    def too_quiet(self) -> float:
        """By how much what follows a step varies less in the copies than in the data.

        The n steps seen from an observation vary by (n - 1)/n of what such steps vary by, on
        average over all steps 1 - observations/steps.
        """
        steps, observations = len(self.data.reward), int(np.count_nonzero(self._count))
        return float(np.sqrt(steps / max(steps - observations, 1)))

    @property
    def too_quiet_by_pair(self) -> Float[np.ndarray, "P"]:
        """By how much a step itself varies less in the copies, given its observation and action.

        The n steps seen from such a pair vary by (n - 1)/n of what they should.
        """
        visits = np.bincount(self.data.moves.pair[self.data.moves.of_step])
        return np.sqrt(visits / np.maximum(visits - 1, 1))

    def copies(self, replications: int) -> Portions:
        """As many episodes as the data has, for every replication."""
        seed = int(self.rng.integers(2**63))

        def make(portion: slice) -> Rows:
            rng = np.random.default_rng([seed, portion.start])
            return self._simulate(np.arange(portion.start, portion.stop), rng)

        n_episodes, n_steps = len(self._limit), len(self.data.reward)
        return Portions(make, replications * n_episodes, replications * n_steps)

    def _simulate(self, numbers: Int[np.ndarray, "L"], rng: np.random.Generator) -> Rows:
        """Some of the copies' episodes; the first belong to the first replication."""
        replication, episode = np.divmod(numbers, len(self._limit))
        limit = self._limit[episode]
        moves, end = self.data.moves, self.data.n_observations
        lanes = np.arange(len(numbers))
        o = self._starts[rng.integers(0, len(self._starts), len(lanes))]
        bits = np.zeros(len(lanes), dtype=np.int64)
        history = _History(len(lanes), self.gamma)
        t = 0
        while len(lanes):
            t += 1
            draw = rng.random(len(lanes)) * self._count[o]
            pick = self._first[o] + draw.astype(np.int64)
            move = self._move[pick]
            after, next_bits = moves.next_observation[move], self.probes(bits, move)
            over = after == end
            cut = ~over & ((limit[lanes] <= t) | (self._count[after] == 0))
            history.add(lanes, move, self._reward[pick], bits)
            history.cut(lanes[cut], after[cut])
            going = ~(over | cut)
            lanes, o, bits = lanes[going], after[going], next_bits[going]
        return history.rows(replication, numbers)
