"""Battleship: rules by hand, placement against exact enumeration, a second implementation."""

import operator
from collections import Counter
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from markovlens.envs import bits
from markovlens.envs.battleship import Battleship, BattleshipState


def state_of(env: Battleship, ships: set[int], shots: set[int] = frozenset()) -> BattleshipState:
    def words(cells):
        return jnp.asarray(bits.pack(np.isin(np.arange(env.n_cells), list(cells))))

    return BattleshipState(words(ships), words(shots))


def lines(rows: int, columns: int, length: int) -> list[frozenset[tuple[int, int]]]:
    """Every straight line of that many cells, from its definition."""
    board = {(r, c) for r in range(rows) for c in range(columns)}
    found = set()
    for r, c in board:
        for down, right in ((0, 1), (1, 0)):
            line = frozenset((r + i * down, c + i * right) for i in range(length))
            if line <= board:
                found.add(line)
    return sorted(found, key=sorted)


def fleet_probabilities(rows: int, columns: int, fleet: tuple[int, ...]) -> dict:
    """Pr(cells taken), by enumerating every way to place the ships in order."""
    chances: Counter = Counter({frozenset(): Fraction(1)})
    for length in fleet:
        after: Counter = Counter()
        for taken, chance in chances.items():
            free = [line for line in lines(rows, columns, length) if not line & taken]
            for line in free:
                after[taken | line] += chance / len(free)
        chances = after
    total = sum(chances.values())  # below 1 where the ships can block each other: drawn anew
    return {taken: float(chance / total) for taken, chance in chances.items()}


@pytest.mark.parametrize(
    ("rows", "columns", "fleet"), [(3, 3, (3, 2)), (2, 3, (2, 2)), (1, 6, (2, 3)), (2, 3, (1, 2))]
)
def test_placement_frequencies_are_the_enumerated_ones(rows, columns, fleet):
    expected = fleet_probabilities(rows, columns, fleet)
    env = Battleship(rows, columns, fleet)
    draws = 40_000
    keys = jax.random.split(jax.random.key(0), draws)
    words = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[0].ships))(keys))
    counts = Counter(words[:, 0].tolist())

    def code(taken):
        return sum(1 << (r * columns + c) for r, c in taken)

    assert set(counts) <= {code(taken) for taken in expected}
    observed = [counts[code(taken)] for taken in expected]
    assert chisquare(observed, [draws * p for p in expected.values()]).pvalue > 1e-3


def test_the_order_of_placement_matters():
    # On 1×6, a ship of 2 then one of 3. The pair at 0 or 4 leaves two places, at 1 or 3 one; at 2
    # it leaves none, and the fleet is drawn anew. All six legal fleets alike would be 1/3 and 1/6.
    chances = fleet_probabilities(1, 6, (2, 3))
    by_hand = {"012345".replace(gap, ""): 1 / 8 for gap in "23"}
    by_hand |= {"012345".replace(gap, ""): 3 / 8 for gap in "05"}
    assert chances == {
        frozenset((0, int(c)) for c in cells): pytest.approx(p) for cells, p in by_hand.items()
    }


def test_the_papers_fleet_is_whole_and_goes_everywhere():
    env = Battleship()
    keys = jax.random.split(jax.random.key(1), 2000)
    draw = jax.jit(jax.vmap(lambda key: bits.unpack(env.reset(key)[0].ships, 100)))
    ships = np.asarray(draw(keys))
    assert (ships.sum(axis=1) == 14).all()
    assert ships.any(axis=0).all()
    assert env.fleet.always_fits
    assert [len(p) for p in env.fleet.placements] == [120, 140, 160, 180]
    assert env.shortest_episode == 14
    # By symmetry each cell's share is that of its mirror images; the middle is the busiest.
    share = ships.mean(axis=0).reshape(10, 10)
    assert share[4:6, 4:6].mean() > 1.5 * share[[0, 0, 9, 9], [0, 9, 0, 9]].mean()


