"""The closed form for POMDPs too large for a dense T: sparse matrices and GMRES.

The same equations as `td_lambda`, but nothing is factored: everything is made
of products with T alone, so memory grows with its non-zero entries.
Values only, without gradients or memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, gmres

from markovlens.pomdp.model import ROW_SUM_TOLERANCE, Pomdp
from markovlens.values.inputs import check_distributions

NEGLIGIBLE = 1e-16
RELATIVE_RESIDUAL = 1e-13
RESTART = 40
MAX_RESTARTS = 500


@dataclass(frozen=True)
class SparsePomdp:
    """A POMDP with one sparse transition matrix per action.

    `T[a]` is [s, s'], `R` is dense [s, a], `Phi` sparse [s, o], `p0` is [s]; γ < 1.
    """

    T: tuple[sp.csr_array, ...]
    R: np.ndarray
    Phi: sp.csr_array
    p0: np.ndarray
    gamma: float

    def __init__(
        self,
        T: Sequence[sp.sparray],
        R: np.ndarray,
        Phi: sp.sparray,
        p0: np.ndarray,
        gamma: float,
    ):
        object.__setattr__(self, "T", tuple(sp.csr_array(moves) for moves in T))
        object.__setattr__(self, "R", np.asarray(R, dtype=np.float64))
        object.__setattr__(self, "Phi", sp.csr_array(Phi))
        object.__setattr__(self, "p0", np.asarray(p0, dtype=np.float64))
        object.__setattr__(self, "gamma", float(gamma))
        _check(self)

    @classmethod
    def from_dense(cls, pomdp: Pomdp) -> "SparsePomdp":
        return cls(
            [sp.csr_array(moves) for moves in np.asarray(pomdp.T)],
            np.asarray(pomdp.R),
            sp.csr_array(np.asarray(pomdp.Phi)),
            np.asarray(pomdp.p0),
            float(pomdp.gamma),
        )


def occupancy(pomdp: SparsePomdp, policy: np.ndarray) -> np.ndarray:
    """c[s], as `markovlens.occupancy`.

    Summed time by time: nothing is ever subtracted, so a state that is visited once in 10¹⁵ steps
    has as many right digits as any other, which W needs.
    """
    onwards = sp.csr_array(pomdp.gamma * _policy_moves(pomdp, policy).T)
    now, visits = pomdp.p0, pomdp.p0
    # Once every state gains less than this share of its visits, so it does ever after; a state
    # still to be reached has a predecessor that was reached just now and gained all it has.
    while (now > NEGLIGIBLE * (1.0 - pomdp.gamma) * visits).any():
        now = onwards @ now
        visits = visits + now
    return visits


def state_weights(pomdp: SparsePomdp, policy: np.ndarray) -> sp.csr_array:
    """W[o, s], as `markovlens.state_weights`, sparse like Φ."""
    counts = sp.csr_array((pomdp.Phi * occupancy(pomdp, policy)[:, None]).T)
    totals = np.asarray(counts.sum(axis=1)).reshape(-1)
    inverse = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0.0)
    return sp.csr_array(counts * inverse[:, None])


def q_values(pomdp: SparsePomdp, policy: np.ndarray, lam: float) -> np.ndarray:
    """Q^λ[o, a], as `markovlens.q_values`."""
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lam must be in [0, 1], got {lam:g}")
    gamma, Phi, policy = pomdp.gamma, pomdp.Phi, np.asarray(policy)
    moves, weights = _policy_moves(pomdp, policy), state_weights(pomdp, policy)
    seen_rewards = weights @ pomdp.R  # [o, a]
    rewards = lam * ((Phi @ policy) * pomdp.R).sum(axis=1)
    rewards += (1.0 - lam) * (Phi @ (policy * seen_rewards).sum(axis=1))

    def onwards(x: np.ndarray) -> np.ndarray:
        """Σ_s W(s|o) Σ_s' T(s'|s,a) x(s') for every [o, a]."""
        return np.stack([weights @ (moves_a @ x) for moves_a in pomdp.T], axis=1)

    def system(x: np.ndarray) -> np.ndarray:
        trusting_observations = Phi @ (policy * onwards(x)).sum(axis=1)
        return x - gamma * (lam * (moves @ x) + (1.0 - lam) * trusting_observations)

    return seen_rewards + gamma * onwards(_solve(system, rewards))


def _policy_moves(pomdp: SparsePomdp, policy: np.ndarray) -> sp.csr_array:
    shape = (pomdp.Phi.shape[1], len(pomdp.T))
    if np.shape(policy) != shape:
        raise ValueError(
            f"policy must have shape [observation, action] = {list(shape)}, "
            f"got {list(np.shape(policy))}"
        )
    policy = np.asarray(policy, dtype=np.float64)
    check_distributions(policy, "policy")
    acting = pomdp.Phi @ policy  # [s, a]
    return sp.csr_array(sum(moves * acting[:, a][:, None] for a, moves in enumerate(pomdp.T)))


def _solve(matvec: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> np.ndarray:
    operator = LinearOperator((len(b), len(b)), matvec=matvec, dtype=np.float64)
    x, failed = gmres(
        operator, b, rtol=RELATIVE_RESIDUAL, atol=0.0, restart=RESTART, maxiter=MAX_RESTARTS
    )
    residual = np.linalg.norm(matvec(x) - b)
    if failed and residual > 1e-10 * np.linalg.norm(b):
        raise ValueError(
            f"GMRES stopped at a residual of {residual:.2g} after {MAX_RESTARTS} restarts; "
            "a smaller gamma converges faster"
        )
    return x


def _check(pomdp: SparsePomdp) -> None:
    n_states, n_actions = len(pomdp.p0), len(pomdp.T)
    for a, moves in enumerate(pomdp.T):
        if moves.shape != (n_states, n_states):
            raise ValueError(
                f"T[{a}] must have shape [states, states] = [{n_states}, {n_states}], "
                f"got {list(moves.shape)}"
            )
        _check_rows(moves, f"T[{a}]")
    if pomdp.Phi.shape[0] != n_states:
        raise ValueError(
            f"Phi must have {n_states} rows, one for each state, got {pomdp.Phi.shape[0]}"
        )
    _check_rows(pomdp.Phi, "Phi")
    _check_rows(sp.csr_array(pomdp.p0[None]), "p0")
    if pomdp.R.shape != (n_states, n_actions):
        raise ValueError(
            f"R must have shape [states, actions] = [{n_states}, {n_actions}], "
            f"got {list(pomdp.R.shape)}"
        )
    if not np.isfinite(pomdp.R).all():
        raise ValueError("R holds a number that is not finite")
    if not 0.0 <= pomdp.gamma < 1.0:
        raise ValueError(f"gamma must be in [0, 1) for the iterative solver, got {pomdp.gamma:g}")


def _check_rows(rows: sp.csr_array, name: str) -> None:
    if rows.nnz and not (rows.data.min() >= 0.0):
        raise ValueError(f"{name} has a negative or undefined probability")
    sums = np.asarray(rows.sum(axis=1)).reshape(-1)
    bad = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name}: row {row} sums to {sums[row]:.6g}, expected 1")
