import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markovlens.evidence.columns import lag
from markovlens.evidence.discrete import discretise
from markovlens.evidence.history import decayed_past, discounted_sum_to_end
from markovlens.evidence.stacking import Stack
from markovlens.evidence.trajectories import Trajectories


def random_episodes(seed: int, lengths: list[int]) -> Trajectories:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    ends = np.zeros(n, dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    over = ends & (rng.random(n) < 0.5)
    seen = rng.normal(size=(n, 2))
    return Trajectories(
        observation=seen,
        action=rng.integers(0, 3, n),
        reward=rng.normal(size=n),
        terminated=over,
        truncated=ends & ~over,
        next_observation=np.where(
            ends[:, None], rng.normal(size=(n, 2)), np.roll(seen, -1, axis=0)
        ),
    )


def test_episodes_are_found_by_their_ends():
    data = random_episodes(0, [3, 1, 4])
    assert data.length.tolist() == [3, 1, 4]
    assert data.time.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    assert data.episode.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert data.take(np.array([2, 0])).length.tolist() == [4, 3]


def test_the_last_step_counts_as_cut():
    data = Trajectories([0, 1], [0, 0], [1.0, 1.0], [False, False], None, [1, 2])
    assert data.truncated.tolist() == [False, True]


def test_without_next_observations_a_cut_episode_loses_its_last_step():
    data = Trajectories(
        observation=[10, 11, 12, 20, 21, 30],
        action=[0] * 6,
        reward=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        terminated=[False, False, False, False, True, False],
        truncated=[False, False, True, False, False, True],
    )
    assert data.observation.tolist() == [10, 11, 20, 21]
    assert data.next_observation.tolist()[:3] == [11, 12, 21]
    assert data.truncated.tolist() == [False, True, False, False]
    assert data.terminated.tolist() == [False, False, False, True]


def test_names_are_also_for_what_follows():
    with pytest.raises(ValueError, match="2 names are for observations 0 to 1"):
        Trajectories([0, 1], [0, 0], [0.0, 0.0], [False, True], None, [1, 2], names=("a", "b"))


def test_cutting_keeps_steps_and_ends():
    data = random_episodes(1, [10, 3, 25]).cut(8)
    assert data.length.tolist() == [5, 5, 3, 7, 7, 7, 4]
    assert data.terminated.sum() + data.truncated.sum() == data.n_episodes


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"reward": [1.0, float("nan"), 1.0]}, "reward at step 1 is not finite"),
        ({"observation": [[1.0], [1.0, 2.0], [1.0]]}, "observation is ragged"),
        ({"action": [0, 0]}, "action has 2 steps but reward has 3"),
        ({"terminated": [0, 2, 0]}, "terminated must hold true and false"),
        ({"observation": ["a", "b", "c"]}, "observation must hold numbers"),
        ({"next_observation": [[1], [2], [3]]}, "next_observation has shape"),
        ({"reward": [[1.0, 2.0]] * 3}, "reward must have shape"),
        ({"observation": np.zeros((3, 0))}, "observations are empty"),
    ],
)
def test_bad_data_is_named(change, says):
    good = {
        "observation": [0, 1, 2],
        "action": [0, 0, 0],
        "reward": [1.0, 1.0, 1.0],
        "terminated": [False, False, True],
        "truncated": [False, False, False],
    }
    with pytest.raises(ValueError, match=says):
        Trajectories(**good | change)


