"""A POMDP, a policy and a memory together form a Markov chain over (state, memory).

The agent sees *one* observation o ~ Φ(s) and uses it for both its action and
its memory update, so

    P(s, m → s', m') = Σ_o Φ(o|s) Σ_a π(a|o, m) μ(m'|o, a, m) T(s'|s, a).

This is the exact view. (Folding μ into the dynamics draws a second observation
for the memory, which is something else as soon as Φ is stochastic.) Without a
memory, M has one element and every formula reduces to the paper's.
"""

import equinox as eqx
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float

from markovlens.pomdp.model import Pomdp
from markovlens.values.elimination import without_next
from markovlens.values.linear import Factored, Lu, Solver
from markovlens.values.links import DENSE, ChainLinks, pairs


class Chain(eqx.Module):
    """The chain, its occupancy, and the projections TD(λ) needs. Index order: s, m, o, a.

    Given the links of its POMDP, its systems are solved by elimination.
    """

    pomdp: Pomdp
    policy: Float[Array, "O M A"]
    memory: Float[Array, "O A M M"]
    links: ChainLinks = eqx.field(static=True)
    choice: Float[Array, "S M A M"]  # Σ_o Φ π μ, with γ's terminal rule applied
    rewards: Float[Array, "S M"]  # r_π(s, m) = Σ_oa Φ π R
    system: Factored  # I - γP, shared by the occupancy and the state values
    occupancy: Float[Array, "S M"]  # c(s, m), discounted visits
    weights: Float[Array, "O M S"]  # W(s | o, m)
    going_weights: Float[Array, "O M S"]  # W, without the states at which the chain stops
    projected_rewards: Float[Array, "O M A"]  # Σ_s W(s|o,m) R(s,a)

    def __init__(
        self,
        pomdp: Pomdp,
        policy: Float[Array, "O M A"],
        memory: Float[Array, "O A M M"],
        links: ChainLinks = DENSE,
    ):
        alive = going_on(pomdp)
        self.pomdp, self.policy, self.memory, self.links = pomdp, policy, memory, links
        choice = jnp.einsum("so,oma,oamn->sman", pomdp.Phi, policy, memory, optimize="optimal")
        self.choice = choice * alive[:, None, None, None]
        self.rewards = jnp.einsum("so,oma,sa->sm", pomdp.Phi, policy, pomdp.R)
        apply = Partial(_without_next, self.choice, pomdp.T, pomdp.gamma)
        self.system = Factored(self._factors(), apply)
        start = jnp.zeros(self.rewards.shape).at[:, 0].set(pomdp.p0)
        self.occupancy = self.system.solve_transposed(start.reshape(-1)).reshape(start.shape)
        self.weights = _normalise(jnp.einsum("so,sm->oms", pomdp.Phi, self.occupancy))
        self.going_weights = self.weights * alive[None, None, :]
        self.projected_rewards = jnp.einsum("oms,sa->oma", self.weights, pomdp.R)

    @property
    def moves(self) -> Float[Array, "S M S M"]:
        """P, with γ's terminal rule applied; action by action, so that T is not copied."""
        by_action = (
            self.choice[:, :, a, None, :] * self.pomdp.T[a, :, None, :, None]
            for a in range(self.pomdp.n_actions)
        )
        return sum(by_action, start=jnp.zeros(()))

    def _factors(self) -> Solver:
        """I - γP, all of it or the blocks that are not zero."""
        T, gamma, size = self.pomdp.T, self.pomdp.gamma, self.rewards.size
        if self.links.states is None:
            return Lu(jnp.eye(size) - gamma * self.moves.reshape(size, size))
        here, following = pairs(self.links.states)
        by_action = (
            self.choice[here, :, a, :] * T[a, here, following][:, None, None]
            for a in range(self.pomdp.n_actions)
        )
        return without_next(sum(by_action, start=jnp.zeros(())), gamma, self.links.states)

    @property
    def projected_moves(self) -> Float[Array, "A O M S"]:
        """Σ_s W(s|o,m) T(s'|s,a); a batch over actions, so that T is not copied."""
        flat = self.going_weights.reshape(1, -1, self.pomdp.n_states)
        projected = jnp.repeat(flat, self.pomdp.n_actions, axis=0) @ self.pomdp.T
        return projected.reshape(-1, *self.going_weights.shape)

    @property
    def state_values(self) -> Float[Array, "S M"]:
        """V(s, m) = (I - γP)⁻¹ r_π."""
        return self.system.solve(self.rewards.reshape(-1)).reshape(self.rewards.shape)

    @property
    def visits(self) -> Float[Array, "O M"]:
        """Pr(o, m): discounted share of visits, the terminal states left out.

        As γ → 1 the terminal states would otherwise swallow all of it.
        """
        going = jnp.where(self.pomdp.terminal[:, None], 0.0, self.occupancy)
        counts = jnp.einsum("so,sm->om", self.pomdp.Phi, going)
        return _divide(counts, counts.sum())


def going_on(pomdp: Pomdp) -> Float[Array, "S"]:
    """1 where the chain goes on; 0 at terminal states when γ = 1, to stop it there.

    With γ < 1 a terminal state is an ordinary absorbing state; with γ = 1 its
    visits would be infinite, so they are counted once, on entering.
    """
    stops: Bool[Array, "S"] = pomdp.terminal & (pomdp.gamma >= 1.0)
    return jnp.where(stops, 0.0, 1.0)


def _without_next(
    choice: Float[Array, "S M A M"],
    T: Float[Array, "A S S"],
    gamma: Float[Array, ""],
    x: Float[Array, "SM"],
) -> Float[Array, "SM"]:
    """x - γ P x."""
    here = x.reshape(choice.shape[:2])
    onwards = jnp.einsum("ast,tn->asn", T, here)
    return x - gamma * jnp.einsum("sman,asn->sm", choice, onwards).reshape(-1)


def _normalise(counts: Float[Array, "... n"]) -> Float[Array, "... n"]:
    """Rows that sum to 1, except rows of zeros, which stay zeros."""
    return _divide(counts, counts.sum(axis=-1, keepdims=True))


def _divide(x: Float[Array, "..."], by: Float[Array, "..."]) -> Float[Array, "..."]:
    positive = by > 0.0
    return jnp.where(positive, x / jnp.where(positive, by, 1.0), 0.0)
