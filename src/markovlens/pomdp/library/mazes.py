"""Mazes: the T-maze, the cheese maze, the 4x3 maze."""

from markovlens.pomdp.library.rules import Chances, Rules, uniform
from markovlens.pomdp.model import Pomdp

TURNS = ("up", "down")
COMPASS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}


def tmaze(corridor: int = 5, gamma: float = 0.9) -> Pomdp:
    """The T-maze: a coloured start, a corridor, a junction with the goal up or down.

    Hidden: the goal, which only the colour of the start square gives away (blue: up, red: down),
    and the place within the corridor. At the junction the right turn pays 4, the wrong one -0.1,
    and either ends the episode. Moving into a wall changes nothing.

    States, 2 * corridor + 5: the two starts, the corridor with the goal up, the corridor with the
    goal down, the two junctions, the end.

    >>> tmaze(corridor=5)
    Pomdp(15 states, 4 actions, 5 observations, gamma=0.9)
    """
    if corridor < 1:
        raise ValueError(f"corridor must be at least 1 square long, got {corridor}")
    squares = ["start", *(f"corridor{i}" for i in range(1, corridor + 1)), "junction"]
    states = [f"start-{goal}" for goal in TURNS]
    states += [f"{square}-{goal}" for goal in TURNS for square in squares[1:-1]]
    states += [*(f"junction-{goal}" for goal in TURNS), "end"]
    observations = ["blue", "red", "corridor", "junction", "end"]
    rules = Rules(states, [*TURNS, "right", "left"], observations)
    rules.end("end", "end")
    for goal, colour in zip(TURNS, ("blue", "red"), strict=True):
        for i, square in enumerate(squares):
            here = f"{square}-{goal}"
            rules.act(here, "right", f"{squares[min(i + 1, corridor + 1)]}-{goal}")
            rules.act(here, "left", f"{squares[max(i - 1, 0)]}-{goal}")
            for turn in TURNS:
                if square == "junction":
                    rules.act(here, turn, "end", reward=4.0 if turn == goal else -0.1)
                else:
                    rules.act(here, turn, here)
        rules.see(f"start-{goal}", colour)
        rules.see(f"junction-{goal}", "junction")
        for square in squares[1:-1]:
            rules.see(f"{square}-{goal}", "corridor")
    return rules.pomdp(uniform(states[:2]), gamma)


def cheese(gamma: float = 0.95, episodic: bool = False) -> Pomdp:
    """The cheese maze: the agent sees the walls around it, not where it is.

    Hidden: which of the cells with the same walls it is in (three vertical corridors, two
    horizontal ones, two dead ends). Entering the cheese pays 1. Any action then leads to one of
    the other ten cells, all equally likely, where the agent also starts; with `episodic` the
    cheese is the end.

    >>> cheese()
    Pomdp(11 states, 4 actions, 7 observations, gamma=0.95)
    """
    maze = Grid(["01234", "5 6 7", "8 c 9"])
    views = {
        ("north", "west"): "corner-nw",
        ("north", "south"): "horizontal",
        ("north",): "wall-north",
        ("north", "east"): "corner-ne",
        ("east", "west"): "vertical",
        ("south", "east", "west"): "dead-end",
    }
    cells = sorted(set(maze.cells) - {"c"})
    states = [*(f"cell{cell}" for cell in cells), "cheese"]
    name = dict(zip([*cells, "c"], states, strict=True))
    rules = Rules(states, list(COMPASS), [*views.values(), "cheese"])
    rules.end("cheese", "cheese")
    for cell in cells:
        there = {direction: maze.neighbour(cell, direction) for direction in COMPASS}
        rules.see(name[cell], views[tuple(d for d in COMPASS if there[d] == cell)])
        for direction, to in there.items():
            rules.act(name[cell], direction, name[to], reward=float(to == "c"))
    anywhere = uniform(states[:-1])
    if not episodic:
        for direction in COMPASS:
            rules.act("cheese", direction, anywhere)
    return rules.pomdp(anywhere, gamma)


def maze4x3(gamma: float = 0.95, episodic: bool = False) -> Pomdp:
    """The 4x3 maze: the agent feels walls to its west and east only, and slips sideways.

    Hidden: the row, and which of the cells with the same two walls it is in. A step goes the
    intended way with probability 0.8 and to either side with 0.1; into a wall, it stays. Acting
    in the good cell pays 1, in the bad cell -1, elsewhere -0.04. Both goals lead to one of the
    other nine cells, all equally likely, where the agent also starts; with `episodic` they lead
    to an end of its own.

    >>> maze4x3()
    Pomdp(11 states, 4 actions, 6 observations, gamma=0.95)
    """
    maze = Grid(["012+", "3 4-", "5678"])
    name = {cell: f"cell{cell}" for cell in maze.cells} | {"+": "good", "-": "bad"}
    views = {("west",): "left", ("east",): "right", (): "neither", ("east", "west"): "both"}
    end = ["end"] if episodic else []
    rules = Rules([*name.values(), *end], list(COMPASS), [*views.values(), "good", "bad", *end])
    anywhere = uniform([state for state in name.values() if state not in ("good", "bad")])
    after_goal: Chances = "end" if episodic else anywhere
    if episodic:
        rules.end("end", "end")
    for cell, here in name.items():
        if here in ("good", "bad"):
            rules.see(here, here)
        else:
            felt = (side for side in ("east", "west") if maze.neighbour(cell, side) == cell)
            rules.see(here, views[tuple(felt)])
        for direction, (down, right) in COMPASS.items():
            if here in ("good", "bad"):
                rules.act(here, direction, after_goal, reward=1.0 if here == "good" else -1.0)
                continue
            chances = dict.fromkeys(name.values(), 0.0)
            for way, (way_down, way_right) in COMPASS.items():
                ahead = down * way_down + right * way_right  # 1 ahead, 0 sideways, -1 back
                chances[name[maze.neighbour(cell, way)]] += {1: 0.8, 0: 0.1, -1: 0.0}[ahead]
            rules.act(here, direction, chances, reward=-0.04)
    return rules.pomdp(anywhere, gamma)


class Grid:
    """A drawn maze: one character names a cell, a blank is a wall.

    >>> Grid(["ab", "c "]).neighbour("a", "south")
    'c'
    """

    def __init__(self, drawing: list[str]):
        self.cells = {
            cell: (i, j)
            for i, line in enumerate(drawing)
            for j, cell in enumerate(line)
            if cell != " "
        }
        self._at = {place: cell for cell, place in self.cells.items()}

    def neighbour(self, cell: str, direction: str) -> str:
        """The cell one step away, or the same cell if there is a wall."""
        (i, j), (down, right) = self.cells[cell], COMPASS[direction]
        return self._at.get((i + down, j + right), cell)
