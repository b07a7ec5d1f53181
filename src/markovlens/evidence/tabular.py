"""TD and Monte Carlo values of discrete observations, for many replications at once.

Everything follows from sums over steps. With x = (o, m) the observation together with the memory
bit of a probe (or alone, without one) and a the action,

    V⁰ solves  Σ_{steps at x} (r + γ V⁰(x') − V⁰(x)) = 0           (TD(0): transition counts)
    V¹ solves  Σ_{steps at o} (G + γⁿ V¹(o_T) − V¹(o)) = 0          (Monte Carlo: returns)
    Δ(x, a) =  mean_{steps at x,a} (G + γⁿ V¹(o_T)) − (r + γ V⁰(x')) = Q¹ − Q⁰

and, with a probe, also how far values depend on what the memory m holds,

    M(o, m, a) =  Q⁰(o, m, a) − mean_{steps at o,a} (r + γ V⁰(x'))

where G is the return up to the end of the episode and the term in V¹(o_T) is there only if the
episode was truncated, at o_T, n steps on; one V¹, of the observations alone, serves every memory.
Under the Markov hypothesis Δ is 0 up to noise, whatever the weights with which observations are
visited; and so is M.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from markovlens.evidence.copies import Portions, Probe, Rows
from markovlens.evidence.discrete import Discrete
from markovlens.evidence.flows import LARGEST_DENSE, Flow, new_flow

CELLS_AT_ONCE = 4_000_000  # numbers held for the replications that are looked at together
MOST_BLOCKS = 2000  # of episodes, for resampling


@dataclass(frozen=True)
class Gaps:
    """Q¹ − Q⁰, summed over the visits to each pair (observation, action), by memory."""

    total: Float[np.ndarray, "R P m"]
    visits: Float[np.ndarray, "R P m"]
    by_memory: Float[np.ndarray, "R P m"]  # Q⁰ less its mean over memories, summed over visits

    @property
    def mean(self) -> Float[np.ndarray, "R P m"]:
        return self.total / np.maximum(self.visits, 1e-300)

    def louder(self, total: float, by_memory: Float[np.ndarray, "P"]) -> "Gaps":
        """With the noise of each times its factor."""
        by_pair = by_memory[:, None]
        return replace(self, total=total * self.total, by_memory=by_pair * self.by_memory)


@dataclass(frozen=True)
class Sums:
    """Sums over the steps of some replications, with one probe's memory or none.

    All that their values depend on; as large as there are kinds of moves, not steps.
    """

    data: Discrete
    count: Float[np.ndarray, "R K m"]  # of every move
    paid: Float[np.ndarray, "R K m"]
    returned: Float[np.ndarray, "R K m"]
    probe: Probe | None = None

    @classmethod
    def of(
        cls, data: Discrete, rows: Rows, replications: int, probe: Probe | None = None
    ) -> "Sums":
        n_moves, m = len(data.moves.pair), 1 if probe is None else 2
        key = (rows.replication * n_moves + rows.move) * m
        if probe is not None:
            key += probe.bit(rows.bits)
        shape = (replications, n_moves, m)

        def table(weights: np.ndarray | None) -> Float[np.ndarray, "R K m"]:
            return np.bincount(key, weights, math.prod(shape)).astype(float).reshape(shape)

        return cls(data, table(None), table(rows.reward), table(rows.returns), probe)

    def __add__(self, other: "Sums") -> "Sums":
        """Over the steps of both."""
        return replace(
            self,
            count=self.count + other.count,
            paid=self.paid + other.paid,
            returned=self.returned + other.returned,
        )

    @property
    def m(self) -> int:
        return self.count.shape[2]

    def new_flow(self) -> Flow:
        """From pairs with memory to observations with memory, nothing yet."""
        cell = self.data.moves.observation[:, None] * self.m + np.arange(self.m)
        return new_flow(len(self.count), cell.ravel(), self.data.n_observations * self.m)

    def _steps(self, gamma: float) -> Flow:
        """γ times the moves counted, but for those that end."""
        moves, bit = self.data.moves, np.arange(self.m)
        pair, after = moves.pair[:, None], moves.next_observation[:, None]
        source = pair * self.m + bit
        target = after * self.m + (bit if self.probe is None else self.probe.after(bit))
        going = np.flatnonzero(target < self.data.n_observations * self.m)
        n, r = len(going), len(self.count)
        flow = self.new_flow()
        if n == 0:  # every step ends its episode
            return flow
        flow.add(
            np.repeat(np.arange(r), n),
            np.tile(source.ravel()[going], r),
            np.tile(target.ravel()[going], r),
            gamma * self.count.reshape(r, -1)[:, going].ravel(),
        )
        return flow

    def _by_pair(self) -> Iterator[Float[np.ndarray, "R P*m"]]:
        """Visits, rewards and returns of every pair with memory."""
        for table in (self.count, self.paid, self.returned):
            yield self.data.moves.over_pairs(table).reshape(len(table), -1)

    def monte_carlo(self, ends: Flow) -> Float[np.ndarray, "R X"]:
        """V¹ of every observation, where `ends` leads on from pairs whose episodes were cut."""
        visits, _, returned = self._by_pair()
        return ends.values(visits, returned, returned.sum(1) / visits.sum(1))

    def gaps(self, gamma: float) -> Gaps:
        """Δ and M of every replication."""
        visits, paid, monte_carlo = self._by_pair()
        steps = self._steps(gamma)
        td = paid + steps.carried(
            steps.values(visits, paid, typical=monte_carlo.sum(1) / visits.sum(1))
        )
        shape = (len(self.count), self.data.moves.n_pairs, self.m)
        total, bootstrapped, count = (x.reshape(shape) for x in (monte_carlo - td, td, visits))
        seen = np.maximum(count.sum(2, keepdims=True), 1e-300)
        by_memory = bootstrapped - count * (bootstrapped.sum(2, keepdims=True) / seen)
        return Gaps(total, count, by_memory)


def final_values(data: Discrete, portions: Portions, replications: int) -> Float[np.ndarray, "R X"]:
    """V¹ of every observation, with which to complete the returns of episodes that were cut."""
    plain = ends = None
    for rows in portions:
        here = Sums.of(data, rows, replications)
        plain = here if plain is None else plain + here
        ends = ends or plain.new_flow()
        if len(rows.cut):
            pair = data.moves.pair[rows.move[rows.cut]]
            ends.add(rows.replication[rows.cut], pair, rows.last, rows.tail)
    assert plain is not None
    assert ends is not None
    return plain.monte_carlo(ends)


def gaps_of(
    data: Discrete,
    portions: Portions,
    final: Float[np.ndarray, "R X"],
    probes: Sequence[Probe | None],
    gamma: float,
) -> list[Gaps]:
    """Δ and M with each of some memories, or none."""
    sums: list[Sums] = []
    for rows in portions:
        whole = rows.completed(final)
        here = [Sums.of(data, whole, len(final), probe) for probe in probes]
        sums = [a + b for a, b in zip(sums, here, strict=True)] if sums else here
    return [of_probe.gaps(gamma) for of_probe in sums]


def replications_at_once(data: Discrete, m: int, memories: int = 1) -> int:
    """How many replications to hold the sums of, with some memories of m states."""
    moves, targets = 3 * len(data.moves.pair) * m * memories, data.n_observations * m
    flow = data.moves.n_pairs * m * targets if targets <= LARGEST_DENSE else len(data.reward)
    return max(1, CELLS_AT_ONCE // (moves + flow))


class Blocks:
    """The data's sums by blocks of episodes, to count some blocks more often than others.

    A block is one episode or, if there are very many, a few that follow one another: enough blocks
    to resample, and no more sums to hold the more episodes there are.
    """

    def __init__(self, data: Discrete, portions: Portions):
        self.data = data
        n_moves, n_episodes, n_seen = len(data.moves.pair), len(data.start), data.n_observations
        self.n = min(n_episodes, MOST_BLOCKS)

        def by_block(keys: np.ndarray, size: int, at: np.ndarray, values: np.ndarray) -> Any:
            block = at * self.n // n_episodes
            return sparse.csc_matrix((values, (keys, block)), shape=(size, self.n))

        self._moves = [sparse.csc_matrix((n_moves, self.n)) for _ in range(3)]
        tails = sparse.csc_matrix((n_moves * n_seen, self.n))
        for rows in portions:
            columns = (np.ones(len(rows.move)), rows.reward, rows.returns)
            here = [by_block(rows.move, n_moves, rows.episode, x) for x in columns]
            self._moves = [a + b for a, b in zip(self._moves, here, strict=True)]
            key = rows.move[rows.cut] * n_seen + rows.last
            tails += by_block(key, n_moves * n_seen, rows.episode[rows.cut], rows.tail)
        ends, index = np.unique(tails.indices, return_inverse=True)
        self._ends = np.divmod(ends, n_seen)  # move, last observation
        self._tails = sparse.csc_matrix((tails.data, index, tails.indptr), (len(ends), self.n))

    def weighted(self, weights: Float[np.ndarray, "R B"], gamma: float) -> Gaps:
        """Δ with the blocks weighted, once for each row of `weights`."""
        count, paid, returned = ((x @ weights.T).T[:, :, None] for x in self._moves)
        sums = Sums(self.data, count, paid, returned)
        if n_ends := self._tails.shape[0]:
            replication = np.repeat(np.arange(len(weights)), n_ends)
            move, last = (np.tile(x, len(weights)) for x in self._ends)
            tail = (self._tails @ weights.T).T.ravel()
            ends = sums.new_flow()
            ends.add(replication, self.data.moves.pair[move], last, tail)
            final = sums.monte_carlo(ends)
            key = replication * sums.count.shape[1] + move
            carried = np.bincount(key, tail * final[replication, last], sums.count.size)
            sums = replace(sums, returned=sums.returned + carried.reshape(sums.count.shape))
        return sums.gaps(gamma)
