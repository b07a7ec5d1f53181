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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from markovlens.evidence.copies import Probe, Rows
from markovlens.evidence.discrete import Discrete
from markovlens.evidence.flows import LARGEST_DENSE, Flow, new_flow

CELLS_AT_ONCE = 4_000_000  # numbers held for the replications that are looked at together


@dataclass(frozen=True)
class Gaps:
    """Q¹ − Q⁰, summed over the visits to each pair (observation, action), by memory."""

    total: Float[np.ndarray, "R P m"]
    visits: Float[np.ndarray, "R P m"]
    by_memory: Float[np.ndarray, "R P m"]  # Q⁰ less its mean over memories, summed over visits

    @property
    def mean(self) -> Float[np.ndarray, "R P m"]:
        return self.total / np.maximum(self.visits, 1e-300)


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

    @property
    def m(self) -> int:
        return self.count.shape[2]

    def _new_flow(self) -> Flow:
        """From pairs with memory to observations with memory, nothing yet."""
        cell = self.data.moves.observation[:, None] * self.m + np.arange(self.m)
        return new_flow(len(self.count), cell.ravel(), self.data.n_observations * self.m)

    def _steps(self, gamma: float) -> Flow:
        """γ times the moves counted, but for those that end."""
        moves, bit = self.data.moves, np.arange(self.m)
        pair, after = moves.pair[:, None], moves.next_observation[:, None]
        source = pair * self.m + bit
        target = after * self.m + (bit if self.probe is None else self.probe.after(bit, pair))
        going = np.flatnonzero(target < self.data.n_observations * self.m)
        n, r = len(going), len(self.count)
        flow = self._new_flow()
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

    def finals(
        self, replication: np.ndarray, move: np.ndarray, last: np.ndarray, tail: np.ndarray
    ) -> Float[np.ndarray, "R X"]:
        """V¹ of every observation, where returns of a move go on with `tail` times V¹(last)."""
        visits, _, returned = self._by_pair()
        ends = self._new_flow()
        ends.add(replication, self.data.moves.pair[move], last, tail)
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


def completed(data: Discrete, rows: Rows, replications: int) -> Rows:
    """Returns that go on, where an episode was cut, with V¹ of its final observation."""
    if not len(rows.cut):
        return rows
    at = rows.replication[rows.cut]
    plain = Sums.of(data, rows, replications)
    final = plain.finals(at, rows.move[rows.cut], rows.last, rows.tail)
    returns = rows.returns.copy()
    returns[rows.cut] += rows.tail * final[at, rows.last]
    return replace(rows, returns=returns)


def replications_at_once(data: Discrete, m: int) -> int:
    """How many replications to hold the sums of, with a memory of m states."""
    moves, targets = 3 * len(data.moves.pair) * m, data.n_observations * m
    flow = data.moves.n_pairs * m * targets if targets <= LARGEST_DENSE else len(data.reward)
    return max(1, CELLS_AT_ONCE // (moves + flow))


class Episodes:
    """The data's sums episode by episode, to count some episodes more often than others."""

    def __init__(self, data: Discrete, rows: Rows):
        self.data = data
        n_moves, n_episodes = len(data.moves.pair), len(data.start)

        def by_episode(keys: np.ndarray, size: int, at: np.ndarray, values: np.ndarray) -> Any:
            return sparse.csr_matrix((values, (keys, at)), shape=(size, n_episodes))

        columns = (np.ones(len(rows.move)), rows.reward, rows.returns)
        self._moves = [by_episode(rows.move, n_moves, rows.episode, x) for x in columns]
        key = rows.move[rows.cut] * data.n_observations + rows.last
        ends, index = np.unique(key, return_inverse=True)
        self._ends = np.divmod(ends, data.n_observations)  # move, last observation
        self._tails = by_episode(index, len(ends), rows.episode[rows.cut], rows.tail)

    def weighted(self, weights: Float[np.ndarray, "R E"], gamma: float) -> Gaps:
        """Δ with the episodes weighted, once for each row of `weights`."""
        count, paid, returned = ((x @ weights.T).T[:, :, None] for x in self._moves)
        sums = Sums(self.data, count, paid, returned)
        if n_ends := self._tails.shape[0]:
            replication = np.repeat(np.arange(len(weights)), n_ends)
            move, last = (np.tile(x, len(weights)) for x in self._ends)
            tail = (self._tails @ weights.T).T.ravel()
            final = sums.finals(replication, move, last, tail)
            key = replication * sums.count.shape[1] + move
            carried = np.bincount(key, tail * final[replication, last], sums.count.size)
            sums = replace(sums, returned=sums.returned + carried.reshape(sums.count.shape))
        return sums.gaps(gamma)
