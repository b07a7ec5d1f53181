"""Random POMDPs, policies and memories for property tests."""

import numpy as np
from hypothesis import strategies as st

import markovlens as ml

# Few sizes, many POMDPs of each: every new shape is compiled anew.
SIZES = [(1, 1, 1), (3, 2, 1), (4, 1, 3), (5, 3, 4), (6, 2, 5)]


def rows(rng, concentration, shape):
    """Probabilities that are zero or at least about 1e-3: whether something that happens once in
    1e13 times happens at all is a matter of rounding, and no property."""
    drawn = rng.dirichlet(concentration, size=shape)
    drawn = np.where(drawn < 1e-3, 0.0, drawn)
    return drawn / drawn.sum(axis=-1, keepdims=True)


@st.composite
def pomdps(draw, sizes=SIZES, gammas=(0.0, 0.5, 0.9, 0.99, 0.999), may_end=True):
    """POMDPs with stochastic or deterministic Φ, terminal states, and unseen observations."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_states, n_actions, n_observations = draw(st.sampled_from(sizes))
    concentration = draw(st.sampled_from([0.1, 1.0]))
    T = rows(rng, np.full(n_states, concentration), (n_actions, n_states))
    R = rng.normal(size=(n_states, n_actions))
    Phi = rows(rng, np.full(n_observations, concentration), (n_states,))
    if draw(st.booleans()):
        Phi = np.eye(n_observations)[rng.integers(n_observations, size=n_states)]
    if n_observations > 1 and draw(st.booleans()):
        Phi[:, -1] = 0.0
        Phi[Phi.sum(axis=1) == 0.0, 0] = 1.0
        Phi /= Phi.sum(axis=1, keepdims=True)
    if may_end and draw(st.booleans()):
        T[:, -1], R[-1] = np.eye(n_states)[-1], 0.0
    p0 = rows(rng, np.full(n_states, concentration), ())
    return ml.Pomdp(T=T, R=R, Phi=Phi, p0=p0, gamma=draw(st.sampled_from(gammas)))


def random_memory(pomdp, n_memory, seed=0):
    """A policy[o,m,a] and a memory[o,a,m,m'], uniform on the simplex."""
    rng = np.random.default_rng(seed)
    n_observations, n_actions = pomdp.n_observations, pomdp.n_actions
    policy = rng.dirichlet(np.ones(n_actions), size=(n_observations, n_memory))
    memory = rng.dirichlet(np.ones(n_memory), size=(n_observations, n_actions, n_memory))
    return policy, memory
