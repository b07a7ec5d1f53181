"""Writing a POMDP down as rules: what each action does in each state, and what is seen there."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import ArrayLike

from markovlens.pomdp.model import Pomdp

Chances = str | Mapping[str, float]  # one certain outcome, or the probability of each


class Rules:
    """Collects the rules of a POMDP by name, then makes the arrays.

    >>> rules = Rules(["off", "on"], ["wait", "press"], ["dark", "light"])
    >>> for state, view, other in (("off", "dark", "on"), ("on", "light", "off")):
    ...     rules.see(state, view)
    ...     rules.act(state, "wait", state)
    ...     rules.act(state, "press", {other: 0.9, state: 0.1}, reward=-1.0)
    >>> rules.pomdp(start="off", gamma=0.9)
    Pomdp(2 states, 2 actions, 2 observations, gamma=0.9)
    """

    def __init__(self, states: Sequence[str], actions: Sequence[str], observations: Sequence[str]):
        self.states, self.actions = list(states), list(actions)
        self.observations = list(observations)
        n_states, n_actions = len(self.states), len(self.actions)
        self.T = np.zeros((n_actions, n_states, n_states))
        self.R = np.zeros((n_states, n_actions))
        self.Phi = np.zeros((n_states, len(self.observations)))

    def act(self, state: str, action: str, to: Chances, reward: float = 0.0) -> None:
        """In `state`, `action` pays `reward` and leads `to` a state, or to each with its chance."""
        s, a = self.states.index(state), self.actions.index(action)
        self.T[a, s] = row(to, self.states)
        self.R[s, a] = reward

    def see(self, state: str, seen: Chances) -> None:
        """In `state` the agent sees one observation, or each with its chance."""
        self.Phi[self.states.index(state)] = row(seen, self.observations)

    def end(self, state: str, seen: Chances) -> None:
        """The episode is over in `state`: nothing leads out of it and nothing is paid there."""
        for action in self.actions:
            self.act(state, action, state)
        self.see(state, seen)

    def pomdp(self, start: Chances, gamma: ArrayLike) -> Pomdp:
        p0 = row(start, self.states)
        names = self.states, self.actions, self.observations
        return Pomdp(self.T, self.R, self.Phi, p0, gamma, *names)


def row(chances: Chances, names: Sequence[str]) -> np.ndarray:
    """Probabilities in the order of `names`."""
    if isinstance(chances, str):
        chances = {chances: 1.0}
    result = np.zeros(len(names))
    for name, probability in chances.items():
        result[names.index(name)] += probability
    return result


def uniform(names: Sequence[str]) -> dict[str, float]:
    return {name: 1.0 / len(names) for name in names}
