"""What regressions see of continuous observations: the present, and what is new in the past."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from markovlens.evidence.columns import ROWS_AT_ONCE, Made, Rows, beside, lag
from markovlens.evidence.features import Normalise
from markovlens.evidence.finding import TooThin, spread
from markovlens.evidence.history import decayed_past
from markovlens.evidence.stacking import PRESENT, Stack
from markovlens.evidence.trajectories import Trajectories

DECAYS = (0.5, 0.9, 0.99)  # of the memories of older observations and actions
FARTHEST = 4.0  # standard deviations; the past is clipped beyond
FEWEST_STEPS = 200
STEPS_PER_COMPONENT = 40  # with 30 and fewer, regressions leave so much that all looks hidden
MOST_KINDS_OF_ACTION = 32
SCALED_BY = 100_000  # steps: more would not change the scales of things
MOST_SCALED_BY = 10_000_000  # numbers in those steps: a bound on memory
MOST_COMPONENTS = 1000  # of which that many numbers still show how they vary together


@dataclass(frozen=True)
class Inputs:
    """Present and past of every step, on common scales, made a portion at a time."""

    present: Made  # [N, d], the observation
    following: Made  # [N, d]
    given: Made  # [N, d + a], the observation and the action
    past: Made  # [N, p], of whole episodes at a time
    names: tuple[str, ...]  # of the columns of `past`
    rewards: bool  # whether rewards are among them
    usable: Bool[np.ndarray, "N"]  # rows with a past, and with a full stack
    portions: tuple[slice, ...]  # of all rows, whole episodes each


def inputs_of(data: Trajectories, stack: Stack, rewards: bool, rng: np.random.Generator) -> Inputs:
    """The past is the last observation and action and, if asked, reward, and fading memories of
    older ones. A reward is there by itself and times what it was paid for, on which it may depend
    what it tells.

    The first steps of an episode are not usable until the stack of observations is full. Scales
    are those of `SCALED_BY` steps, or of fewer where observations are wide.
    """
    time = data.time
    usable = time >= max(stack.reach, 1)
    if time.max() == 0:
        raise TooThin("every episode is a single step: there is no past that could matter")
    if usable.sum() < FEWEST_STEPS:
        raise TooThin(
            f"{int(usable.sum())} usable steps, those with a past in their episode, are too few "
            "for continuous observations; give a few thousand"
        )
    now, then = stack.vectors(data)
    action, action_names = _actions(data)
    paid = _pay(data) if rewards else None
    sample = _sample(data, now.width, rng)
    normal = _normal(now[sample[time[sample] >= stack.reach]])
    choice = _Standard(action[sample])
    given = Made(lambda rows: np.hstack([normal(now[rows]), choice(action[rows])]))
    lived = beside([now, action] if paid is None else [now, action, _told(paid, given)])
    previous = lag(lived, time, 1)

    def past_of(rows: Rows) -> Float[np.ndarray, "n p"]:
        values = lived[rows]
        fading = [decayed_past(values, time[rows], decay) for decay in DECAYS]
        return np.hstack([previous[rows], *fading])

    if usable.sum() < STEPS_PER_COMPONENT * normal.size:
        raise TooThin(
            f"{int(usable.sum())} usable steps are too few for observations of {normal.size} "
            f"components: give {STEPS_PER_COMPONENT} for each, or mask those that do not matter"
        )
    news = _News(past_of(sample)[usable[sample]], now[sample[usable[sample]]])

    def past(rows: Rows) -> Float[np.ndarray, "n q"]:
        return np.where(usable[rows, None], news(past_of(rows), now[rows]), 0.0)

    alone = stack.reach == 0
    shown = data.entry_names if alone else [f"entry {i}" for i in range(now.width)]
    entries = [*shown, *action_names]
    if paid is not None:
        entries += ["reward"] * (1 + given.width)
    names = [f"previous {name}" for name in entries]
    for decay in DECAYS:
        names += [f"{name} over ~{round(1 / (1 - decay))} steps" for name in entries]
    return Inputs(
        present=Made(lambda rows: normal(now[rows])),
        given=given,
        following=Made(lambda rows: normal(then[rows])),
        past=Made(past),
        names=tuple(names[i] for i in news.kept),
        rewards=paid is not None,
        usable=usable,
        portions=tuple(data.portions(ROWS_AT_ONCE)),
    )


def pay_for_observations(data: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The same steps with a random smooth function of the next observation as reward.

    If the observations are Markov their values are, whatever is paid; so where the true reward
    hardly ever varies, this asks of the observations themselves.
    """
    now, then = PRESENT.vectors(data)
    normal = _normal(now[_sample(data, now.width, rng)])
    weights = rng.normal(size=normal.size) / np.sqrt(normal.size)
    portions = data.portions(ROWS_AT_ONCE)
    return data.replace(
        reward=np.concatenate([np.tanh(normal(then[rows]) @ weights) for rows in portions])
    )


