"""A PocMan maze: read from text, checked, and turned into look-up tables.

Characters:

    #    wall                        P      where the agent starts (once)
    .    free, with a pellet         1-4    where a ghost starts (each at most once)
    o    free, with a power pill     s      a ghost's scatter corner, free, with a pellet
    _    free, with nothing in it

The scatter corners belong to the ghosts in reading order, so there are as many
as ghosts. The grid closes on itself: whoever leaves through an opening in one
edge comes in at the same place in the opposite edge, if that is open too.

Free cells are numbered in reading order, directions clockwise from up (`MOVES`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""(row, column) of one step up, right, down, left: the order of actions and of observation bits."""

UP, RIGHT, DOWN, LEFT = range(4)
NO_DIRECTION = 4
"""The direction of a ghost that has not moved since it was put on its start cell."""

DEFAULT_MAZE = """
###################
#..s...........s..#
#.##.###.#.###.##.#
#o...............o#
#.##.#.#####.#.##.#
#....#...#...#....#
####.###.#.###.####
####.#..1.2..#.####
####.#.#...#.#.####
.....#.#3.4#.#.....
####.#.#####.#.####
####.#.......#.####
####.#.#####.#.####
#.................#
#.##.###.#.###.##.#
#o.#.s...P...s.#.o#
##.#.#.#####.#.#.##
#....#...#...#....#
#.######.#.######.#
#.................#
###################
"""

_CHARACTERS = "#.o_Ps1234"
_LARGEST_SIDE = 1000  # squared distances times 16 stay within 32 bits


class Maze(NamedTuple):
    """What the text says. C free cells, G ghosts."""

    height: int
    width: int
    position: NDArray[np.int32]  # [C, 2], row and column of each cell
    neighbour: NDArray[np.int32]  # [C, 4], the cell one step that way; -1 is a wall
    start: int
    ghost_numbers: tuple[int, ...]  # [G], each of 1-4
    ghost_starts: tuple[int, ...]  # [G], cells
    corners: tuple[int, ...]  # [G], cells
    pellets: NDArray[np.bool_]  # [C]
    pills: NDArray[np.bool_]  # [C]

    @property
    def n_cells(self) -> int:
        return len(self.position)


def read_maze(text: str) -> Maze:
    """The maze drawn in `text`; white space around lines and empty lines are ignored."""
    rows = [line.strip() for line in text.splitlines() if line.strip()]
    _check_drawing(rows)
    height, width = len(rows), len(rows[0])
    drawn = "".join(rows)
    number = {place: cell for cell, place in enumerate(i for i, c in enumerate(drawn) if c != "#")}
    characters = [drawn[place] for place in number]
    position = np.array([divmod(place, width) for place in number], dtype=np.int32)

    around = [
        [(r + dr) % height * width + (c + dc) % width for dr, dc in MOVES] for r, c in position
    ]
    neighbour = np.array([[number.get(p, -1) for p in places] for places in around], dtype=np.int32)

    ghosts = [n for n in range(1, 5) if str(n) in characters]
    maze = Maze(
        height,
        width,
        position,
        neighbour,
        start=characters.index("P"),
        ghost_numbers=tuple(ghosts),
        ghost_starts=tuple(characters.index(str(n)) for n in ghosts),
        corners=tuple(cell for cell, c in enumerate(characters) if c == "s"),
        pellets=np.array([c in ".s" for c in characters]),
        pills=np.array([c == "o" for c in characters]),
    )
    _check_reachable(maze)
    return maze


