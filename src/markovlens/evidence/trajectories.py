"""Logged experience: episodes of observation, action, reward, laid end to end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from markovlens.names import unknown_name

ARRAYS = ("observation", "action", "reward", "terminated", "truncated", "next_observation")
OBSERVATION = ("observation", "observations", "obs")  # what a column of observations is called
ROUNDING = 1e-3  # of an entry's range: what two records of the same observation may differ by
PRECISION = 1e-6  # the same, of its size


@dataclass(frozen=True)
class Trajectories:
    """N steps of one or more episodes, in order.

    Step t saw `observation[t]`, took `action[t]`, was paid `reward[t]` and then saw
    `next_observation[t]`. An episode ends where `terminated` (the process is over, nothing more
    will be paid) or `truncated` (we only stopped watching) is true; the last step of all counts as
    truncated if it is neither.

    `names` are what observations are called, by number; for vectors, what their entries are called.

    Inside an episode `next_observation[t]` must be `observation[t + 1]`, but for rounding. Without
    `next_observation`, the next row of the same episode is used, and the last step of a truncated
    episode, whose outcome was not written down, is dropped.

    >>> two = Trajectories(observation=[0, 1, 0], action=[0, 0, 0], reward=[1.0, 2.0, 5.0],
    ...                    terminated=[False, True, True], truncated=[False] * 3)
    >>> two
    Trajectories(3 steps, 2 episodes)
    """

    observation: np.ndarray  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: Float[np.ndarray, "N"]
    terminated: Bool[np.ndarray, "N"]
    truncated: Bool[np.ndarray, "N"]
    next_observation: np.ndarray  # [N, ...]
    names: tuple[str, ...]
    start: Int[np.ndarray, "E"]  # the row each episode begins at

    def __init__(
        self,
        observation: object,
        action: object,
        reward: object,
        terminated: object,
        truncated: object | None = None,
        next_observation: object | None = None,
        names: Sequence[str] = (),
    ):
        given = {
            "observation": _array("observation", observation),
            "action": _array("action", action),
            "reward": one_each(_array("reward", reward)),
            "terminated": one_each(_array("terminated", terminated)),
        }
        n = len(given["reward"])
        given["truncated"] = (
            np.zeros(n, dtype=bool)
            if truncated is None
            else one_each(_array("truncated", truncated))
        )
        if next_observation is not None:
            given["next_observation"] = _array("next_observation", next_observation)
            given["next_observation"] = _closed(**given)
        _check(given, n)
        arrays = _finish(given)
        for name, value in arrays.items():
            object.__setattr__(self, name, value)
        checked = _checked_names(names, self.observation, self.next_observation)
        object.__setattr__(self, "names", checked)
        ends = np.flatnonzero(self.terminated | self.truncated)
        object.__setattr__(self, "start", np.concatenate([[0], ends[:-1] + 1]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def n_episodes(self) -> int:
        return len(self.start)

    @property
    def length(self) -> Int[np.ndarray, "E"]:
        """Steps in each episode."""
        return np.diff(np.append(self.start, len(self)))

    @property
    def episode(self) -> Int[np.ndarray, "N"]:
        """The episode each step belongs to."""
        return np.repeat(np.arange(self.n_episodes), self.length)

    @property
    def time(self) -> Int[np.ndarray, "N"]:
        """Steps since the start of the episode."""
        return np.arange(len(self)) - np.repeat(self.start, self.length)

    def __repr__(self) -> str:
        episodes = f"{self.n_episodes} episode{'' if self.n_episodes == 1 else 's'}"
        return f"Trajectories({len(self)} steps, {episodes})"

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns that the constructor takes, by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    def replace(self, **columns: np.ndarray) -> "Trajectories":
        """The same steps with other columns."""
        return Trajectories(**self.arrays() | columns, names=self.names)

    def with_observations(
        self, observation: np.ndarray, following: np.ndarray, names: Sequence[str] = ()
    ) -> "Trajectories":
        """The same steps, seen through other eyes."""
        seen = {"observation": observation, "next_observation": following}
        return Trajectories(**self.arrays() | seen, names=names)

    @property
    def entry_names(self) -> tuple[str, ...]:
        """What the entries of a flattened observation are called: by default, by their place."""
        flat = self.observation.reshape(len(self), -1)
        single = self.observation.ndim == 1
        if self.names and not single:
            return self.names
        return ("observation",) if single else tuple(f"entry {i}" for i in range(flat.shape[1]))

    def entry(self, name: str) -> int:
        """The place of an entry of the observation, by its name, its column's, or its number."""
        known = self.entry_names
        columns = [name.removeprefix(f"{kind}_") for kind in OBSERVATION]
        for called in (name, *columns):
            for entry in (called, f"entry {called}"):
                if entry in known:
                    return known.index(entry)
        by_number = any(entry.startswith("entry ") for entry in self.names)  # which is no place
        if name.isdecimal() and not by_number:
            return int(name)
        raise unknown_name("entry of the observation", name, known)

    def hide(self, components: Sequence[int]) -> "Trajectories":
        """Without some components of a vector observation."""
        if self.observation.ndim != 2:
            raise ValueError(
                f"a mask needs vector observations [steps, components], but these have shape "
                f"{list(self.observation.shape)}"
            )
        size = self.observation.shape[1]
        outside = [i for i in components if not 0 <= i < size]
        if outside:
            raise ValueError(
                f"the mask names component {outside[0]}, but observations have components 0 to "
                f"{size - 1}"
            )
        keep = [i for i in range(size) if i not in set(components)]
        if not keep:
            raise ValueError("the mask hides every component of the observation; keep one")
        names = [self.entry_names[i] for i in keep]
        return self.with_observations(
            self.observation[:, keep], self.next_observation[:, keep], names
        )

    def rows(self, episodes: Int[np.ndarray, "e"]) -> Int[np.ndarray, "n"]:
        """The steps of some of the episodes, in the order given."""
        start, length = self.start[episodes], self.length[episodes]
        begin = np.cumsum(length) - length
        return np.repeat(start - begin, length) + np.arange(length.sum())

    def take(self, episodes: Int[np.ndarray, "e"]) -> "Trajectories":
        """Some of the episodes, in the order given."""
        rows = self.rows(episodes)
        return self.replace(**{name: value[rows] for name, value in self.arrays().items()})

    def draw_episodes(self, steps: int, rng: np.random.Generator) -> Int[np.ndarray, "e"]:
        """Random episodes, in order, as many as there are in that many steps; at least one."""
        if len(self) <= steps:
            return np.arange(self.n_episodes)
        drawn = rng.permutation(self.n_episodes)
        n = int(np.searchsorted(np.cumsum(self.length[drawn]), steps, side="right"))
        return np.sort(drawn[: max(1, n)])

    def portions(self, steps: int) -> Iterator[slice]:
        """All steps in order, whole episodes of about so many at a time; at least one of them."""
        ends, begin = np.append(self.start[1:], len(self)), 0
        while begin < len(self):
            within = int(np.searchsorted(ends, begin + steps, side="right"))
            after = int(np.searchsorted(ends, begin, side="right"))
            end = int(ends[max(within - 1, after)])
            yield slice(begin, end)
            begin = end

    def cut(self, longest: int) -> "Trajectories":
        """Episodes longer than `longest` steps in equal pieces, each ending in a truncation."""
        length = np.repeat(self.length, self.length)
        pieces = -(-length // longest)
        size = -(-length // pieces)
        ends_piece = ((self.time + 1) % size == 0) & ~self.terminated
        return self.replace(truncated=self.truncated | ends_piece)


def _array(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} is ragged: its entries have different shapes; every step needs an "
            f"entry of the same shape"
        ) from None
    if array.dtype.kind in "OUS":
        first = next((x for x in array.ravel() if not _is_number(x)), array.ravel()[0])
        kinds = name in ("observation", "next_observation", "action")
        raise ValueError(
            f"{name} must hold numbers, of one shape for every step, got {first!r}"
            + ("; write categories as whole numbers 0, 1, 2, …" if kinds else "")
        )
    if array.ndim == 0:
        raise ValueError(f"{name} must have one entry per step, got a single value")
    return array


def one_each(column: np.ndarray) -> np.ndarray:
    """A column of shape [steps, 1] as one of shape [steps]; any other as it is."""
    return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column


def _is_number(value: Any) -> bool:
    try:
        return value is not None and bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _closed(
    observation: np.ndarray, next_observation: np.ndarray, terminated: np.ndarray, **_: np.ndarray
) -> np.ndarray:
    """Where an episode is over, what it led to is of no use, and a log may leave it open."""
    same_shape = next_observation.shape == observation.shape
    if next_observation.dtype.kind != "f" or not same_shape or not next_observation.size:
        return next_observation
    missing = ~np.isfinite(next_observation).reshape(len(next_observation), -1).all(axis=1)
    if not missing.any() or terminated.shape != missing.shape:
        return next_observation
    closed = next_observation.copy()
    over = missing & terminated.astype(bool)
    closed[over] = observation[over]
    whole = observation.dtype.kind in "biu" and not (missing & ~over).any()
    return closed.astype(observation.dtype) if whole else closed


def _check(given: Mapping[str, np.ndarray], n: int) -> None:
    if n == 0:
        raise ValueError("there are no steps in the data")
    for name, array in given.items():
        if len(array) != n:
            raise ValueError(f"{name} has {len(array)} steps but reward has {n}; they must agree")
        if name in ("reward", "terminated", "truncated") and array.ndim != 1:
            raise ValueError(f"{name} must have shape [steps], got {list(array.shape)}")
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, got {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0][0])
            raise ValueError(f"{name} at step {row} is not finite; every number must be")
    if not given["observation"].size:
        raise ValueError("observations are empty: there is nothing to see")
    for name in ("terminated", "truncated"):
        if not np.isin(given[name], (0, 1)).all():
            raise ValueError(f"{name} must hold true and false only")
    if "next_observation" in given:
        seen, following = given["observation"], given["next_observation"]
        if seen.shape != following.shape:
            raise ValueError(
                f"next_observation has shape {list(following.shape)} but observation has "
                f"{list(seen.shape)}"
            )
        ended = given["terminated"].astype(bool) | given["truncated"].astype(bool)
        _check_order(seen.reshape(n, -1), following.reshape(n, -1), ended)


