"""What regressions see of continuous observations: the present, and what is new in the past."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from markovlens.evidence.features import Normalise
from markovlens.evidence.finding import TooThin
from markovlens.evidence.history import decayed_past, lag
from markovlens.evidence.trajectories import Trajectories

DECAYS = (0.5, 0.9, 0.99)  # of the memories of older observations and actions
FARTHEST = 4.0  # standard deviations; the past is clipped beyond
FEWEST_STEPS = 200
MOST_KINDS_OF_ACTION = 32


@dataclass(frozen=True)
class Inputs:
    """Present and past of every step, on common scales."""

    present: Float[np.ndarray, "N d"]
    following: Float[np.ndarray, "N d"]
    past: Float[np.ndarray, "N p"]
    names: tuple[str, ...]  # of the columns of `past`
    usable: Bool[np.ndarray, "N"]  # rows with a past, and with a full stack


def inputs_of(data: Trajectories, skip: int) -> Inputs:
    """The past is the last observation and action, and fading memories of older ones.

    The first `skip` steps of each episode are not usable: there a stack of frames is not yet full.
    """
    n = len(data)
    usable = data.time >= max(skip, 1)
    if usable.sum() < FEWEST_STEPS:
        raise TooThin(
            f"{int(usable.sum())} usable steps are too few for continuous observations; "
            "give a few thousand"
        )
    seen = data.observation.reshape(n, -1).astype(np.float64)
    following = data.next_observation.reshape(n, -1).astype(np.float64)
    normal = Normalise(seen[data.time >= skip])
    if normal.size == 0:
        raise TooThin("the observation never changes: there is nothing to test")
    action, action_names = _actions(data)
    entries = [*data.entry_names, *action_names]
    columns = [lag(seen, data, 1), lag(action, data, 1)]
    names = [f"previous {name}" for name in entries]
    for decay in DECAYS:
        columns += [decayed_past(seen, data, decay), decayed_past(action, data, decay)]
        names += [f"{name} over ~{round(1 / (1 - decay))} steps" for name in entries]
    past, kept = _news(np.hstack(columns), seen, usable)
    return Inputs(normal(seen), normal(following), past, tuple(names[i] for i in kept), usable)


def pay_for_observations(data: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The same steps with a random smooth function of the next observation as reward.

    If the observations are Markov their values are, whatever is paid; so where the true reward
    hardly ever varies, this asks of the observations themselves.
    """
    seen = data.observation.reshape(len(data), -1).astype(np.float64)
    following = data.next_observation.reshape(len(data), -1).astype(np.float64)
    normal = Normalise(seen)
    weights = rng.normal(size=normal.size) / np.sqrt(max(normal.size, 1))
    return data.replace(reward=np.tanh(normal(following) @ weights))


def _news(
    past: Float[np.ndarray, "N p"], seen: Float[np.ndarray, "N d"], usable: np.ndarray
) -> tuple[Float[np.ndarray, "N q"], np.ndarray]:
    """What is new in the past: less its best linear guess from the present, in standard units.

    The last position differs little from this one, and it is the difference that matters.
    Columns that the present gives exactly are dropped; returns also which are kept.
    """
    centred, present = past - past[usable].mean(0), seen - seen[usable].mean(0)
    present = present / (present[usable].std(0) + 1e-12)
    weights = np.linalg.lstsq(present[usable], centred[usable], rcond=1e-10)[0]
    left = centred - present @ weights
    spread, before = left[usable].std(0), centred[usable].std(0)
    kept = np.flatnonzero(spread > 1e-5 * before)
    if len(kept) == 0:
        raise TooThin("the present observation already holds all of the past: nothing to test")
    news = np.clip(left[:, kept] / spread[kept], -FARTHEST, FARTHEST)
    return np.where(usable[:, None], news, 0.0), kept


def _actions(data: Trajectories) -> tuple[Float[np.ndarray, "N a"], list[str]]:
    """One column for each kind of action but the first, or the entries of the vector."""
    flat = data.action.reshape(len(data), -1)
    kinds = np.unique(flat) if flat.dtype.kind in "biu" and flat.shape[1] == 1 else None
    if kinds is not None and len(kinds) <= MOST_KINDS_OF_ACTION:
        return (flat == kinds[None, 1:]).astype(np.float64), [f"action {k}" for k in kinds[1:]]
    return flat.astype(np.float64), [f"action {i}" for i in range(flat.shape[1])]
