"""Processes to take samples of, and plain ways to compute what the fast code computes."""

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from markovlens.evidence.trajectories import Trajectories


def sample_chain(rng, transition, reward, steps: int, show=None) -> Trajectories:
    """A chain whose last state is the end; `show` maps states to what is observed.

    Actions are coin tosses without effect.
    """
    running = np.cumsum(transition, axis=1)
    n = len(transition)
    seen = np.arange(n) if show is None else np.asarray(show)
    rows = []
    state = rng.integers(0, n - 1)
    for _ in range(steps):
        after = min(int(np.searchsorted(running[state], rng.random(), side="right")), n - 1)
        over = after == n - 1
        paid = reward[state] + rng.normal()
        rows.append((seen[state], rng.integers(0, 2), paid, over, seen[after]))
        state = rng.integers(0, n - 1) if over else after
    o, a, r, over, after = (np.array(column) for column in zip(*rows, strict=True))
    return Trajectories(o, a, r, over, None, after)


def random_chain(rng, n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.full(n, 0.5), n), rng.normal(size=n)


def tmaze_always_right_then_up() -> Trajectories:
    """Both episodes there are; observations: 0 and 1 the starts, 2 corridor, 3 junction, 4 end."""
    walk = [2, 2, 2, 2, 2, 3]
    seen = [0, *walk, 1, *walk]
    following = [*walk, 4, *walk, 4]
    ends = [False] * 6 + [True]
    return Trajectories(
        observation=seen,
        action=([0] * 6 + [1]) * 2,
        reward=[0.0] * 6 + [4.0] + [0.0] * 6 + [-0.1],
        terminated=ends * 2,
        next_observation=following,
    )


DRIFT = np.array([[0.9, 0.27], [0.0, 0.9]])  # of (position, velocity)
PUSH = np.array([0.3, 1.0])
SHOCKS = (0.25**2 + 0.2**2) * np.outer(PUSH, PUSH) + np.diag([0.05**2, 0.0])


def drifting_points(rng, steps: int, hidden: bool) -> Trajectories:
    """A point pushed at random, whose next position is paid; its velocity may be hidden.

    x' = DRIFT x + shocks, started from its stationary distribution; a toss of a coin, the action,
    is part of the shocks.
    """
    length = 50
    lanes = -(-steps // length)
    covariance = solve_discrete_lyapunov(DRIFT, SHOCKS)
    x = rng.multivariate_normal(np.zeros(2), covariance, lanes)
    columns = []
    for t in range(length):
        action = rng.integers(0, 2, lanes)
        push = 0.5 * (action - 0.5) + 0.2 * rng.normal(size=lanes)
        jitter = np.column_stack([0.05 * rng.normal(size=lanes), np.zeros(lanes)])
        after = x @ DRIFT.T + push[:, None] * PUSH + jitter
        last = np.full(lanes, t == length - 1)
        columns.append((x, action, after[:, 0], np.zeros(lanes, bool), last, after))
        x = after
    arrays = [np.swapaxes(np.array(c), 0, 1) for c in zip(*columns, strict=True)]
    data = Trajectories(*(a.reshape(-1, *a.shape[2:]) for a in arrays))
    return data.hide([1]) if hidden else data
