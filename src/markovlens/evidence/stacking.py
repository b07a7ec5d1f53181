"""The same steps seen with the last few observations, actions and rewards, side by side."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from markovlens.evidence.columns import Column, Made, beside, lag
from markovlens.evidence.discrete import Discrete, numbered, numbered_pay, visited
from markovlens.evidence.finding import TooThin
from markovlens.evidence.trajectories import Trajectories


@dataclass(frozen=True)
class Stack:
    """What to see at once: the last so many observations, actions and rewards."""

    frames: int = 1
    actions: int = 0
    rewards: int = 0

    @property
    def reach(self) -> int:
        """Steps from the start of an episode until the stack is full."""
        return max(self.frames - 1, self.actions, self.rewards)

    def holds(self, other: "Stack") -> bool:
        """Whether everything in the other one is in this too."""
        return (
            self.frames >= other.frames
            and self.actions >= other.actions
            and self.rewards >= other.rewards
        )

    def vectors(self, data: Trajectories) -> tuple[Made, Made]:
        """`[o_t, o_{t-1}, …, a_{t-1}, …, r_{t-1}, …]` of every step, and of what follows.

        What lies before the start of an episode is filled with -1.
        """
        time = data.time
        frames: list[Column] = [lag(data.observation, time, j) for j in range(self.frames)]
        now, then = frames, [data.next_observation, *frames[:-1]]
        behind = [(data.action, j) for j in range(1, self.actions + 1)]
        behind += [(data.reward, j) for j in range(1, self.rewards + 1)]
        for column, steps in behind:
            now, then = [*now, lag(column, time, steps)], [*then, lag(column, time, steps - 1)]
        return beside(now), beside(then)

    def numbers(self, data: Discrete) -> Discrete:
        """The same for indices: every distinct stack becomes one.

        They are numbered in the order of their vectors, but one frame after the other, so that
        only a few numbers are held for every step.
        """
        if self.reach == 0:
            return data
        going = np.flatnonzero(data.next_observation < data.n_observations)
        time = np.arange(len(data.reward)) - np.repeat(data.start, data.length)

        def earlier(values: Int[np.ndarray, "N"], steps: int) -> Int[np.ndarray, "N"]:
            """From 1 on; 0 before the start of the episode."""
            return np.where(time >= steps, np.roll(values, steps) + 1, 0)

        index = np.concatenate([data.observation, data.next_observation[going]])
        behind = [(data.observation, data.n_observations, j) for j in range(1, self.frames)]
        behind += [(data.action, data.n_actions, j) for j in range(1, self.actions + 1)]
        if self.rewards:
            paid, reward = numbered_pay(data.reward)
            if not visited(len(paid), len(reward)):
                raise TooThin("rewards take too many values to be counted")
            behind += [(reward, len(paid), j) for j in range(1, self.rewards + 1)]
        for values, kinds, steps in behind:
            now, then = earlier(values, steps), earlier(values, steps - 1)[going]
            _, index = numbered(index * (kinds + 1) + np.concatenate([now, then]))
        n = int(index.max()) + 1
        following = np.full_like(data.next_observation, n)
        following[going] = index[len(data.reward) :]
        return replace(
            data,
            observation=index[: len(data.reward)],
            next_observation=following,
            n_observations=n,
            names=tuple(str(i) for i in range(n)),
        )


PRESENT = Stack()  # the observation alone
