"""The fixed points of TD(λ) in a POMDP, in closed form.

The paper's equation, Q^λ = W (I - γ T K)⁻¹ R with K = λ Π^S + (1 - λ) Φ W^Π,
inverts a matrix over state-action pairs. Here the same number comes from one
solve over states: let x(s, m) be what TD(λ) expects on arriving at (s, m),

    x = λ (r_π + γ P x) + (1 - λ) Φ v          part trusts the state, part the observation
    v(o, m) = Σ_s W(s|o,m) Σ_a π(a|o,m) [ R(s,a) + γ Σ μ(m'|o,a,m) T(s'|s,a) x(s',m') ].

Substituting v leaves (I - γ (λP + (1-λ) Φ N)) x = λ r_π + (1-λ) Φ r_N; then V^λ = v and Q^λ is
the bracket before it is averaged over actions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, ArrayLike, Float

from markovlens.pomdp.model import Pomdp
from markovlens.precision import in_float64
from markovlens.values.chain import Chain
from markovlens.values.elimination import without_next
from markovlens.values.inputs import check_lambda, check_policy_and_memory
from markovlens.values.linear import Factored, Lu, Solver
from markovlens.values.links import pairs


class EffectiveMdp(NamedTuple):
    """The MDP that TD(0) believes in: observations taken for states.

    Without memory `T[a, o, o']` and `R[o, a]`; with it `T[a, o, m, o', m']` and `R[o, m, a]`.
    Rows of observations that are never seen are zero.
    """

    T: Float[Array, "A ..."]
    R: Float[Array, "... A"]


def q_values(
    pomdp: Pomdp, policy: ArrayLike, lam: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, "O A"] | Float[Array, "O M A"]:
    """Q^λ(o, a): the action values TD(λ) converges to. With a memory, Q^λ(o, m, a).

    >>> import markovlens as ml
    >>> tmaze = ml.library.tmaze()
    >>> ml.q_values(tmaze, ml.uniform_policy(tmaze), lam=0.5).shape
    (5, 4)
    """
    found = _q_values(pomdp, *check_policy_and_memory(pomdp, policy, memory), check_lambda(lam))
    return found[:, 0] if memory is None else found


def v_values(
    pomdp: Pomdp, policy: ArrayLike, lam: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, "O"] | Float[Array, "O M"]:
    """V^λ(o) = Σ_a π(a|o) Q^λ(o, a). With a memory, V^λ(o, m)."""
    found = _v_values(pomdp, *check_policy_and_memory(pomdp, policy, memory), check_lambda(lam))
    return found[:, 0] if memory is None else found


def state_values(
    pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, "S"] | Float[Array, "S M"]:
    """V_S(s): the true value of each hidden state. With a memory, V_S(s, m)."""
    found = _state_values(pomdp, *check_policy_and_memory(pomdp, policy, memory))
    return found[:, 0] if memory is None else found


def start_value(
    pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None = None
) -> Float[Array, ""]:
    """J = p0 · V_S: the expected discounted return of an episode. Memory starts in state 0."""
    return _start_value(pomdp, *check_policy_and_memory(pomdp, policy, memory))


def effective_mdp(pomdp: Pomdp, policy: ArrayLike, memory: ArrayLike | None = None) -> EffectiveMdp:
    """T_Ω(o'|o,a) = Σ_ss' Φ(o'|s') T(s'|s,a) W(s|o) and R_Ω(o,a) = Σ_s R(s,a) W(s|o)."""
    found = _effective_mdp(pomdp, *check_policy_and_memory(pomdp, policy, memory))
    return EffectiveMdp(found.T[:, :, 0, :, 0], found.R[:, 0]) if memory is None else found


def q_of_chain(chain: Chain, lam: Float[Array, ""]) -> Float[Array, "O M A"]:
    """Q^λ of a chain that is already built; for callers that need several λ."""
    return q_from_arrivals(chain, arrival_values(chain, lam))


def arrival_values(chain: Chain, lam: Float[Array, ""]) -> Float[Array, "S M"]:
    """x(s, m): what TD(λ) expects on arriving. One solve of size |S||M|."""
    pomdp, shape = chain.pomdp, chain.rewards.shape
    size = shape[0] * shape[1]
    projected = jnp.einsum("so,omtn->smtn", pomdp.Phi, observation_moves(chain))
    moves = lam * chain.moves + (1.0 - lam) * projected
    matrix = jnp.eye(size) - pomdp.gamma * moves.reshape(size, size)
    rewards = lam * chain.rewards + (1.0 - lam) * pomdp.Phi @ observation_rewards(chain)
    system = Factored(Lu(matrix), Partial(jnp.dot, matrix))
    return system.solve(rewards.reshape(-1)).reshape(shape)


def td_arrival_values(chain: Chain) -> Float[Array, "S M"]:
    """`arrival_values` at λ = 0, where one solve over (o, m) is enough."""
    pomdp, rewards = chain.pomdp, observation_rewards(chain)
    observed = _expected(chain, pomdp.T @ pomdp.Phi)
    system = Factored(_td_factors(chain, observed), Partial(_without_next, chain, observed))
    return pomdp.Phi @ system.solve(rewards.reshape(-1)).reshape(rewards.shape)


def _td_factors(chain: Chain, observed: Float[Array, "O M A O"]) -> Solver:
    """I - γ N Φ over (o, m), all of it or the blocks that are not zero."""
    policy, memory, gamma = chain.policy, chain.memory, chain.pomdp.gamma
    if chain.links.observations is None:
        moves = jnp.einsum("oma,oamn,omap->ompn", policy, memory, observed)
        size = moves.shape[0] * moves.shape[1]
        return Lu(jnp.eye(size) - gamma * moves.reshape(size, size))
    here, following = pairs(chain.links.observations)
    chosen = policy[here] * observed[here, :, :, following]
    by_action = (chosen[:, :, a, None] * memory[here, a] for a in range(chain.pomdp.n_actions))
    return without_next(sum(by_action, start=jnp.zeros(())), gamma, chain.links.observations)


def _without_next(
    chain: Chain, observed: Float[Array, "O M A O"], v: Float[Array, "OM"]
) -> Float[Array, "OM"]:
    """v - γ N Φ v, what TD(0)'s solution must make of the rewards."""
    arrived = observed @ v.reshape(chain.policy.shape[:2])
    onwards = jnp.einsum("oma,oamn,oman->om", chain.policy, chain.memory, arrived)
    return v - chain.pomdp.gamma * onwards.reshape(-1)


def q_from_arrivals(chain: Chain, x: Float[Array, "S M"]) -> Float[Array, "O M A"]:
    """Q(o,m,a) = Σ_s W [ R + γ Σ μ T x ]."""
    return chain.projected_rewards + q_difference(chain, x)


def q_difference(chain: Chain, x: Float[Array, "S M"]) -> Float[Array, "O M A"]:
    """How far apart two Q are whose arrival values are x apart: γ Σ W μ T x."""
    arrived = _expected(chain, chain.pomdp.T @ x)
    return chain.pomdp.gamma * jnp.einsum("oamn,oman->oma", chain.memory, arrived)


def _expected(chain: Chain, of_next: Float[Array, "A S X"]) -> Float[Array, "O M A X"]:
    """Σ_s W(s|o,m) of what an action leads to from s."""
    return jnp.einsum("oms,asx->omax", chain.going_weights, of_next)


def observation_moves(chain: Chain) -> Float[Array, "O M S M"]:
    """N(o, m → s', m') = Σ_a π(a|o,m) μ(m'|o,a,m) Σ_s W(s|o,m) T(s'|s,a)."""
    return jnp.einsum("oma,oamn,aomt->omtn", chain.policy, chain.memory, chain.projected_moves)


def observation_rewards(chain: Chain) -> Float[Array, "O M"]:
    """r_N(o, m) = Σ_a π(a|o,m) Σ_s W(s|o,m) R(s,a)."""
    return jnp.einsum("oma,oma->om", chain.policy, chain.projected_rewards)


@in_float64
@jax.jit
def _q_values(pomdp: Pomdp, policy: Array, memory: Array, lam: Array) -> Array:
    return q_of_chain(Chain(pomdp, policy, memory), lam)


@in_float64
@jax.jit
def _v_values(pomdp: Pomdp, policy: Array, memory: Array, lam: Array) -> Array:
    q = q_of_chain(Chain(pomdp, policy, memory), lam)
    return jnp.einsum("oma,oma->om", policy, q)


@in_float64
@jax.jit
def _state_values(pomdp: Pomdp, policy: Array, memory: Array) -> Array:
    return Chain(pomdp, policy, memory).state_values


@in_float64
@jax.jit
def _start_value(pomdp: Pomdp, policy: Array, memory: Array) -> Array:
    return pomdp.p0 @ Chain(pomdp, policy, memory).state_values[:, 0]


@in_float64
@jax.jit
def _effective_mdp(pomdp: Pomdp, policy: Array, memory: Array) -> EffectiveMdp:
    chain = Chain(pomdp, policy, memory)
    T = jnp.einsum("aomt,tp,oamn->aompn", chain.projected_moves, pomdp.Phi, memory)
    return EffectiveMdp(T, chain.projected_rewards)
