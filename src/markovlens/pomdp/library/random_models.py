"""Random POMDPs and block MDPs, for property tests and for statements about almost all of them."""

import numpy as np

from markovlens.pomdp.model import Pomdp


def random_pomdp(
    seed: int,
    n_states: int = 5,
    n_actions: int = 3,
    n_observations: int = 3,
    gamma: float = 0.9,
    deterministic_observations: bool = False,
    terminal: bool = False,
    successors: int | None = None,
) -> Pomdp:
    """A POMDP with rows drawn uniformly from the simplex and standard normal rewards.

    Hidden: the state; each observation says something about it.

    Arguments:
        seed: the same seed and sizes give the same POMDP.
        deterministic_observations: every state emits one observation, drawn such that as many
            observations as possible occur.
        terminal: the last state is the end, alone in emitting the last observation. Any action
            in any state may lead to it, so every policy ends and gamma may be 1.
        successors: how many states an action may lead to (the end not counted); default all.

    >>> random_pomdp(seed=0, n_states=6, n_observations=4, terminal=True)
    Pomdp(6 states, 3 actions, 4 observations, gamma=0.9)
    """
    if min(n_states, n_observations) < 1 + terminal or n_actions < 1:
        need = "2 states and 2 observations with a terminal state" if terminal else "1 of each"
        raise ValueError(
            f"got {n_states} states, {n_actions} actions, {n_observations} observations; "
            f"need at least {need}"
        )
    inner, inner_views = n_states - terminal, n_observations - terminal
    reach = inner if successors is None else successors
    if not 1 <= reach <= inner:
        raise ValueError(f"successors must be between 1 and {inner}, got {successors}")
    rng = np.random.default_rng(seed)
    T = np.zeros((n_actions, n_states, n_states))
    for a in range(n_actions):
        for s in range(inner):
            to = rng.permutation(inner)[:reach]
            to = np.append(to, inner) if terminal else to
            T[a, s, to] = rng.dirichlet(np.ones(len(to)))
    Phi = np.zeros((n_states, n_observations))
    if deterministic_observations:
        views = np.arange(inner) % inner_views
        Phi[np.arange(inner), rng.permutation(views)] = 1.0
    else:
        Phi[:inner, :inner_views] = rng.dirichlet(np.ones(inner_views), inner)
    p0 = np.zeros(n_states)
    p0[:inner] = rng.dirichlet(np.ones(inner))
    R = rng.normal(size=(n_states, n_actions))
    if terminal:
        T[:, -1, -1] = Phi[-1, -1] = 1.0
        R[-1] = 0.0
    return Pomdp(T, R, Phi, p0, gamma)


def random_block_mdp(
    seed: int,
    n_states: int = 4,
    n_actions: int = 3,
    observations_per_state: int = 2,
    gamma: float = 0.9,
    terminal: bool = False,
    successors: int | None = None,
) -> Pomdp:
    """A random MDP seen through several observations for each state, no two states sharing one.

    Hidden: nothing. What is seen varies, but it always gives the state away, so the λ-discrepancy
    is 0 for every policy.

    >>> random_block_mdp(seed=0, n_states=4, observations_per_state=2)
    Pomdp(4 states, 3 actions, 8 observations, gamma=0.9)
    """
    if observations_per_state < 1:
        raise ValueError(f"observations_per_state must be at least 1, got {observations_per_state}")
    mdp = random_pomdp(
        seed, n_states, n_actions, n_states, gamma, terminal=terminal, successors=successors
    )
    rng = np.random.default_rng([seed, observations_per_state])
    rows = rng.dirichlet(np.ones(observations_per_state), n_states)
    Phi = np.zeros((n_states, n_states, observations_per_state))
    Phi[np.arange(n_states), np.arange(n_states)] = rows
    T, R, p0 = (np.asarray(x) for x in (mdp.T, mdp.R, mdp.p0))
    return Pomdp(T, R, Phi.reshape(n_states, -1), p0, gamma)