def walk(n: int) -> dict[str, np.ndarray]:
    """Four episodes of a random walk, the second of them cut."""
    rng = np.random.default_rng(0)
    ends = np.arange(n) % (n // 4) == n // 4 - 1
    seen = 100.0 + rng.normal(size=(n, 2)).cumsum(axis=0)
    return {
        "observation": seen,
        "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n),
        "terminated": ends & (np.arange(n) != n // 2 - 1),
        "truncated": ends & (np.arange(n) == n // 2 - 1),
        "next_observation": np.where(ends[:, None], 0.0, np.roll(seen, -1, axis=0)),
    }


def test_rows_that_do_not_follow_each_other_are_refused():
    steps = walk(80)
    assert Trajectories(**steps).n_episodes == 4
    swapped = np.arange(80)
    swapped[[5, 6]] = [6, 5]
    in_turns = np.arange(80).reshape(2, 40).T.ravel()
    for order, first, count in ((swapped, 4, 3), (in_turns, 0, 76)):
        says = (
            f"at step {first} is not .* at {count} steps in all.*: rows are out of order, several"
        )
        with pytest.raises(ValueError, match=says):
            Trajectories(**{name: column[order] for name, column in steps.items()})
    with pytest.raises(ValueError, match=r"at step 39 is not .* at 1 steps .* a cut is not marked"):
        Trajectories(**steps | {"truncated": np.zeros(80, dtype=bool)})


def test_whole_numbers_follow_exactly():
    steps = walk(4000) | {"observation": np.arange(4000), "next_observation": np.arange(4000)}
    with pytest.raises(ValueError, match="at step 0 is not"):
        Trajectories(**steps)
    assert len(Trajectories(**steps | {"next_observation": np.arange(1, 4001)})) == 4000


@pytest.mark.parametrize("rounded", [np.float32, lambda x: np.round(x, 2)])
def test_what_differs_by_rounding_follows(rounded):
    steps = walk(80)
    steps["next_observation"] = rounded(steps["next_observation"])
    assert Trajectories(**steps).n_episodes == 4


def test_entries_by_name_and_by_number():
    data = Trajectories([[0.0, 1.0]], [0], [1.0], [True], names=("angle", "speed"))
    assert [data.entry("speed"), data.entry("0")] == [1, 0]
    with pytest.raises(ValueError, match="did you mean 'angle'"):
        data.entry("angel")


def test_one_value_a_step_may_be_a_vector_of_one():
    data = Trajectories([0, 1], [0, 0], [[1.0], [2.0]], [[False], [True]], [[False], [False]])
    assert data.reward.tolist() == [1.0, 2.0]
    assert data.terminated.tolist() == [False, True]


@pytest.mark.parametrize("kind", ["observation", "observations", "obs"])
def test_entries_by_the_names_of_their_columns(kind):
    named = Trajectories([[0.0, 1.0]], [0], [1.0], [True], names=("angle", "speed"))
    assert named.entry(f"{kind}_speed") == 1
    plain = Trajectories([[0.0, 1.0, 2.0]], [0], [1.0], [True])
    assert [plain.entry(f"{kind}_2"), plain.entry("2"), plain.entry("entry 2")] == [2, 2, 2]
    rest = plain.hide([0])  # which leaves the entries 1 and 2
    assert [rest.entry(f"{kind}_1"), rest.entry("1"), rest.entry("entry 1")] == [0, 0, 0]
    with pytest.raises(ValueError, match=r"unknown entry .* '0' \(known: entry 1, entry 2\)"):
        rest.entry("0")


def test_hiding_components():
    data = random_episodes(0, [4])
    assert np.array_equal(data.hide([0]).observation, data.observation[:, 1:])
    with pytest.raises(ValueError, match="component 2"):
        data.hide([2])
    with pytest.raises(ValueError, match="hides every component"):
        data.hide([0, 1])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.floats(0.0, 1.0))
def test_sums_and_memories_stay_within_their_episode(lengths, discount):
    data = random_episodes(3, lengths)
    x = np.random.default_rng(4).normal(size=len(data))
    ahead, behind = np.zeros(len(data)), np.zeros(len(data))
    for start, length in zip(data.start, data.length, strict=True):
        for t in range(length):
            ahead[start + t] = sum(discount**k * x[start + t + k] for k in range(length - t))
            past = sum(discount ** (k - 1) * x[start + t - k] for k in range(1, t + 1))
            behind[start + t] = (1 - discount) * past
    np.testing.assert_allclose(discounted_sum_to_end(x, data, discount), ahead, atol=1e-12)
    faded = decayed_past(x[:, None], data.time, discount)
    np.testing.assert_allclose(faded[:, 0], behind, atol=1e-12)


def test_stacks_hold_the_last_frames_and_action():
    data = Trajectories(
        observation=[5, 6, 7, 8],
        action=[0, 1, 2, 3],
        reward=[0.0] * 4,
        terminated=[False, False, True, True],
        next_observation=[6, 7, 9, 9],
    )
    paid, _ = Stack(1, rewards=1).vectors(data.replace(reward=np.arange(4.0) + 0.5))
    assert paid[:].tolist() == [[5, -1], [6, 0.5], [7, 1.5], [8, -1]]
    done, _ = Stack(1, actions=2).vectors(data)
    assert done[:].tolist() == [[5, -1, -1], [6, 0, -1], [7, 1, 0], [8, -1, -1]]
    now, then = Stack(2, actions=1).vectors(data)
    assert now[:].tolist() == [[5, -1, -1], [6, 5, 0], [7, 6, 1], [8, -1, -1]]
    assert then[:].tolist()[1] == [7, 6, 1]
    assert now[np.array([2, 0])].tolist() == [[7, 6, 1], [5, -1, -1]]
    assert now[np.zeros(0, dtype=int)].shape == (0, 3)
    assert lag(np.arange(4.0), data.time, 2)[:][:, 0].tolist() == [-1, -1, 0, -1]


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
def test_a_stack_continues_in_the_next_row(frames, actions, rewards):
    data = random_episodes(5, [6, 2, 5])
    now, then = Stack(frames, actions, rewards).vectors(data)
    inside = np.flatnonzero(~(data.terminated | data.truncated))
    np.testing.assert_array_equal(then[inside], now[inside + 1])


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_stacks_of_indices_are_numbered_as_their_vectors_are(frames, actions, rewards, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 9, 12)
    ends = np.cumsum(lengths) - 1
    n = lengths.sum()
    terminated, truncated = np.zeros((2, n), dtype=bool)
    terminated[ends], truncated[ends] = np.array([[True], [False]]) ^ (rng.random(12) < 0.5)
    data = Trajectories(
        rng.integers(0, 3, n), rng.integers(0, 2, n), rng.integers(0, 2, n), terminated, truncated
    )
    stack = Stack(frames, actions, rewards)
    now, then = stack.vectors(data)
    going = np.flatnonzero(~data.terminated)
    both = np.vstack([now[:], then[going]])
    kinds, index = np.unique(both, axis=0, return_inverse=True)
    found = stack.numbers(discretise(data))
    if stack.reach > 0:
        assert found.n_observations == len(kinds)
    index = index.reshape(-1)
    np.testing.assert_array_equal(found.observation, index[: len(data)])
    np.testing.assert_array_equal(found.next_observation[going], index[len(data) :])
    assert (found.next_observation[data.terminated] == found.n_observations).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.integers(1, 12))
def test_portions_are_whole_episodes_and_make_up_all(lengths, steps):
    data = random_episodes(3, lengths)
    portions = list(data.portions(steps))
    rows = np.concatenate([np.arange(p.start, p.stop) for p in portions])
    np.testing.assert_array_equal(rows, np.arange(len(data)))
    for portion in portions:
        inside = data.start[(data.start >= portion.start) & (data.start < portion.stop)]
        assert inside[0] == portion.start
        assert portion.stop - portion.start <= steps or len(inside) == 1


def test_some_episodes_stay_within_so_many_steps():
    data = random_episodes(3, [5, 4, 3, 2, 6])
    rng = np.random.default_rng(0)
    assert data.draw_episodes(20, rng).tolist() == [0, 1, 2, 3, 4]
    drawn = {tuple(data.draw_episodes(11, rng)) for _ in range(100)}
    assert all(data.length[list(episodes)].sum() <= 11 for episodes in drawn)
    assert set().union(*drawn) == {0, 1, 2, 3, 4}
    assert data.draw_episodes(1, rng).size == 1
    assert data.rows(np.array([2, 0])).tolist() == [9, 10, 11, 0, 1, 2, 3, 4]
