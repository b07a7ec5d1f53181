"""What observations and actions can be, and how each becomes a flat vector of floats."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class Discrete(eqx.Module):
    """One of the whole numbers 0 … n-1."""

    n: int = eqx.field(static=True)

    @property
    def flat_size(self) -> int:
        return self.n

    def flatten(self, x: Array) -> Float[Array, "n"]:
        """One-hot."""
        return jax.nn.one_hot(x, self.n, dtype=jnp.float32)

    def sample(self, key: PRNGKeyArray) -> Array:
        return jax.random.randint(key, (), 0, self.n)

    def contains(self, x: Array) -> Bool[Array, ""]:
        return jnp.issubdtype(x.dtype, jnp.integer) & (x.shape == ()) & (x >= 0) & (x < self.n)


class Binary(eqx.Module):
    """A vector of n bits, as float32 zeros and ones."""

    n: int = eqx.field(static=True)

    @property
    def flat_size(self) -> int:
        return self.n

    def flatten(self, x: Array) -> Float[Array, "n"]:
        return x.astype(jnp.float32)

    def sample(self, key: PRNGKeyArray) -> Array:
        return jax.random.bernoulli(key, shape=(self.n,)).astype(jnp.float32)

    def contains(self, x: Array) -> Bool[Array, ""]:
        return jnp.asarray(x.shape == (self.n,)) & ((x == 0) | (x == 1)).all()


class Box(eqx.Module):
    """A float32 array of the given shape, each entry between `low` and `high`."""

    shape: tuple[int, ...] = eqx.field(static=True)
    low: float = eqx.field(static=True, default=-float("inf"))
    high: float = eqx.field(static=True, default=float("inf"))

    @property
    def flat_size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size

    def flatten(self, x: Array) -> Float[Array, "n"]:
        return x.astype(jnp.float32).reshape(-1)

    def sample(self, key: PRNGKeyArray) -> Array:
        """Uniform when bounded, standard normal otherwise."""
        if max(abs(self.low), abs(self.high)) == float("inf"):
            return jax.random.normal(key, self.shape)
        return jax.random.uniform(key, self.shape, minval=self.low, maxval=self.high)

    def contains(self, x: Array) -> Bool[Array, ""]:
        inside = ((x >= self.low) & (x <= self.high)).all()
        return jnp.asarray(x.shape == self.shape) & inside


Space = Discrete | Binary | Box


def is_whole(value: object) -> bool:
    """Whether it is one whole number.

    >>> is_whole(2.0), is_whole(1.5), is_whole([2])
    (True, False, False)
    """
    array = np.asarray(value)
    return array.shape == () and array.dtype.kind in "biuf" and float(array).is_integer()


def kept_entries(size: int, hidden: tuple[int, ...]) -> tuple[int, ...]:
    """The entries of a flat observation that are left when those in `hidden` are not shown.

    >>> kept_entries(4, hidden=(1, 3))
    (0, 2)
    """
    bad = [i for i in hidden if not 0 <= i < size]
    if bad:
        raise ValueError(
            f"cannot hide entry {bad[0]}: the observation has {size} entries; "
            f"choose from 0 to {size - 1}"
        )
    if len(set(hidden)) < len(hidden):
        raise ValueError(f"entries are hidden once each, got {list(hidden)}")
    kept = tuple(i for i in range(size) if i not in hidden)
    if not kept:
        raise ValueError(f"cannot hide all {size} entries of the observation: keep at least 1")
    return kept
