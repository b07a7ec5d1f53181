"""Features of continuous observations.

Rich enough that a smooth value is in their span: each component is first made standard normal by
its ranks (scales and outliers then do not matter), then come a constant, the components, their
products, and random cosines of several wavelengths, which approximate Gaussian kernels of those
widths and so, as their number grows, any continuous function.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

KNOTS = 500
REACH = 2.5  # standard deviations; beyond, components are clipped
MOST_PRODUCTS = 12  # components, beyond which their products are too many


class Normalise:
    """Each component by its rank among those seen, as a normal score; constant ones are dropped."""

    def __init__(self, seen: Float[np.ndarray, "N d"]):
        share = (np.arange(KNOTS) + 0.5) / KNOTS
        knots = [np.unique(np.quantile(column, share)) for column in seen.T]
        self.kept = [i for i, k in enumerate(knots) if len(k) > 1]
        self.knots = [knots[i] for i in self.kept]

    @property
    def size(self) -> int:
        return len(self.kept)

    def __call__(self, seen: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N k"]:
        columns = [
            ndtri(np.interp(seen[:, i], k, (np.arange(len(k)) + 0.5) / len(k)))
            for i, k in zip(self.kept, self.knots, strict=True)
        ]
        return np.clip(np.stack(columns, axis=1), -REACH, REACH)


class Smooth:
    """Constant, components, products, and `n` random cosines of the given widths."""

    def __init__(
        self, rng: np.random.Generator, size: int, n: int, widths: tuple[float, ...], products: bool
    ):
        each = -(-n // len(widths))
        scale = np.repeat(widths, each) * np.sqrt(size)
        self.frequency = rng.normal(size=(size, len(scale))) / scale
        self.phase = rng.uniform(0.0, 2.0 * np.pi, len(scale))
        pairs = np.triu_indices(size) if products and size <= MOST_PRODUCTS else ((), ())
        self.pairs = tuple(np.asarray(side, dtype=np.int64) for side in pairs)

    def __call__(self, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N k"]:
        i, j = self.pairs
        cosines = np.sqrt(2.0) * np.cos(x @ self.frequency + self.phase)
        return np.hstack([np.ones((len(x), 1)), x, x[:, i] * x[:, j], cosines])
