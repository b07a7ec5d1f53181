"""What a test is asked for and what it finds, whatever kind of observations it is for."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from markovlens.evidence.interval import Size

MOST_PROBES = 31  # twice that, if rewards are remembered, are the bits of an integer


@dataclass(frozen=True)
class Settings:
    """How hard to look."""

    gamma: float
    level: float = 0.05
    tolerance: float = 0.1
    replications: int = 200
    probes: int = 8
    rewards: bool = True  # whether past rewards are part of the past
    resamples: int = 200  # of episodes, for the interval; 0 takes its noise from the copies

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma must be in [0, 1], got {self.gamma:g}")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {self.level:g}")
        if not self.tolerance > 0.0:
            raise ValueError(f"tolerance must be positive, got {self.tolerance:g}")
        if self.replications < self.fewest_replications:
            raise ValueError(
                f"a test at level {self.level:g} needs at least {self.fewest_replications} "
                f"replications, got {self.replications}"
            )
        if not 0 <= self.probes <= MOST_PROBES:
            raise ValueError(f"probes must be between 0 and {MOST_PROBES}, got {self.probes}")
        if not isinstance(self.rewards, bool):
            raise ValueError(f"rewards must be True or False, got {self.rewards!r}")

    @property
    def fewest_replications(self) -> int:
        """With fewer, no p-value is as small as the level."""
        return int(np.ceil(1.0 / self.level)) - 1


@dataclass(frozen=True)
class Evidence:
    """What data say about whether the observations are Markov."""

    discrepancy: Size  # of the observations as they are, in units of the return
    hypothesis: str  # what `p_value` is against
    p_value: float
    remembered: float  # the discrepancy with the memory that shows it best, or what it explains
    upper: float  # bound on the discrepancy, with and without every memory probe
    revealed_by: str  # "values", or "memory" if a memory probe says it louder
    shares: dict[str, float]  # of the squared discrepancy, by what carries it, largest first
    scale: float  # standard deviation of the return
    thin: bool = False  # too few visits to any one observation to say that nothing is hidden
    by_action: bool = True  # whether values were compared action by action
    rewards: bool = False  # past rewards were looked at, and might have told something new
    p_without_rewards: float | None = None  # if that is known already


class TooThin(ValueError):
    """The data cannot bear the question, however it is put."""


def spread(values: Float[np.ndarray, "N"]) -> float:
    """The standard deviation of returns or rewards; 0 if they differ by rounding only."""
    found = float(values.std())
    return found if found > 1e-9 * float(np.abs(values).max()) else 0.0


def shares_of(parts: Float[np.ndarray, "n"], names: tuple[str, ...]) -> dict[str, float]:
    """Positive parts as shares of their sum, those of one name together, largest first."""
    of_name: dict[str, float] = {}
    for name, part in zip(names, parts, strict=True):
        of_name[name] = of_name.get(name, 0.0) + max(float(part), 0.0)
    total = sum(of_name.values())
    largest_first = sorted(of_name.items(), key=lambda item: -item[1])
    return {name: part / total for name, part in largest_first if part > 0.0}
