"""A step of acting in C++ (`actor.cc`)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Bool, Float

from markovlens.agents.native.library import call

UNIT = 16  # what the width of a packed layer is a multiple of


def pack_layers(layers: Sequence[tuple[Float[Array, "I O"], Float[Array, "O"]]]) -> Array:
    """Weights and biases in the order in which `actor_step` reads them."""
    size = sum((len(weight) + 1) * -(-bias.size // UNIT) * UNIT for weight, bias in layers)
    (packed,) = call(
        "markovlens_actor_pack", [(size,)], *(array for pair in layers for array in pair)
    )
    return packed


def actor_step(
    packed: Float[Array, "W"],
    encoder: int,
    again: tuple[int, ...],
    n_outputs: int,
    seen: Float[Array, "N I"],
    memory: Float[Array, "N H"],
    first: Bool[Array, "N"],
) -> tuple[Float[Array, "N H"], Float[Array, "N A"]]:
    """The GRU's memory with what is seen in it, and what the actor puts out.

    The layers are the encoder's (`encoder` wide, and with `again` a second one), the GRU's for its
    input and for its memory, the latent one, the actor's hidden one and its last.
    """
    memory, outputs = call(
        "markovlens_actor_step",
        [memory.shape, (len(memory), n_outputs)],
        *(seen, memory, first, packed),
        encoder=np.int64(encoder),
        again=np.array(again, dtype=np.int64),
    )
    return memory, outputs
