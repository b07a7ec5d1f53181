"""PocMan once more, in plain Python on the drawing itself: sets of cells, no tables, no JAX."""

UP, RIGHT, DOWN, LEFT = (-1, 0), (0, 1), (1, 0), (0, -1)
DIRECTIONS = [UP, RIGHT, DOWN, LEFT]
DELAY = {1: 1, 2: 5, 3: 10, 4: 15}


class PlainPocMan:
    def __init__(self, text):
        self.rows = text.split()
        self.height, self.width = len(self.rows), len(self.rows[0])
        cells = {(r, c): ch for r, row in enumerate(self.rows) for c, ch in enumerate(row)}
        find = lambda chars: [cell for cell, ch in cells.items() if ch in chars]  # noqa: E731
        self.pellets, self.pills = set(find(".s")), set(find("o"))
        (self.agent,) = find("P")
        self.heading = LEFT
        self.numbers = [n for n in (1, 2, 3, 4) if find(str(n))]
        self.home = {n: find(str(n))[0] for n in self.numbers}
        self.corner = dict(zip(self.numbers, find("s"), strict=True))
        self.ghost = dict(self.home)
        self.direction = dict.fromkeys(self.numbers)
        self.power = self.time = 0
        self.paid = set()

    def beyond(self, cell, direction):
        """The cell one step that way on the closed grid, or None for a wall."""
        row = (cell[0] + direction[0]) % self.height
        column = (cell[1] + direction[1]) % self.width
        return None if self.rows[row][column] == "#" else (row, column)

    def step(self, action, orders):
        """Returns reward and whether the game is over; `orders[i]` ranks ghost i's ties."""
        before, reward = self.agent, 0
        to = self.beyond(before, DIRECTIONS[action])
        if to is not None:
            self.agent, self.heading = to, DIRECTIONS[action]
        frightened = self.power > 0
        self.power = max(0, self.power - 1)
        if self.agent in self.pellets:
            self.pellets.remove(self.agent)
            reward += 10
        if self.agent in self.pills:
            self.pills.remove(self.agent)
            reward += 20
            frightened, self.power = True, 30

        caught = False
        for n, order in zip(self.numbers, orders, strict=True):
            was = self.ghost[n]
            if self.time >= DELAY[n]:
                self.move(n, frightened, order)
            met = self.ghost[n] == self.agent or (self.ghost[n] == before and was == self.agent)
            if met and frightened:
                self.ghost[n], self.direction[n] = self.home[n], None
                reward += 0 if n in self.paid else 200
                self.paid.add(n)
            elif met:
                caught = True
        self.time += 1
        return reward, caught or not self.pellets

    def move(self, n, frightened, order):
        here, direction = self.ghost[n], self.direction[n]
        open_ways = [d for d in DIRECTIONS if self.beyond(here, d) is not None]
        back = None if direction is None else (-direction[0], -direction[1])
        ways = [d for d in open_ways if d != back] or open_ways
        target = self.corner[n] if frightened else self.target(n)

        def rank(way):
            cell = self.beyond(here, way)
            squared = (cell[0] - target[0]) ** 2 + (cell[1] - target[1]) ** 2
            return squared, order[DIRECTIONS.index(way)]

        self.direction[n] = min(ways, key=rank)
        self.ghost[n] = self.beyond(here, self.direction[n])

    def target(self, n):
        (r, c), (own_r, own_c) = self.agent, self.ghost[n]
        ahead = (r + 4 * self.heading[0], c + 4 * self.heading[1])
        if n == 2:
            return ahead
        if n == 3:
            to_agent, to_ahead = (r - own_r, c - own_c), (ahead[0] - own_r, ahead[1] - own_c)
            return (own_r + to_agent[0] + to_ahead[0], own_c + to_agent[1] + to_ahead[1])
        if n == 4 and (r - own_r) ** 2 + (c - own_c) ** 2 <= 64:
            return self.corner[4]
        return self.agent

    def observation(self):
        walls = [self.beyond(self.agent, d) is None for d in DIRECTIONS]
        ghosts = set(self.ghost.values())
        smells_food = any(self.near(cell) for cell in self.pellets | self.pills)
        smells_ghost = any(self.near(cell) for cell in ghosts)
        sights = [bool(self.look(d) & ghosts) for d in DIRECTIONS]
        return [*walls, smells_food, smells_ghost, *sights, self.power > 0]

    def near(self, cell):
        rows, columns = abs(cell[0] - self.agent[0]), abs(cell[1] - self.agent[1])
        return min(rows, self.height - rows) + min(columns, self.width - columns) <= 2

    def look(self, direction):
        seen, cell = set(), self.beyond(self.agent, direction)
        while cell is not None and cell != self.agent:
            seen.add(cell)
            cell = self.beyond(cell, direction)
        return seen