def _sample(data: Trajectories, width: int, rng: np.random.Generator) -> Int[np.ndarray, "n"]:
    """Steps to learn the scales of so many components from."""
    if width > MOST_COMPONENTS:
        raise TooThin(
            f"observations of {width:,} components are too wide: at most {MOST_COMPONENTS:,} can "
            "be tested; downscale or embed them"
        )
    most = MOST_SCALED_BY // width
    return data.rows(data.draw_episodes(min(SCALED_BY, most), rng))[:most]


def _normal(seen: Float[np.ndarray, "n d"]) -> Normalise:
    normal = Normalise(seen)
    if normal.size == 0:
        raise TooThin("the observation never changes: there is nothing to test")
    return normal


class _Standard:
    """In standard units; columns that never vary are dropped."""

    def __init__(self, seen: Float[np.ndarray, "n a"]):
        self._mean, spread = seen.mean(0), seen.std(0)
        self._kept = np.flatnonzero(spread > 1e-9 * np.abs(seen).max(axis=0, initial=1e-300))
        self._spread = spread[self._kept]

    def __call__(self, values: Float[np.ndarray, "N a"]) -> Float[np.ndarray, "N k"]:
        scaled = (values - self._mean)[:, self._kept] / self._spread
        return np.clip(scaled, -FARTHEST, FARTHEST)


class _News:
    """What is new in the past: less its best linear guess from the present, in standard units.

    The last position differs little from this one, and it is the difference that matters.
    Columns that the present gives exactly are dropped; `kept` are the others.
    """

    def __init__(self, past: Float[np.ndarray, "n p"], seen: Float[np.ndarray, "n d"]):
        self._mean, self._centre = past.mean(0), seen.mean(0)
        self._unit = (seen - self._centre).std(0) + 1e-12
        present, centred = (seen - self._centre) / self._unit, past - self._mean
        self._weights = np.linalg.lstsq(present, centred, rcond=1e-10)[0]
        self._spread = (centred - present @ self._weights).std(0)
        self.kept = np.flatnonzero(self._spread > 1e-5 * centred.std(0))
        if len(self.kept) == 0:
            raise TooThin("the present observation already holds all of the past: nothing to test")

    def __call__(
        self, past: Float[np.ndarray, "N p"], seen: Float[np.ndarray, "N d"]
    ) -> Float[np.ndarray, "N q"]:
        left = past - self._mean - (seen - self._centre) / self._unit @ self._weights
        return np.clip(left[:, self.kept] / self._spread[self.kept], -FARTHEST, FARTHEST)


def _pay(data: Trajectories) -> Float[np.ndarray, "N"] | None:
    """Rewards less the mean of those that have a future; None if they are all the same."""
    going = data.reward[~data.terminated]
    return data.reward - going.mean() if len(going) and spread(going) > 0.0 else None


def _told(paid: Float[np.ndarray, "N"], given: Made) -> Made:
    """Rewards, and rewards times what they were paid for."""

    def make(rows: Rows) -> Float[np.ndarray, "n k"]:
        reward = paid[rows, None]
        return np.hstack([reward, reward * given[rows]])

    return Made(make)


def _actions(data: Trajectories) -> tuple[Made, list[str]]:
    """One column for each kind of action but the first, or the entries of the vector."""
    flat = data.action.reshape(len(data), -1)
    kinds = np.unique(flat) if flat.dtype.kind in "biu" and flat.shape[1] == 1 else None
    if kinds is not None and len(kinds) <= MOST_KINDS_OF_ACTION:
        one_hot = Made(lambda rows: (flat[rows] == kinds[None, 1:]).astype(np.float64))
        return one_hot, [f"action {k}" for k in kinds[1:]]
    return beside([flat]), [f"action {i}" for i in range(flat.shape[1])]