def test_shots_by_hand():
    env = Battleship(2, 3, (2,))
    state = state_of(env, ships={1, 4})
    noise = env.noise(jax.random.key(0))
    np.testing.assert_array_equal(env.action_mask(state), [True] * 6)

    state, step = env.transition(state, jnp.int32(0), noise)  # a miss
    assert step.observation.tolist() == [0.0]
    assert (float(step.reward), bool(step.terminated)) == (-1.0, False)
    np.testing.assert_array_equal(env.action_mask(state), [False] + [True] * 5)

    state, step = env.transition(state, jnp.int32(4), noise)  # a hit
    assert step.observation.tolist() == [1.0]
    assert (float(step.reward), bool(step.terminated)) == (-1.0, False)

    again, step = env.transition(state, jnp.int32(4), noise)  # against the mask: a miss
    assert step.observation.tolist() == [0.0]
    assert float(step.reward) == -1.0
    np.testing.assert_array_equal(again.shots, state.shots)

    state, step = env.transition(state, jnp.int32(1), noise)  # the last of the fleet
    assert step.observation.tolist() == [1.0]
    assert (float(step.reward), bool(step.terminated)) == (5.0, True)
    assert not step.truncated
    np.testing.assert_array_equal(
        env.full_observation(state), [*(0, 1, 0, 0, 1, 0), *(1, 1, 0, 0, 1, 0)]
    )


class PlainBattleship:
    """The rules once more, with sets."""

    def __init__(self, cells: int, ships: set[int]):
        self.cells, self.ships, self.shots = cells, ships, set()

    def step(self, cell: int) -> tuple[float, float, bool]:
        hit = cell in self.ships and cell not in self.shots
        self.shots.add(cell)
        over = self.ships <= self.shots
        return float(hit), (self.cells - 1.0 if over else -1.0), over


@pytest.mark.parametrize(("rows", "columns", "fleet"), [(10, 10, (5, 4, 3, 2)), (3, 11, (2, 3, 1))])
def test_lockstep_with_plain_python(rows, columns, fleet):
    env = Battleship(rows, columns, fleet)

    @jax.jit
    @jax.vmap
    def play(key):
        """One game of random legal shots, and steps after its end that nobody looks at."""
        start, observation = env.reset(key)

        def shoot(state, key):
            mask = env.action_mask(state)
            cell = jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf))
            after, step = env.transition(state, cell, env.noise(key))
            return after, (mask, cell, step)

        _, played = jax.lax.scan(shoot, start, jax.random.split(key, env.n_cells))
        return bits.unpack(start.ships, env.n_cells), observation, played

    games = jax.tree.map(np.asarray, play(jax.random.split(jax.random.key(0), 40)))
    shots = 0
    for ships, observation, (masks, cells, steps) in _each(games):
        plain = PlainBattleship(env.n_cells, set(np.flatnonzero(ships).tolist()))
        assert observation.tolist() == [0.0]
        total = 0.0
        for t, cell in enumerate(cells.tolist()):
            assert set(np.flatnonzero(~masks[t])) == plain.shots
            hit, reward, over = plain.step(cell)
            assert (steps.observation[t].tolist(), float(steps.reward[t])) == ([hit], reward)
            assert (bool(steps.terminated[t]), bool(steps.truncated[t])) == (over, False)
            total += reward
            if over:
                break
        assert over
        assert total == env.n_cells - len(plain.shots)
        shots += len(plain.shots)
    assert shots > 1000


def _each(batch):
    """The trees of a batch, one after the other."""
    size = len(jax.tree.leaves(batch)[0])
    return (jax.tree.map(operator.itemgetter(i), batch) for i in range(size))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 10, (11,)), "11 does not fit on a board of 10×10"),
        ((3, 3, (3, 3, 3, 1)), "does not fit on a board of 3×3"),
        ((2, 2, ()), r"a fleet is a list of ship lengths, each at least 1; got \(\)"),
        ((2, 2, (0,)), r"got \(0,\)"),
        ((0, 5, (1,)), "at least one cell, got 0×5"),
    ],
)
def test_impossible_fleets_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Battleship(*arguments)


def test_a_fleet_that_fills_the_board_is_found():
    env = Battleship(2, 2, (2, 2))
    draw = jax.jit(jax.vmap(lambda key: env.reset(key)[0].ships))
    ships = draw(jax.random.split(jax.random.key(0), 50))
    assert (np.asarray(ships) == 0b1111).all()
