"""A tree of small arrays as one array of 32-bit words.

What a loop carries it may have to copy, and what a branch decides it selects, array by array; for
a handful of numbers it is the arrays that cost and not the numbers.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32


class Packed(eqx.Module):
    """Many trees that look alike, a row of words each, indexed like an array.

    >>> import jax.numpy as jnp
    >>> packed = Packed({"x": jnp.arange(6.0).reshape(2, 3), "on": jnp.ones((2, 3, 4), bool)}, 2)
    >>> packed[1, 2].unpack()
    {'on': Array([ True,  True,  True,  True], dtype=bool), 'x': Array(5., dtype=float32)}
    """

    words: UInt32[Array, "... W"]
    others: list[Array]  # what is neither a 32-bit number nor a bool
    structure: Any = eqx.field(static=True)
    kinds: tuple[tuple[tuple[int, ...], Any], ...] = eqx.field(static=True)  # shapes and dtypes

    def __init__(self, trees: Any, axes: int):
        """From a tree whose leaves have that many axes in front, over the trees."""
        leaves, self.structure = jax.tree.flatten(trees)
        self.kinds = tuple((leaf.shape[axes:], leaf.dtype) for leaf in leaves)
        shape = leaves[0].shape[:axes]
        words = [_to_words(leaf).reshape(*shape, -1) for leaf in leaves if _fits_a_word(leaf.dtype)]
        self.words = jnp.concatenate([jnp.zeros((*shape, 0), jnp.uint32), *words], axis=-1)
        self.others = [leaf for leaf in leaves if not _fits_a_word(leaf.dtype)]

    def __getitem__(self, index: Any) -> "Packed":
        return jax.tree.map(lambda leaf: leaf[index], self)

    def unpack(self) -> Any:
        """The trees again, the axes over them in front."""
        shape, others = self.words.shape[:-1], iter(self.others)
        leaves, begin = [], 0
        for inner, dtype in self.kinds:
            if not _fits_a_word(dtype):
                leaves.append(next(others))
                continue
            end = begin + math.prod(inner)
            leaves.append(_from_words(self.words[..., begin:end], dtype).reshape(*shape, *inner))
            begin = end
        return jax.tree.unflatten(self.structure, leaves)


def _fits_a_word(dtype: Any) -> bool:
    return dtype in (jnp.bool_, jnp.float32, jnp.int32, jnp.uint32)


def _to_words(leaf: Array) -> UInt32[Array, "..."]:
    if leaf.dtype == jnp.bool_:
        return leaf.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(leaf, jnp.uint32)


def _from_words(words: UInt32[Array, "..."], dtype: Any) -> Array:
    return words != 0 if dtype == jnp.bool_ else jax.lax.bitcast_convert_type(words, dtype)
