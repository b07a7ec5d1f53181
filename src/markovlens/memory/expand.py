"""A POMDP together with a memory, as a larger POMDP: the paper's two views.

State (s, m) has index s·M + m, observation (o, m) index o·M + m. The memory
starts in state 0, and no longer changes once a terminal state is reached, so
that terminal states stay terminal. Where a terminal state shares its observation
with others, values at that observation therefore differ a little from those of
the closed form's `memory=`, whose memory goes on.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from markovlens.pomdp.model import Pomdp
from markovlens.values.inputs import check_memory


def fold_memory(pomdp: Pomdp, memory: ArrayLike) -> Pomdp:
    """P_μ, the memory folded into the dynamics; actions stay what they were.

    The memory update draws an observation of its own, independent of the one
    the policy acts on. That equals a real agent only when every state emits a
    single observation; the closed form's `memory=` argument is exact always.
    """
    memory = check_memory(pomdp, memory)
    with jax.enable_x64(True):
        state_memory = jnp.einsum("so,oamn->asmn", pomdp.Phi, memory)
        return _expand(pomdp, pomdp.T, pomdp.R, state_memory, pomdp.actions)


def product_memory(pomdp: Pomdp, n_memory: int) -> Pomdp:
    """P_M, the memory as part of the action: (a, m') at index a·M + m' sets the memory to m'.

    A policy π(a|o,m) with a memory μ(m'|o,a,m) acts here as π·μ, exactly.
    """
    if n_memory < 1:
        raise ValueError(f"a memory needs at least one state, got n_memory = {n_memory}")
    with jax.enable_x64(True):
        set_to = jnp.tile(jnp.eye(n_memory), (pomdp.n_actions, 1))[:, None, None, :]
        shape = (pomdp.n_actions * n_memory, pomdp.n_states, n_memory, n_memory)
        return _expand(
            pomdp,
            jnp.repeat(pomdp.T, n_memory, axis=0),
            jnp.repeat(pomdp.R, n_memory, axis=1),
            jnp.broadcast_to(set_to, shape),
            tuple(f"{action}/{m}" for action in pomdp.actions for m in range(n_memory)),
        )


def _expand(
    pomdp: Pomdp,
    T: Float[Array, "B S S"],
    R: Float[Array, "S B"],
    state_memory: Float[Array, "B S M M"],
    actions: tuple[str, ...],
) -> Pomdp:
    """The POMDP over (s, m) in which action b moves s by T[b] and m by state_memory[b, s]."""
    n_memory = state_memory.shape[-1]
    still = jnp.eye(n_memory)[None, None]
    state_memory = jnp.where(pomdp.terminal[None, :, None, None], still, state_memory)
    size = pomdp.n_states * n_memory
    return Pomdp(
        T=jnp.einsum("bst,bsmn->bsmtn", T, state_memory).reshape(-1, size, size),
        R=jnp.repeat(R, n_memory, axis=0),
        Phi=jnp.kron(pomdp.Phi, jnp.eye(n_memory)),
        p0=jnp.kron(pomdp.p0, jnp.eye(n_memory)[0]),
        gamma=pomdp.gamma,
        states=tuple(f"{state}/{m}" for state in pomdp.states for m in range(n_memory)),
        actions=actions,
        observations=tuple(f"{seen}/{m}" for seen in pomdp.observations for m in range(n_memory)),
    )
