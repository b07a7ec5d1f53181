"""What a noisy difference says about the size of the true one.

An estimate Δ̂ = Δ + e of a vector has `‖Δ̂‖² ≈ ‖Δ‖² + ‖e‖²`: a squared difference is too large by
its noise. Here the size is first corrected for that, and bounded by asking for which true sizes
the corrected value that was seen would be unsurprising.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

GRID = 400


@dataclass(frozen=True)
class Size:
    """A norm ‖Δ‖ with what the data allow it to be; in units of the return."""

    value: float
    interval: tuple[float, float]
    upper: float  # one-sided, at the same level


def size(
    square: float,
    direction: Float[np.ndarray, "C"],
    noise: Float[np.ndarray, "B C"],
    weights: Float[np.ndarray, "C"],
    level: float = 0.05,
) -> Size:
    """Bounds on ‖Δ‖ from a noise-corrected estimate `square` of ‖Δ‖² and draws of the noise e.

    For a true difference of norm s along `direction`, the corrected square would come out as

        U(s) = s² + 2 s ⟨d, e⟩ + ‖e‖² − E‖e‖².

    The interval holds every s for which the observed square lies between the level/2 and the
    1 − level/2 quantile of U(s); norms and products are weighted by `weights`.
    """
    squares = noise**2 @ weights
    excess = squares - squares.mean()
    # A square far below 0 is luck, not knowledge: it should not narrow what is possible.
    plausible = max(square, float(np.median(excess)))
    norm = np.sqrt(direction**2 @ weights)
    along = noise @ (weights * direction) / norm if norm > 0.0 else np.sqrt(squares)
    spread = np.sqrt(max(square, 0.0)) + 6.0 * np.sqrt(squares.mean() + 1e-300)
    grid = np.linspace(0.0, 2.0 * spread, GRID)
    outcomes = grid[:, None] ** 2 + 2.0 * grid[:, None] * along[None] + excess[None]
    below = (outcomes <= plausible).mean(axis=1)
    value = float(np.sqrt(max(square, 0.0)))
    low = _first(grid, below <= 1.0 - level / 2.0, value)
    high = _last(grid, below >= level / 2.0, value)
    upper = _last(grid, below >= level, value)
    return Size(value, (min(low, value), max(high, value)), max(upper, value))


def _first(grid: np.ndarray, inside: np.ndarray, otherwise: float) -> float:
    return float(grid[np.argmax(inside)]) if inside.any() else otherwise


def _last(grid: np.ndarray, inside: np.ndarray, otherwise: float) -> float:
    return float(grid[np.flatnonzero(inside)[-1]]) if inside.any() else otherwise
