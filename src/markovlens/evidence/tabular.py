"""TD and Monte Carlo values of discrete observations, for many replications at once.

Everything follows from sums over steps. With x = (o, m) the observation together with the memory
bit of a probe (or alone, without one) and a the action,

    V⁰ solves  Σ_{steps at x} (r + γ V⁰(x') − V⁰(x)) = 0           (TD(0): transition counts)
    V¹ solves  Σ_{steps at x} (G + γⁿ V¹(x_T) − V¹(x)) = 0          (Monte Carlo: returns)
    Δ(x, a) =  mean_{steps at x,a} (G + γⁿ V¹(x_T)) − (r + γ V⁰(x')) = Q¹ − Q⁰

and, with a probe, also how far values depend on what the memory m holds,

    M(o, m, a) =  Q⁰(o, m, a) − mean_{steps at o,a} (r + γ V⁰(x'))

where G is the return up to the end of the episode and the term in V¹(x_T) is there only if the
episode was truncated, at x_T, n steps on. Under the Markov hypothesis Δ is 0 up to noise, whatever
the weights with which observations are visited; and so is M.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
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
    final: Float[np.ndarray, "R X"]  # V¹, where an episode was cut; 0 if none was

    @property
    def mean(self) -> Float[np.ndarray, "R P m"]:
        return self.total / np.maximum(self.visits, 1e-300)


class Sums:
    """Sums over the steps of some replications, with one probe's memory or none.

    All that their values depend on; as large as there are kinds of moves, not steps.
    """

    def __init__(self, data: Discrete, replications: int, probe: Probe | None = None):
        self.data, self.probe = data, probe
        self.m = 1 if probe is None else 2
        shape = (replications, len(data.moves.pair), self.m)
        self.count, self.paid, self.returned = np.zeros((3, *shape))  # of every move
        self.ends: Flow | None = None  # discounts, from pairs to where an episode was cut

    def add(self, rows: Rows) -> None:
        first, beyond = rows.replication.min(), rows.replication.max() + 1
        n_moves = self.count.shape[1]
        move = ((rows.replication - first) * n_moves + rows.move) * self.m + self._bit(rows.bits)
        for table, values in (
            (self.count, None),
            (self.paid, rows.reward),
            (self.returned, rows.returns),
        ):
            here = table[first:beyond]
            here += np.bincount(move, values, here.size).reshape(here.shape)
        if len(rows.cut):
            pair = self.data.moves.pair[rows.move[rows.cut]]
            source = pair * self.m + self._bit(rows.bits[rows.cut])
            target = rows.last * self.m + self._bit(rows.last_bits)
            self.carry_over(rows.replication[rows.cut], source, target, rows.tail)

    def carry_over(
        self, replication: np.ndarray, source: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> None:
        if self.ends is None:
            self.ends = self._new_flow()
        self.ends.add(replication, source, target, weight)

    def _bit(self, bits: Int[np.ndarray, "N"]) -> Int[np.ndarray, "N"] | int:
        return 0 if self.probe is None else self.probe.bit(bits)

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

    def gaps(self, gamma: float) -> Gaps:
        """Δ and M of every replication."""
        by_pair = (self.data.moves.over_pairs(x) for x in (self.count, self.paid, self.returned))
        shape = (len(self.count), self.data.moves.n_pairs, self.m)
        visits, paid, monte_carlo = (x.reshape(len(self.count), -1) for x in by_pair)
        typical = monte_carlo.sum(1) / visits.sum(1)
        steps = self._steps(gamma)
        td = paid + steps.carried(steps.values(visits, paid, typical))
        final = np.zeros((len(visits), steps.targets))
        if self.ends is not None:
            final = self.ends.values(visits, monte_carlo, typical)
            monte_carlo = monte_carlo + self.ends.carried(final)
        total, bootstrapped, count = (x.reshape(shape) for x in (monte_carlo - td, td, visits))
        seen = np.maximum(count.sum(2, keepdims=True), 1e-300)
        by_memory = bootstrapped - count * (bootstrapped.sum(2, keepdims=True) / seen)
        return Gaps(total, count, by_memory, final)


def replications_at_once(data: Discrete, kinds: int, m: int) -> int:
    """How many replications to hold the sums of, for so many kinds of memory of m states."""
    moves, targets = 3 * len(data.moves.pair) * m, data.n_observations * m
    flow = data.moves.n_pairs * m * targets if targets <= LARGEST_DENSE else len(data.reward)
    return max(1, CELLS_AT_ONCE // (kinds * (moves + flow)))


class Episodes:
    """The data's sums episode by episode, to count some episodes more often than others."""

    def __init__(self, data: Discrete, rows: Rows):
        self.data = data
        n_moves, n_episodes = len(data.moves.pair), len(data.start)

        def by_episode(keys: np.ndarray, size: int, at: np.ndarray, values: np.ndarray) -> Any:
            return sparse.csr_matrix((values, (keys, at)), shape=(size, n_episodes))

        columns = (np.ones(len(rows.move)), rows.reward, rows.returns)
        self._moves = [by_episode(rows.move, n_moves, rows.episode, x) for x in columns]
        key = data.moves.pair[rows.move[rows.cut]] * data.n_observations + rows.last
        self._ends, index = np.unique(key, return_inverse=True)
        self._tails = by_episode(index, len(self._ends), rows.episode[rows.cut], rows.tail)

    def weighted(self, weights: Float[np.ndarray, "R E"], gamma: float) -> Gaps:
        """Δ with the episodes weighted, once for each row of `weights`."""
        sums = Sums(self.data, len(weights))
        for table, by_episode in zip(
            (sums.count, sums.paid, sums.returned), self._moves, strict=True
        ):
            table[:, :, 0] = (by_episode @ weights.T).T
        if len(self._ends):
            replication = np.repeat(np.arange(len(weights)), len(self._ends))
            source, target = np.divmod(self._ends, self.data.n_observations)
            tails = (self._tails @ weights.T).T.ravel()
            r = len(weights)
            sums.carry_over(replication, np.tile(source, r), np.tile(target, r), tails)
        return sums.gaps(gamma)
