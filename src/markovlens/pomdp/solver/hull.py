"""The lowest value at a belief that values at other beliefs allow, for many beliefs at once."""

import numpy as np
from jaxtyping import Bool, Float, Int

SMALLEST_PIVOT = 1e-10
SLACK = 1e-12  # how far a weight may fall below 0 for the sake of a larger pivot
INEXACT = 1e-9  # how far weights may be from what they should be and still count
EXACT = 1e-12  # and where errors may add up


def lower_hull(
    queries: Float[np.ndarray, "q k"],
    points: Float[np.ndarray, "n k"],
    heights: Float[np.ndarray, "n"],
    basis: Int[np.ndarray, "q k"],
    pivots: int = 100,
) -> tuple[Float[np.ndarray, "q"], Int[np.ndarray, "q k"]]:
    """Interpolate a convex function from above: its values are `heights` at `points`.

    For each query `b`, `min Σ_i λ_i heights_i` over `λ ≥ 0` with `Σ_i λ_i points_i = b`, by the
    simplex method on all queries together. Every pivot leaves a valid bound, so stopping early
    is safe. Feasibility does not depend on the heights: the basis returned is where the next call
    may start after they changed.

    Arguments:
        basis: for each query the `k` points to start from, whose cone holds the query. If rounding
            has spoilt it, the value is infinite.
        pivots: how often to exchange a point at most.

    >>> values, _ = lower_hull(
    ...     queries=np.array([[0.5, 0.5]]),
    ...     points=np.array([[1.0, 0.0], [0.0, 1.0], [0.75, 0.25]]),
    ...     heights=np.array([4.0, 4.0, 1.0]),
    ...     basis=np.array([[0, 1]]),
    ... )
    >>> print(values)
    [2.]
    """
    values = np.full(len(queries), np.inf)
    basis = basis.copy()
    tolerance = 1e-11 * (1.0 + np.abs(heights).max())
    active = np.arange(len(queries))
    for _ in range(pivots):
        chosen = basis[active]
        inverse = _inverse(points[chosen])
        weights = _times(queries[active], inverse)
        sound = _sound(weights, queries[active], points[chosen], INEXACT)
        cost = (weights * heights[chosen]).sum(axis=1)
        values[active] = np.where(sound, np.minimum(values[active], cost), values[active])
        prices = (inverse @ heights[chosen][:, :, None])[:, :, 0]
        savings = heights - prices @ points.T
        entering = savings.argmin(axis=1)
        direction = _times(points[entering], inverse)
        leaves = direction > SMALLEST_PIVOT
        go_on = sound & (savings.min(axis=1) < -tolerance) & leaves.any(axis=1)
        if not go_on.any():
            break
        leaving = _leaving(np.maximum(weights, 0.0), np.where(leaves, direction, 0.0))
        active = active[go_on]
        basis[active, leaving[go_on]] = entering[go_on]
    return values, basis


def mixtures(
    queries: Float[np.ndarray, "q k"], points: Float[np.ndarray, "q k k"]
) -> tuple[Float[np.ndarray, "q k"], Bool[np.ndarray, "q"]]:
    """The weights with which each query is mixed of its points, and whether they are exact."""
    weights = _times(queries, _inverse(points))
    exact = _sound(weights, queries, points, EXACT)
    return np.maximum(weights, 0.0), exact


def _leaving(
    weights: Float[np.ndarray, "q k"], direction: Float[np.ndarray, "q k"]
) -> Int[np.ndarray, "q"]:
    """Who leaves the basis: the first weight to reach 0; of several the one with the best pivot."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(direction > 0.0, (weights + SLACK) / direction, np.inf).min(axis=1)
    first = weights <= steps[:, None] * direction
    return np.where(first, direction, 0.0).argmax(axis=1)


def _inverse(matrices: Float[np.ndarray, "q k k"]) -> Float[np.ndarray, "q k k"]:
    """Inverses; of singular matrices something that `_sound` will turn down."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrices)


def _times(
    rows: Float[np.ndarray, "q k"], matrices: Float[np.ndarray, "q k j"]
) -> Float[np.ndarray, "q j"]:
    return (rows[:, None, :] @ matrices)[:, 0, :]


def _sound(
    weights: np.ndarray, queries: np.ndarray, points: np.ndarray, error: float
) -> Bool[np.ndarray, "q"]:
    """Whether the weights really mix the points to the query; a poor inverse shows here."""
    apart = np.abs(_times(weights, points) - queries).max(axis=1)
    return (weights.min(axis=1) >= -error) & (apart <= error)
