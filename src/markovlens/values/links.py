"""Which states can follow which, and which of them can be eliminated from a system together.

All of it is known before any policy is: NumPy, from the zeros of T and Φ.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from markovlens.pomdp.model import Pomdp

# For each node (a state, or an observation) those that can follow it, itself included. A program
# is compiled for the links it knows, so they are hashable.
Links = tuple[tuple[int, ...], ...]


# Eliminating fewer nodes, or a smaller share of them, costs more than it saves.
FEWEST = 2
SMALLEST_SHARE = 1 / 3


class ChainLinks(NamedTuple):
    """The links of a POMDP, whatever the policy and the memory; None to solve a dense matrix."""

    states: Links | None
    observations: Links | None


DENSE = ChainLinks(None, None)


class Places(NamedTuple):
    """Where the blocks of a sparse matrix are, and which blocks of A they were."""

    row: Int[np.ndarray, "e"]
    column: Int[np.ndarray, "e"]
    block: Int[np.ndarray, "e"]


class Plan(NamedTuple):
    """How to eliminate the nodes I and keep the others, R: A = [D E; F C], S = C - F D⁻¹ E.

    F D⁻¹ E is a sum over paths R → I → R, each a block of F times a block of D⁻¹ E.
    """

    eliminated: Int[np.ndarray, "I"]
    kept: Int[np.ndarray, "R"]
    order: Int[np.ndarray, "N"]  # where each node is in (eliminated, kept)
    diagonal: Int[np.ndarray, "I"]  # the blocks of D
    right: Places  # E
    left: Places  # F
    rest: Links  # of S
    direct: Int[np.ndarray, "e"]  # for each link of S its block of A, -1 if it had none
    path_left: Int[np.ndarray, "p"]  # for each path its block of F,
    path_right: Int[np.ndarray, "p"]  # that of D⁻¹ E,
    path_link: Int[np.ndarray, "p"]  # and its link of S


def links_of_pomdp(pomdp: Pomdp) -> ChainLinks:
    """s → s' if some action leads there; o → o' if they are seen in such states.

    >>> import markovlens as ml
    >>> links_of_pomdp(ml.library.load("tmaze")).observations
    ((0, 2), (1, 2), (0, 1, 2, 3), (2, 3, 4), (4,))
    """
    follows = (np.asarray(pomdp.T) != 0.0).any(axis=0)
    seen = np.asarray(pomdp.Phi) != 0.0
    states, observations = links_of(follows), links_of(seen.T @ follows @ seen)
    return ChainLinks(
        states if elimination_pays(states) else None,
        observations if elimination_pays(observations) else None,
    )


def links_of(follows: Bool[np.ndarray, "N N"]) -> Links:
    """The links of a matrix that says whether node j can follow node i."""
    itself = np.eye(len(follows), dtype=bool)
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in follows | itself)


def pairs(links: Links) -> tuple[Int[np.ndarray, "E"], Int[np.ndarray, "E"]]:
    """All links, as an array of nodes and one of those that follow."""
    nodes = np.repeat(np.arange(len(links)), [len(following) for following in links])
    return nodes, np.concatenate(links)


def elimination_pays(links: Links) -> bool:
    n_eliminated = len(plan(links).eliminated)
    return n_eliminated >= max(FEWEST, SMALLEST_SHARE * len(links))


@cache
def plan(links: Links) -> Plan:
    """Eliminate as many nodes as can go at once, but not the last one."""
    rows, columns = pairs(links)
    eliminated = np.array(independent(links)[: len(links) - 1], dtype=int)
    kept = np.setdiff1d(np.arange(len(links)), eliminated)
    order = np.argsort(np.concatenate([eliminated, kept]))
    goes = np.isin(np.arange(len(links)), eliminated)
    place = np.where(goes, order, order - len(eliminated))

    def places(of: Bool[np.ndarray, "E"]) -> Places:
        return Places(place[rows[of]], place[columns[of]], np.flatnonzero(of))

    right, left = places(goes[rows] & ~goes[columns]), places(~goes[rows] & goes[columns])
    stays = places(~goes[rows] & ~goes[columns])
    path_left, path_right = np.nonzero(left.column[:, None] == right.row)
    path = left.row[path_left], right.column[path_right]
    direct = np.full((len(kept), len(kept)), -1)
    direct[stays.row, stays.column] = stays.block
    follows = direct >= 0
    follows[path] = True
    number = np.cumsum(follows).reshape(follows.shape) - 1
    return Plan(
        eliminated=eliminated,
        kept=kept,
        order=order,
        diagonal=np.flatnonzero(goes[rows] & (rows == columns)),
        right=right,
        left=left,
        rest=links_of(follows),
        direct=direct[follows],
        path_left=path_left,
        path_right=path_right,
        path_link=number[path],
    )


def independent(links: Links) -> list[int]:
    """Nodes no two of which are linked: the one with the fewest links first, and so on.

    >>> independent(((0, 1), (0, 1, 2), (1, 2)))  # a corridor of three
    [0, 2]
    """
    near: list[set[int]] = [set() for _ in links]
    for node, other in zip(*pairs(links), strict=True):
        near[node].add(int(other))
        near[other].add(int(node))
    free, found = set(range(len(links))), []
    while free:
        node = min(free, key=lambda node: (len(near[node] & free), node))
        found.append(node)
        free -= near[node]
    return sorted(found)
