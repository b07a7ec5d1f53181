"""A step of Adam in C++ (`adam.cc`)."""

from jaxtyping import Array, Float

from markovlens.agents.native.library import call


def adam_step(
    decay: tuple[float, float],
    eps: float,
    scales: Float[Array, "5"],
    p: Float[Array, "..."],
    m: Float[Array, "..."],
    v: Float[Array, "..."],
    g: Float[Array, "..."],
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
    """p, m and v after a step along g. The scales are of g, of the step, of m and of v; the last is
    0 if nothing is to move."""
    p, m, v = call(
        "markovlens_adam",
        [p.shape] * 3,
        *(p, m, v, g, scales),
        in_place={0: 0, 1: 1, 2: 2},
        decay1=decay[0],
        decay2=decay[1],
        eps=eps,
    )
    return p, m, v
