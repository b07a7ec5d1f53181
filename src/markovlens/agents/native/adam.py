"""A step of Adam in C++ (`adam.cc`)."""

from typing import TypeVar

import jax
from jaxtyping import Array, Float

from markovlens.agents.native.library import call

Tree = TypeVar("Tree")


def adam_step(
    decay: tuple[float, float],
    eps: float,
    scales: Float[Array, "5"],
    p: Tree,
    m: Tree,
    v: Tree,
    g: Tree,
) -> tuple[Tree, Tree, Tree, Float[Array, ""]]:
    """p, m and v after a step along g, and the length of g.

    The scales are the step's, those of m and of v against their start at zero, the longest that g
    may be before it is shortened, and 0 if nothing is to move.
    """
    leaves, structure = jax.tree.flatten((p, m, v))
    shapes = [leaf.shape for leaf in leaves]
    length, *after = call(
        "markovlens_adam",
        [(), *shapes],
        *(scales, *leaves, *jax.tree.leaves(g)),
        in_place={i: i for i in range(1, len(leaves) + 1)},
        decay1=decay[0],
        decay2=decay[1],
        eps=eps,
    )
    p, m, v = jax.tree.unflatten(structure, after)
    return p, m, v, length
