"""The paper's equations written out, sums and all: the oracle the fast versions must match.

Nothing here is clever and nothing is shared with the package.
"""

import numpy as np


def occupancy(pomdp, policy):
    T, Phi = np.asarray(pomdp.T), np.asarray(pomdp.Phi)
    n_actions, n_states, _ = T.shape
    moves = np.zeros((n_states, n_states))
    for s in range(n_states):
        for o in range(Phi.shape[1]):
            for a in range(n_actions):
                moves[s] += Phi[s, o] * policy[o, a] * T[a, s]
    C = np.eye(n_states) - float(pomdp.gamma) * moves.T
    return np.linalg.solve(C, np.asarray(pomdp.p0))


def state_weights(pomdp, policy):
    c, Phi = occupancy(pomdp, policy), np.asarray(pomdp.Phi)
    c = np.where(c > 1e-13 * c.sum(), c, 0.0)
    W = np.zeros(Phi.T.shape)
    for o in range(Phi.shape[1]):
        total = sum(c[s] * Phi[s, o] for s in range(len(c)))
        if total > 0:
            W[o] = c * Phi[:, o] / total
    return W


def q_values(pomdp, policy, lam):
    """Equation (5): Q = W (I - γ T K)⁻¹ : R, with K = λ Π^S + (1-λ) Φ W^Π."""
    T, R, Phi = np.asarray(pomdp.T), np.asarray(pomdp.R), np.asarray(pomdp.Phi)
    n_actions, n_states, _ = T.shape
    W = state_weights(pomdp, policy)
    K = np.zeros((n_states, n_states, n_actions))
    for s in range(n_states):
        for o in range(Phi.shape[1]):
            for a in range(n_actions):
                K[s, s, a] += lam * Phi[s, o] * policy[o, a]
                K[s, :, a] += (1 - lam) * Phi[s, o] * policy[o, a] * W[o]
    TK = np.einsum("ast,tub->saub", T, K)
    size = n_states * n_actions
    system = np.eye(size) - float(pomdp.gamma) * TK.reshape(size, size)
    return W @ np.linalg.solve(system, R.reshape(-1)).reshape(n_states, n_actions)
