"""Sets of small whole numbers as bits of 32-bit words: a whole board in a handful of integers.

Number i is bit i % 32 of word i // 32.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

WORD = 32


def n_words(n: int) -> int:
    """How many words hold the numbers 0 … n-1."""
    return max(1, -(-n // WORD))


def pack(members: Bool[np.ndarray, "... n"]) -> UInt32[np.ndarray, "... W"]:
    """Words of the set that has i where `members[..., i]`; on the host.

    >>> pack(np.array([True, False, True]))
    array([5], dtype=uint32)
    """
    members = np.asarray(members, dtype=bool)
    words = n_words(members.shape[-1])
    padding = words * WORD - members.shape[-1]
    padded = np.pad(members, [(0, 0)] * (members.ndim - 1) + [(0, padding)])
    bits = padded.reshape(*members.shape[:-1], words, WORD).astype(np.uint32)
    return (bits << np.arange(WORD, dtype=np.uint32)).sum(-1, dtype=np.uint32)


def unpack(words: UInt32[Array, "W"], n: int) -> Bool[Array, "n"]:
    """Which of 0 … n-1 are in the set."""
    bits = words[:, None] >> np.arange(min(n, WORD), dtype=np.uint32)[None]
    return (bits & 1).astype(bool).reshape(-1)[:n]


def single(i: Int[Array, ""], words: int) -> UInt32[Array, "W"]:
    """The set {i}; empty if i is negative or beyond the last word."""
    bit = jnp.uint32(1) << (i & (WORD - 1)).astype(jnp.uint32)
    return jnp.where(np.arange(words) == (i >> 5), bit, jnp.uint32(0))
