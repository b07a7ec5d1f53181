"""From observations that depend on the action to observations that depend on the state alone."""

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Float

from markovlens.pomdp.model import Pomdp, never_left

SAME_ROW = 1e-12


def split_on_action(
    T: Float[np.ndarray, "A S S"],
    R: Float[np.ndarray, "S A"],
    O: Float[np.ndarray, "A S O"],  # noqa: E741
    p0: Float[np.ndarray, "S"],
    gamma: float,
    states: Sequence[str],
    actions: Sequence[str],
    observations: Sequence[str],
) -> Pomdp:
    """An equivalent POMDP whose observation depends on the state alone.

    `O[a, s', o]` is the probability of seeing `o` after action `a` led to `s'`. Where those rows
    differ between the actions that can lead to `s'`, the state is split: one copy for each group
    of actions that give the same row, and one copy for the start, which emits the new observation
    `initial` (nothing has been done yet, so nothing has been seen). Actions move between copies;
    rewards are those of the state that was split. If no row differs, nothing is split and the
    first observation is drawn from the start state's row.

    At an end (never left, paying nothing) the copy does not change: what was seen on arrival is
    seen for ever.

    >>> listen_or_open = [[[0.85, 0.15], [0.15, 0.85]], [[0.5, 0.5], [0.5, 0.5]]]
    >>> T = np.array([[[1, 0], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> split_on_action(T, np.zeros((2, 2)), np.array(listen_or_open), np.array([0.5, 0.5]), 0.9,
    ...                 ["left", "right"], ["listen", "open"], ["hear-left", "hear-right"])
    Pomdp(6 states, 2 actions, 3 observations, gamma=0.9)
    """
    n_actions, n_states = O.shape[:2]
    arrives = np.asarray((T > 0.0).any(axis=1))
    if not _depends_on_action(O, arrives):
        first = np.where(arrives.any(axis=0), arrives.argmax(axis=0), 0)
        Phi = O[first, np.arange(n_states)]
        return Pomdp(T, R, Phi, p0, gamma, states, actions, observations)

    over = never_left(T) & (R == 0.0).all(axis=1)
    origin: list[int] = []  # the state each copy was made from
    rows: list[np.ndarray] = []
    names: dict[str, None] = {}  # a set that keeps its order
    copy_after = np.full((n_actions, n_states), -1)  # the copy entered when a leads to s'
    copy_at_start = np.full(n_states, -1)

    def add_copy(state: int, row: np.ndarray, name: str) -> int:
        origin.append(state)
        rows.append(row)
        names[_unused(name, names)] = None
        return len(origin) - 1

    for s in np.flatnonzero(p0 > 0.0).tolist():
        seen_nothing = np.append(np.zeros(O.shape[2]), 1.0)
        copy_at_start[s] = add_copy(s, seen_nothing, f"{states[s]}-initial")
    for s in range(n_states):
        groups = _groups_of_equal_rows(O[:, s], np.flatnonzero(arrives[:, s]))
        for group in groups:
            suffix = "-after-" + "-or-".join(actions[a] for a in group)
            name = states[s] if len(groups) == 1 else states[s] + suffix
            copy_after[group, s] = add_copy(s, np.append(O[group[0], s], 0.0), name)

    n_copies = len(origin)
    T_split = np.zeros((n_actions, n_copies, n_copies))
    for copy, s in enumerate(origin):
        for a in range(n_actions):
            if over[s]:
                T_split[a, copy, copy] = 1.0
            else:
                to = np.flatnonzero(T[a, s])
                T_split[a, copy, copy_after[a, to]] = T[a, s, to]
    p0_split = np.zeros(n_copies)
    starts = copy_at_start >= 0
    p0_split[copy_at_start[starts]] = p0[starts]
    observations = [*observations, _unused("initial", observations)]
    return Pomdp(
        T_split, R[origin], np.array(rows), p0_split, gamma, [*names], actions, observations
    )


def _depends_on_action(O: np.ndarray, arrives: np.ndarray) -> bool:  # noqa: E741
    """Whether two actions that lead to one state differ in what is seen there.

    A state that nothing leads to is judged by all its rows: it may be where the episode starts.
    """
    counts = arrives | ~arrives.any(axis=0, keepdims=True)
    low = np.where(counts[:, :, None], O, np.inf).min(axis=0)
    high = np.where(counts[:, :, None], O, -np.inf).max(axis=0)
    return bool((high - low > SAME_ROW).any())


def _groups_of_equal_rows(rows: np.ndarray, actions: np.ndarray) -> list[list[int]]:
    groups: list[list[int]] = []
    for a in actions:
        for group in groups:
            if np.abs(rows[group[0]] - rows[a]).max() <= SAME_ROW:
                group.append(int(a))
                break
        else:
            groups.append([int(a)])
    return groups


def _unused(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name