def _check_drawing(rows: list[str]) -> None:
    if not rows:
        raise ValueError("the maze is empty; draw it with '#' for walls and '.' for pellets")
    width = len(rows[0])
    for i, row in enumerate(rows, start=1):
        if len(row) != width:
            raise ValueError(
                f"maze row {i} has {len(row)} characters, but row 1 has {width}; "
                "all rows must be equally long"
            )
        for j, c in enumerate(row, start=1):
            if c not in _CHARACTERS:
                raise ValueError(
                    f"maze row {i}, column {j}: unknown character {c!r} (known: {_CHARACTERS})"
                )
    if max(len(rows), width) > _LARGEST_SIDE:
        raise ValueError(
            f"the maze has {len(rows)} rows of {width}; at most {_LARGEST_SIDE} fit each way"
        )
    drawn = "".join(rows)
    if drawn.count("P") != 1:
        raise ValueError(f"the maze has {drawn.count('P')} starts 'P'; it needs exactly one")
    for ghost in "1234":
        if drawn.count(ghost) > 1:
            raise ValueError(f"ghost {ghost} starts at {drawn.count(ghost)} places; give it one")
    n_ghosts = sum(ghost in drawn for ghost in "1234")
    if n_ghosts == 0:
        raise ValueError("the maze has no ghost; mark where ghosts start with 1, 2, 3, 4")
    if drawn.count("s") != n_ghosts:
        raise ValueError(
            f"the maze has {n_ghosts} ghosts but {drawn.count('s')} scatter corners 's'; "
            "each ghost needs its own"
        )


def _check_reachable(maze: Maze) -> None:
    if (maze.neighbour[maze.start] < 0).all():
        raise ValueError("the start 'P' has walls on all four sides: there is no way out")
    lost = np.flatnonzero(distances(maze, maze.start) < 0)
    if lost.size:
        row, column = maze.position[lost[0]] + 1
        raise ValueError(
            f"maze row {row}, column {column} cannot be reached from the start 'P' "
            f"({lost.size} such cells); open a way or fill it with '#'"
        )


def distances(maze: Maze, source: int) -> NDArray[np.int32]:
    """Steps from `source` to each cell, [C]; -1 where there is no way."""
    steps = np.full(maze.n_cells, -1, dtype=np.int32)
    steps[source] = 0
    frontier = [source]
    while frontier:
        cells = {int(c) for f in frontier for c in maze.neighbour[f] if c >= 0 and steps[c] < 0}
        steps[list(cells)] = steps[frontier[0]] + 1
        frontier = list(cells)
    return steps


def lines_of_sight(maze: Maze) -> NDArray[np.bool_]:
    """Whether the second cell is seen from the first, looking that way: [4, C, C].

    A look goes straight on until a wall, through openings in the edge too, and
    ends when it comes back to where it began. One's own cell is not seen.
    """
    cells = np.arange(maze.n_cells)
    seen = np.zeros((4, maze.n_cells, maze.n_cells), dtype=bool)
    for direction in range(4):
        at = maze.neighbour[:, direction]
        while (going := (at >= 0) & (at != cells)).any():
            seen[direction, cells[going], at[going]] = True
            at = np.where(going, maze.neighbour[at, direction], -1)
    return seen


def grid_distances(maze: Maze) -> NDArray[np.int32]:
    """Manhattan distance between cells on the closed grid, through walls: [C, C]."""
    apart = np.abs(maze.position[:, None] - maze.position[None])
    size = np.array([maze.height, maze.width])
    return np.minimum(apart, size - apart).sum(-1, dtype=np.int32)


def ghost_ways(maze: Maze) -> NDArray[np.int32]:
    """Where a ghost may go: cell, direction it came in -> by direction, the next cell or -1.

    [C, 5, 4]. A ghost never turns back, except in a dead end, where there is no other way.
    """
    ways = np.repeat(maze.neighbour[:, None], 5, axis=1)
    for direction in range(4):
        ways[:, direction, (direction + 2) % 4] = -1
    stuck = (ways < 0).all(-1, keepdims=True)
    return np.where(stuck, maze.neighbour[:, None], ways)


def shortest_game(maze: Maze, delays: tuple[int, ...]) -> int:
    """No game on this maze can be over in fewer steps; `delays[i]` is when ghost i starts to move.

    To meet, agent and ghost must together walk the way between their starts. To
    clear the maze, every pellet needs a step.
    """
    reach = distances(maze, maze.start)
    shortest = max(1, int(maze.pellets.sum()))
    for start, delay in zip(maze.ghost_starts, delays, strict=True):
        way = int(reach[start])
        meet = next(t for t in range(1, way + 1) if t + max(0, t - delay) >= way)
        shortest = min(shortest, meet)
    return shortest
