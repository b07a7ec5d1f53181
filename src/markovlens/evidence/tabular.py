"""TD and Monte Carlo values of discrete observations, for many replications at once.

Everything is a table of counts and sums over rows; a row is one step. With x the observation
(together with a memory bit, if a probe is on) and a the action,

    V⁰ solves  Σ_{rows at x} (r + γ V⁰(x') − V⁰(x)) = 0           (TD(0): transition counts)
    V¹ solves  Σ_{rows at x} (G + γⁿ V¹(x_T) − V¹(x)) = 0          (Monte Carlo: returns)
    Δ(x, a) =  mean_{rows at x,a} (G + γⁿ V¹(x_T)) − (r + γ V⁰(x')) = Q¹ − Q⁰

and, with a probe, x = (o, m), also how far values depend on what the memory m holds,

    M(o, m, a) =  Q⁰(o, m, a) − mean_{rows at o,a} (r + γ V⁰(x'))

where G is the return up to the end of the episode and the term in V¹(x_T) is there only if the
episode was truncated, at x_T, n steps on. Under the Markov hypothesis Δ is 0 up to noise, whatever
the weights with which observations are visited; and so is M.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse
from scipy.sparse.linalg import splu

from markovlens.evidence.trajectories import Trajectories

LARGEST_DENSE = 200  # observations; beyond, the linear systems are solved as sparse ones

# Replications are simulated side by side: enough lanes to amortise a step in Python, few enough
# rows to stay near the processor's caches.
ROWS_AT_ONCE = 400_000
LANES_AT_LEAST = 400
MOST_ROWS = 4_000_000


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


def discretise(trajectories: Trajectories) -> Discrete:
    """Numbers every distinct observation and action."""
    n = len(trajectories)
    both = np.concatenate([trajectories.observation, trajectories.next_observation])
    values, index = np.unique(both.reshape(2 * n, -1), axis=0, return_inverse=True)
    index = index.reshape(-1)
    following = np.where(trajectories.terminated, len(values), index[n:])
    if trajectories.action.dtype.kind == "f":
        # Actions from a continuum cannot be counted; the values are then those of observations.
        action, n_actions = np.zeros(n, dtype=np.int64), 1
    else:
        kinds, action = np.unique(trajectories.action.reshape(n, -1), axis=0, return_inverse=True)
        action, n_actions = action.reshape(-1), len(kinds)
    return Discrete(
        observation=index[:n],
        action=action,
        reward=trajectories.reward,
        next_observation=following,
        truncated=trajectories.truncated,
        start=trajectories.start,
        n_observations=len(values),
        n_actions=n_actions,
        names=tuple(_name(value) for value in values),
    )


def _name(value: np.ndarray) -> str:
    return f"{value[0]:g}" if value.size == 1 else "(" + ", ".join(f"{v:g}" for v in value) + ")"


@dataclass(frozen=True)
class Rows:
    """Steps of one or more replications, in any order, with what follows each in its episode."""

    replication: Int[np.ndarray, "N"]
    episode: Int[np.ndarray, "N"]  # counted over all replications
    observation: Int[np.ndarray, "N"]
    action: Int[np.ndarray, "N"]
    reward: Float[np.ndarray, "N"]
    next_observation: Int[np.ndarray, "N"]  # n_observations where terminated
    bits: Int[np.ndarray, "N"]  # the memory bits of all probes
    next_bits: Int[np.ndarray, "N"]
    returns: Float[np.ndarray, "N"]  # discounted, up to the end of the episode
    tail: Float[np.ndarray, "N"]  # γ^(steps left) if the episode is truncated, else 0
    last: Int[np.ndarray, "N"]  # the final observation of the episode
    last_bits: Int[np.ndarray, "N"]
    n_replications: int


class Probes:
    """Random one-bit memories, 63 at most, updated together in the bits of one integer.

    For each (observation, action) a probe sets its bit to 0, to 1, keeps it or flips it, each with
    probability 1/4: `m' = (m & keep) ^ flip`, whatever m was. A memory of a Markov process is
    Markov together with it, so a probe can only reveal what is there.
    """

    def __init__(self, rng: np.random.Generator, n: int, n_observations: int, n_actions: int):
        self.n = n
        shape = (n_observations + 1, n_actions)
        self.keep = rng.integers(0, 2**n, shape)
        self.flip = rng.integers(0, 2**n, shape)

    def __call__(self, bits: np.ndarray, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        return (bits & self.keep[observation, action]) ^ self.flip[observation, action]


@dataclass(frozen=True)
class Gaps:
    """Q¹ − Q⁰, summed over the visits to each cell; [replications, observations × bits, actions]"""

    total: Float[np.ndarray, "R X A"]
    visits: Float[np.ndarray, "R X A"]
    by_memory: Float[np.ndarray, "R X A"]  # Q⁰ less its mean over memories, summed over visits
    returns: Float[np.ndarray, "N"]  # of every row, bootstrapped with V¹ where cut

    @property
    def mean(self) -> Float[np.ndarray, "R X A"]:
        return self.total / np.maximum(self.visits, 1e-300)


def gaps(
    rows: Rows,
    gamma: float,
    n_observations: int,
    n_actions: int,
    probe: int | None = None,
    weights: Float[np.ndarray, "N"] | None = None,
) -> Gaps:
    """Δ for every replication in `rows`, with the memory bit of one probe or without memory."""
    m = 1 if probe is None else 2
    n, r_count = n_observations * m, rows.n_replications

    def cells(observation: np.ndarray, bits: np.ndarray) -> np.ndarray:
        return observation if probe is None else 2 * observation + ((bits >> probe) & 1)

    def sums(keys: np.ndarray, size: int, values: np.ndarray | None = None) -> np.ndarray:
        if weights is not None:
            values = weights if values is None else weights * values
        return np.bincount(keys, values, minlength=size)

    offset = rows.replication * n
    here = cells(rows.observation, rows.bits)
    there = cells(rows.next_observation, rows.next_bits)
    key = offset + here
    visits = sums(key, r_count * n).reshape(r_count, n).astype(np.float64)
    paid = sums(key, r_count * n, rows.reward).reshape(r_count, n)
    returned = sums(key, r_count * n, rows.returns).reshape(r_count, n)
    typical = returned.sum(1) / visits.sum(1)

    moves = _Moves(key, there, n, m, r_count, weights)
    v0 = moves.solve(visits, paid, gamma, typical)
    cut = rows.tail > 0.0
    if cut.any():
        ends = cells(rows.last[cut], rows.last_bits[cut])
        scale = rows.tail[cut] if weights is None else rows.tail[cut] * weights[cut]
        v1 = _Moves(key[cut], ends, n, m, r_count, scale).solve(visits, returned, 1.0, typical)
        monte_carlo = rows.returns.copy()
        monte_carlo[cut] += rows.tail[cut] * v1[rows.replication[cut], ends]
    else:
        monte_carlo = rows.returns
    bootstrapped = rows.reward + gamma * v0.ravel()[rows.replication * (n + m) + there]
    cell = key * n_actions + rows.action
    size = r_count * n * n_actions
    shape = (r_count, n, n_actions)
    total = sums(cell, size, monte_carlo - bootstrapped).reshape(shape)
    count = sums(cell, size).reshape(shape).astype(np.float64)
    if probe is None:
        return Gaps(total, count, np.zeros(shape), monte_carlo)
    td = sums(cell, size, bootstrapped).reshape(shape)
    return Gaps(total, count, td - count * _over_memories(td, count), monte_carlo)


def _over_memories(total: np.ndarray, count: np.ndarray) -> Float[np.ndarray, "R X A"]:
    """The mean over both memories of each observation and action, at each of the two."""
    pairs = (len(total), -1, 2, total.shape[2])
    both = total.reshape(pairs).sum(2, keepdims=True)
    visits = count.reshape(pairs).sum(2, keepdims=True)
    return np.repeat(both / np.maximum(visits, 1e-300), 2, axis=2).reshape(total.shape)


class _Moves:
    """Counted moves from cell to cell; solves D V − scale · C V = b for every replication."""

    def __init__(
        self,
        key: np.ndarray,
        there: np.ndarray,
        n: int,
        m: int,
        replications: int,
        weights: np.ndarray | None,
    ):
        self.n, self.m, self.replications = n, m, replications
        self.dense = n <= LARGEST_DENSE
        if self.dense:
            width = n + m
            counts = np.bincount(key * width + there, weights, minlength=replications * n * width)
            self.counts = counts.reshape(replications, n, width)[:, :, :n]
        else:
            values = np.ones(len(key)) if weights is None else weights
            shape = (replications * n, n + m)
            self.sparse = sparse.csr_matrix((values, (key, there)), shape=shape)[:, :n]

    def solve(
        self, visits: np.ndarray, totals: np.ndarray, scale: float, typical: np.ndarray
    ) -> np.ndarray:
        """V[replication, n + m], 0 after the end; never-visited cells get the typical return."""
        unseen = visits == 0.0
        diagonal = np.where(unseen, 1.0, visits)
        right = np.where(unseen, typical[:, None], totals)
        values = np.zeros((self.replications, self.n + self.m))
        if self.dense:
            system = -scale * self.counts
            index = np.arange(self.n)
            system[:, index, index] += diagonal
            values[:, : self.n] = np.linalg.solve(system, right[:, :, None])[:, :, 0]
            return values
        for r in range(self.replications):
            block = self.sparse[r * self.n : (r + 1) * self.n]
            system = sparse.diags(diagonal[r]) - scale * block
            values[r, : self.n] = splu(system.tocsc()).solve(right[r])
        return values


def rows_of(data: Discrete, probes: Probes, gamma: float) -> Rows:
    """The data as one replication."""
    history = _History(len(data.start), gamma)
    length = data.length
    order = np.argsort(-length, kind="stable")
    bits = np.zeros(len(length), dtype=np.int64)
    longest = int(length.max())
    going = np.searchsorted(-length[order], -np.arange(1, longest + 1), side="right")
    for t, n in enumerate(going):
        lanes = order[:n]
        row = data.start[lanes] + t
        now = bits[lanes]
        o, a = data.observation[row], data.action[row]
        bits[lanes] = probes(now, o, a)
        history.add(
            lanes,
            o,
            a,
            data.reward[row],
            data.next_observation[row],
            now,
            bits[lanes],
            data.truncated[row],
        )
    return history.rows(np.zeros(len(length), dtype=np.int64), 1)


class _History:
    """Collects steps time by time, then works out backwards what followed each of them."""

    def __init__(self, lanes: int, gamma: float):
        self.lanes, self.gamma = lanes, gamma
        self.steps: list[tuple[np.ndarray, ...]] = []

    def add(self, *step: np.ndarray) -> None:
        self.steps.append(step)

    def rows(self, replication: np.ndarray, n_replications: int) -> Rows:
        returns = np.zeros(self.lanes)
        tail = np.zeros(self.lanes)
        last = np.zeros(self.lanes, dtype=np.int64)
        last_bits = np.zeros(self.lanes, dtype=np.int64)
        later = []
        any_cut = any(step[7].any() for step in self.steps)
        for lanes, _, _, reward, following, _, next_bits, cut in reversed(self.steps):
            g = reward + self.gamma * returns[lanes]
            returns[lanes] = g
            if any_cut:
                tail[lanes] = self.gamma * np.where(cut, 1.0, tail[lanes])
                ending = lanes[cut]
                last[ending], last_bits[ending] = following[cut], next_bits[cut]
                later.append((g, tail[lanes], last[lanes], last_bits[lanes]))
            else:
                later.append((g, np.zeros(len(g)), following, next_bits))
        later.reverse()
        columns = [np.concatenate(c) for c in zip(*self.steps, strict=True)]
        lanes, o, a, reward, following, now, next_bits, _ = columns
        g, tails, lasts, lasts_bits = (np.concatenate(c) for c in zip(*later, strict=True))
        return Rows(
            replication[lanes],
            lanes,
            o,
            a,
            reward,
            following,
            now,
            next_bits,
            g,
            tails,
            lasts,
            lasts_bits,
            n_replications,
        )


def simulate(
    data: Discrete, probes: Probes, gamma: float, rng: np.random.Generator, replications: int
) -> Rows:
    """Fresh episodes from the empirical effective MDP, as many as the data has.

    From observation o, the step (action, reward, next observation, whether it ended) is one of the
    steps that the data took from o, drawn uniformly. Starts are resampled; an episode is cut where
    its counterpart in the data was, or at the longest length seen.
    """
    order = np.argsort(data.observation, kind="stable")
    count = np.bincount(data.observation, minlength=data.n_observations + 1)
    first = np.concatenate([[0], np.cumsum(count)])[:-1]
    action, reward = data.action[order], data.reward[order]
    following = data.next_observation[order]
    ends = data.start + data.length - 1
    limit = np.where(data.truncated[ends], data.length, data.length.max())
    n_episodes = len(data.start)
    lanes = np.arange(replications * n_episodes)
    o = data.observation[data.start][rng.integers(0, n_episodes, len(lanes))]
    limits = np.tile(limit, replications)
    bits = np.zeros(len(lanes), dtype=np.int64)
    history = _History(len(lanes), gamma)
    t = 0
    while len(lanes):
        t += 1
        pick = first[o] + (rng.random(len(lanes)) * count[o]).astype(np.int64)
        a, after = action[pick], following[pick]
        next_bits = probes(bits, o, a)
        over = after == data.n_observations
        cut = ~over & ((limits[lanes] <= t) | (count[after] == 0))
        history.add(lanes, o, a, reward[pick], after, bits, next_bits, cut)
        going = ~(over | cut)
        lanes, o, bits = lanes[going], after[going], next_bits[going]
    return history.rows(np.arange(replications * n_episodes) // n_episodes, replications)


def replicate(
    data: Discrete, probes: Probes, gamma: float, rng: np.random.Generator, replications: int
) -> Iterator[Rows]:
    """`simulate` in portions of bounded memory."""
    steps = len(data.reward)
    portion = min(replications, max(ROWS_AT_ONCE // steps, -(-LANES_AT_LEAST // len(data.start))))
    portion = max(1, min(portion, MOST_ROWS // steps))
    for done in range(0, replications, portion):
        yield simulate(data, probes, gamma, rng, min(portion, replications - done))
