"""Exact value iteration over all beliefs: slow, simple, and a check on everything else."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.solver.lump import Lumped, lump

TOUCHING = 1e-7  # of the largest reward: a vector nowhere better by more is left out


@dataclass(frozen=True, eq=False)
class ExactSolution:
    """Bounds on the value with the first observation seen, and the vectors of the lower one."""

    lower: float
    upper: float
    alphas: Float[np.ndarray, "K S"]


def solve_exact(pomdp: Pomdp, tol: float = 1e-6, sweeps: int = 10_000) -> ExactSolution:
    """Value iteration on the whole belief simplex, by incremental pruning.

    Each sweep builds all plans one step longer that are best at some belief; linear programs throw
    the others away. It stops when `γ/(1−γ) max_b (V_{n+1}(b) − V_n(b))`, which bounds what is
    still missing, is at most `tol` times the largest reward. The number of vectors can explode:
    for a handful of states only; `solve` is for the rest.

    >>> guess = Pomdp(T=np.ones((2, 2, 2)) / 2, R=np.eye(2), Phi=[[0.9, 0.1], [0.1, 0.9]],
    ...               p0=[0.5, 0.5], gamma=0.5)
    >>> solution = solve_exact(guess)
    >>> len(solution.alphas), round(solution.lower, 4), round(solution.upper, 4)
    (2, 1.8, 1.8)
    """
    gamma = float(pomdp.gamma)
    if gamma == 1.0:
        raise ValueError("solve_exact needs gamma < 1, got 1; use solve")
    model = lump(pomdp)
    largest = float(np.abs(model.reward).max())
    touching = TOUCHING * largest
    # Each sweep prunes once for each observation and twice more, and may lose this much each time.
    lost = (model.joint.shape[1] + 2) * touching / (1.0 - gamma)
    vectors = np.full((1, model.reward.shape[1]), model.reward.min() / (1.0 - gamma))
    for _ in range(sweeps):
        longer = _longer(model, vectors, touching)
        missing = gamma / (1.0 - gamma) * max(_best_margin(a, vectors)[0] for a in longer)
        vectors = longer
        if missing <= tol * largest:
            break
    lower = float(model.root_weights @ (model.roots @ vectors.T).max(axis=1))
    return ExactSolution(lower, lower + max(missing, 0.0) + lost, vectors[:, model.class_of])


def _longer(
    model: Lumped, vectors: Float[np.ndarray, "K C"], touching: float
) -> Float[np.ndarray, "L C"]:
    """All plans that are best somewhere: an action, then any of these after each observation."""
    by_action = []
    for reward, arrivals in zip(model.reward, model.joint, strict=True):
        sums = reward[None]
        for matrix in arrivals:
            after = _prune(model.gamma * vectors @ matrix.T, touching)
            sums = _prune((sums[:, None] + after[None]).reshape(-1, len(reward)), touching)
        by_action.append(sums)
    return _prune(np.concatenate(by_action), touching)


def _prune(vectors: Float[np.ndarray, "n S"], touching: float) -> Float[np.ndarray, "k S"]:
    """Only the vectors that are best at some belief."""
    waiting = list(_undominated(np.unique(vectors, axis=0)))
    kept: list[np.ndarray] = []
    while waiting:
        if not kept:
            belief = np.full(vectors.shape[1], 1.0 / vectors.shape[1])
        else:
            margin, belief = _best_margin(waiting[-1], np.array(kept))
            if margin <= touching:
                waiting.pop()
                continue
        # What is best there is kept, even if the vector that led there is not it.
        winner = int(np.argmax(np.array(waiting) @ belief))
        kept.append(waiting.pop(winner))
    return np.array(kept)


def _undominated(vectors: Float[np.ndarray, "n S"]) -> Float[np.ndarray, "k S"]:
    """Without those that another one beats in every state: cheaper than linear programs."""
    beaten = np.all(vectors[:, None] <= vectors[None], axis=2)
    np.fill_diagonal(beaten, False)
    return vectors[~np.any(beaten, axis=1)]


def _best_margin(alpha: np.ndarray, vectors: np.ndarray) -> tuple[float, np.ndarray]:
    """The largest `d` with `α·b ≥ d + α'·b` for all `α'` at some belief `b`, and that belief."""
    n_states = len(alpha)
    result = linprog(
        c=np.append(np.zeros(n_states), -1.0),
        A_ub=np.column_stack([vectors - alpha, np.ones(len(vectors))]),
        b_ub=np.zeros(len(vectors)),
        A_eq=np.append(np.ones(n_states), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * n_states + [(None, None)],
        method="highs",
    )
    return -float(result.fun), result.x[:n_states]
