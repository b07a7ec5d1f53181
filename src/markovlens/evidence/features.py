"""Features of continuous observations.

Rich enough that a smooth value is in their span: uncorrelated combinations of the components are
made standard normal by their ranks (scales and outliers then do not matter), then come a constant,
the components, their products, and random cosines of several wavelengths, which approximate
Gaussian kernels of those widths and so, as their number grows, any continuous function.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

KNOTS = 500
REACH = 2.5  # standard deviations; beyond, components are clipped
MOST_PRODUCTS = 16  # components, beyond which their products are too many


class Normalise:
    """Uncorrelated combinations of the components, each by its rank among those seen.

    Turning the axes first keeps what lies in small differences: of two frames of a position, the
    velocity. Ranks then become normal scores. Components that never vary are dropped.
    """

    def __init__(self, seen: Float[np.ndarray, "N d"]):
        self.centre, spread = seen.mean(axis=0), seen.std(axis=0)
        largest = np.maximum(seen.max(axis=0), -seen.min(axis=0))
        constant = np.maximum(1e-9 * largest, 1e-14 * largest.max())  # but for what rounding does
        spread = np.where(spread > constant, spread, np.inf)
        scaled = (seen - self.centre) / spread
        variances, axes = np.linalg.eigh(scaled.T @ scaled / len(seen))
        kept = variances > 1e-10
        self.axes = axes[:, kept] / spread[:, None]
        share = (np.arange(KNOTS) + 0.5) / KNOTS
        self.knots = [
            np.unique(np.quantile(c, share)) for c in ((seen - self.centre) @ self.axes).T
        ]

    @property
    def size(self) -> int:
        return self.axes.shape[1]

    def __call__(self, seen: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "N k"]:
        turned = (seen - self.centre) @ self.axes
        columns = [
            ndtri(np.interp(column, k, (np.arange(len(k)) + 0.5) / len(k)))
            for column, k in zip(turned.T, self.knots, strict=True)
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
        angle = x @ self.frequency
        angle += self.phase
        # In single precision, seven times as fast; what a cosine is then off by is one part in 10⁶.
        cosines = np.sqrt(np.float32(2.0)) * np.cos(angle.astype(np.float32))
        return np.hstack([np.ones((len(x), 1)), x, x[:, i] * x[:, j], cosines])
