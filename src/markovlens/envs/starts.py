"""A stock of fresh starts, so that restarting an environment costs a look-up and not a reset.

Each of N copies has K starts, drawn together and handed out in order, each once. When a copy has
none left the whole stock is drawn anew and what the others had left is thrown away, unseen: which
starts are thrown away does not depend on what they are, so those handed out are independent and
distributed as resets are.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from markovlens.envs.env import Env
from markovlens.envs.packed import Packed


class Starts(eqx.Module):
    """K starts for each of N copies."""

    state: Packed  # [K, N], by `pack`
    observation: Array  # [K, N, ...]
    used: Int[Array, "N"]  # how many of its starts each copy was handed
    key: PRNGKeyArray  # draws the next stock

    def of(self, copies: Int[Array, "N"]) -> tuple[Packed, Array]:
        """The next start of each copy: its state and observation."""
        return self.state[self.used, copies], self.observation[self.used, copies]


def stock_size(env: Env, n: int, length: int) -> int:
    """How many starts to keep for each of n copies; decides nothing but the speed.

    As many as a rollout of `length` steps can use up, but not more than it likely will: when
    episodes can be short, the luckiest of many copies ends several in a row.
    """
    possible = 1 + (length - 1) // env.shortest_episode
    likely = 2 + (n.bit_length() - 1) // (2 * env.shortest_episode)
    return min(possible, likely)


def draw_starts(env: Env, key: PRNGKeyArray, n: int, size: int) -> Starts:
    """A full stock of `size` starts for each of n copies."""
    keys = jax.random.split(key, size * n + 1)
    state, observation = jax.vmap(jax.vmap(env.reset))(keys[1:].reshape(size, n))
    packed = pack(state, jnp.ones((size, n), dtype=bool))
    return Starts(packed, observation, jnp.zeros(n, dtype=jnp.int32), keys[0])


def pack(state: Any, first: Bool[Array, "*n"]) -> Packed:
    """The states of copies, and whether each of them opens an episode."""
    return Packed((state, first), axes=first.ndim)


def restock(env: Env, starts: Starts) -> Starts:
    """The same stock, or a new one if some copy has used up its own."""
    arrays, rest = eqx.partition(env, eqx.is_array)
    return _restock(rest, 0)(arrays, starts)


def _restock(env_rest: Any, depth: int) -> Callable[[Any, Starts], Starts]:
    """`restock` under `depth` vmaps.

    vmap would turn the branch into one that is always taken, a reset at every step. So under vmap
    we branch on whether any of the batch needs a new stock, and give it to those that do; each
    gets what it would have got alone.
    """

    def used_up(starts: Starts) -> Bool[Array, ""]:
        return (starts.used >= starts.observation.shape[0]).any()

    def drawn_anew(arrays: Any, starts: Starts) -> Starts:
        size, n = starts.observation.shape[:2]
        return draw_starts(eqx.combine(arrays, env_rest), starts.key, n, size)

    @jax.custom_batching.custom_vmap
    def restocked(arrays: Any, starts: Starts) -> Starts:
        empty: Bool[Array, "..."] = _vmapped(used_up, depth)(starts)

        def renew() -> Starts:
            return where(empty, _vmapped(drawn_anew, depth)(arrays, starts), starts)

        return jax.lax.cond(empty.any(), renew, lambda: starts)

    @restocked.def_vmap
    def _rule(size: int, batched: Any, arrays: Any, starts: Starts) -> tuple[Starts, Any]:
        def spread(leaf: Array, is_batched: bool) -> Array:
            return leaf if is_batched else jnp.broadcast_to(leaf, (size, *leaf.shape))

        arrays, starts = jax.tree.map(spread, (arrays, starts), tuple(batched))
        result = _restock(env_rest, depth + 1)(arrays, starts)
        return result, jax.tree.map(lambda _: True, result)

    return restocked


def _vmapped(function: Callable, times: int) -> Callable:
    for _ in range(times):
        function = jax.vmap(function)
    return function


def where(condition: Bool[Array, "*b"], if_true: Any, if_false: Any) -> Any:
    """Leaf by leaf, entries along the leading axes from one tree or the other."""

    def select(a: Array, b: Array) -> Array:
        return jnp.where(
            condition.reshape(*condition.shape, *(1,) * (a.ndim - condition.ndim)), a, b
        )

    return jax.tree.map(select, if_true, if_false)