def _check_order(
    seen: Shaped[np.ndarray, "N d"],
    following: Shaped[np.ndarray, "N d"],
    ended: Bool[np.ndarray, "N"],
) -> None:
    """Inside an episode, what a step led to is what the next one saw."""
    differs = (following[:-1] != seen[1:]).any(axis=1)
    broken = np.flatnonzero(differs & ~ended[:-1])
    if len(broken) and seen.dtype.kind == following.dtype.kind == "f":
        low, high = seen.min(axis=0).astype(np.float64), seen.max(axis=0).astype(np.float64)
        allowed = ROUNDING * (high - low) + PRECISION * np.maximum(np.abs(low), np.abs(high))
        apart = np.abs(following[broken] - seen[broken + 1].astype(np.float64))
        broken = broken[(apart > allowed).any(axis=1)]
    if len(broken):
        step = broken[0]
        raise ValueError(
            f"next_observation at step {step} is not the observation at step {step + 1} of the "
            f"same episode (so at {len(broken)} steps in all): rows are out of order, several "
            "environments are interleaved, or a cut is not marked; sort the rows and mark the "
            "cuts, or leave out next_observation if it was recorded differently"
        )


def _checked_names(
    names: Sequence[str], observation: np.ndarray, following: np.ndarray
) -> tuple[str, ...]:
    if not names:
        return ()
    if observation.ndim == 1:
        fits = observation.dtype.kind in "biu" and observation.min() >= 0
        if not fits or max(observation.max(), following.max(initial=0)) >= len(names):
            raise ValueError(
                f"{len(names)} names are for observations 0 to {len(names) - 1}, whole numbers; "
                f"these go from {observation.min():g} to {observation.max():g}"
            )
    elif observation[0].size != len(names):
        raise ValueError(
            f"there are {len(names)} names for observations of {observation[0].size} entries"
        )
    return tuple(names)


def _finish(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = dict(given)
    arrays["reward"] = arrays["reward"].astype(np.float64)
    arrays["terminated"] = arrays["terminated"].astype(bool)
    # An episode that is over is over, whether or not the clock ran out in the same step.
    arrays["truncated"] = arrays["truncated"].astype(bool) & ~arrays["terminated"]
    arrays["truncated"][-1] |= not arrays["terminated"][-1]
    if "next_observation" in arrays:
        return arrays
    kept = ~arrays["truncated"]
    following = np.roll(arrays["observation"], -1, axis=0)
    arrays["next_observation"] = following
    # Their last step known, cut episodes end one step earlier (or vanish if that was all).
    arrays["truncated"] = np.roll(arrays["truncated"], -1) & kept & ~arrays["terminated"]
    arrays = {name: value[kept] for name, value in arrays.items()}
    if not len(arrays["reward"]):
        raise ValueError(
            "every episode is a single truncated step without next_observation: nothing to learn"
        )
    return arrays
