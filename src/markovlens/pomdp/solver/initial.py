"""Bounds to start from: blind policies below, the fast informed bound above."""

import numpy as np
from jaxtyping import Float, Int

from markovlens.pomdp.solver.lump import Lumped

SWEEPS = 1000


def blind_values(model: Lumped) -> Float[np.ndarray, "A C"]:
    """Values of repeating one action for ever: `α_a = (I − γ T_a)⁻¹ R_a`."""
    T = model.joint.sum(axis=1)
    return np.stack([_evaluate(model, T[a], model.reward[a]) for a in range(len(T))])


def mdp_values(model: Lumped) -> Float[np.ndarray, "C"]:
    """Optimal values if the state were seen: exact, also for γ = 1, but for what rounding adds."""
    return _solve_mdp(model)[0]


def largest_pay(model: Lumped) -> float:
    """The largest reward, or cost, of what is done if the state is seen: the scale of a model, be
    what nobody does as expensive as it may."""
    _, best = _solve_mdp(model)
    return float(np.abs(model.reward[best, np.arange(len(best))]).max())


def _solve_mdp(model: Lumped) -> tuple[Float[np.ndarray, "C"], Int[np.ndarray, "C"]]:
    """Optimal values and actions if the state were seen, by policy iteration."""
    T = model.joint.sum(axis=1)
    states = np.arange(T.shape[1])
    best = np.argmax(model.reward, axis=0)
    while True:
        values = _evaluate(model, T[best, states], model.reward[best, states])
        q = model.reward + model.gamma * T @ values
        better = q.max(axis=0) - q[best, states]
        improved = better > 1e-12 * (1.0 + np.abs(values))
        if not improved.any():
            # Lifted by what is left, the values are a bound: no action is better then.
            left = better.max() / (1.0 - model.gamma) if model.gamma < 1.0 else 0.0
            return np.where(model.terminal, values, values + left), best
        best = np.where(improved, q.argmax(axis=0), best)


def fast_informed_bound(model: Lumped) -> Float[np.ndarray, "A C"]:
    """An upper bound `Q[a, s]` that knows the state now but only sees observations later.

    `Q(s,a) = R(s,a) + γ Σ_o max_a' Σ_s' Pr(s',o|s,a) Q(s',a')`, iterated down from
    the MDP's values, so that every iterate is a bound. `V(b) ≤ max_a b·Q[a]`.
    """
    T = model.joint.sum(axis=1)
    q = model.reward + model.gamma * T @ mdp_values(model)
    for _ in range(SWEEPS):
        after = np.einsum("aocd,bd->aocb", model.joint, q).max(axis=3).sum(axis=1)
        lower = np.minimum(q, model.reward + model.gamma * after)
        settled = np.abs(q - lower).max() <= 1e-9 * (1.0 + np.abs(q).max())
        q = lower
        if settled:
            break
    return q


def _evaluate(model: Lumped, T: np.ndarray, R: np.ndarray) -> Float[np.ndarray, "C"]:
    live = ~model.terminal
    values = np.zeros(len(R))
    inner = T[np.ix_(live, live)]
    values[live] = np.linalg.solve(np.eye(len(inner)) - model.gamma * inner, R[live])
    return values
