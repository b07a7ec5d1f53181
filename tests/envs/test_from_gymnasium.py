"""Gymnasium environments stepped from here: ends, restarts, final observations, masks."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from markovlens.envs.adapters.from_gymnasium import GymnasiumVector, WithPrevious
from markovlens.envs.spaces import Binary, Box, Discrete


class Counter(gymnasium.Env):
    """Sees how many steps were made; terminates or is truncated after `length`."""

    observation_space = gymnasium.spaces.Box(0, 100, (2,), dtype=np.float32)
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def __init__(self, length=3, truncate=False):
        self.length, self.truncate, self.episode = length, truncate, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.episode += 1
        return self._seen(), {}

    def step(self, action):
        assert action in (5, 6)
        self.time += 1
        over = self.time >= self.length
        return self._seen(), float(action), over and not self.truncate, over and self.truncate, {}

    def _seen(self):
        return np.array([self.time, self.episode], dtype=np.float32)


def sources():
    makers = [lambda: Counter(2), lambda: Counter(3, truncate=True)]
    same, wait, off = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED
    return [SyncVectorEnv(makers, autoreset_mode=mode) for mode in (same, wait, off)]


@pytest.mark.parametrize("envs", sources(), ids=["same-step", "next-step", "disabled"])
def test_every_restart_mode_gives_the_same_steps(envs):
    env = GymnasiumVector(envs, gamma=0.5)
    assert (env.n, env.gamma) == (2, 0.5)
    assert env.action_space == Discrete(2)
    assert env.reset(seed=0).tolist() == [[0, 1], [0, 1]]
    steps = [env.step(np.array([0, 1])) for _ in range(4)]
    assert all(s.reward.tolist() == [5.0, 6.0] for s in steps)  # no step is wasted on a restart
    assert [s.next_observation[:, 0].tolist() for s in steps] == [[1, 1], [2, 2], [1, 3], [2, 1]]
    assert [s.observation.tolist() for s in steps] == [
        [[1, 1], [1, 1]],
        [[0, 2], [2, 1]],
        [[1, 2], [0, 2]],
        [[0, 3], [1, 2]],
    ]
    assert [s.terminated.tolist() for s in steps] == [
        [False, False], [True, False], [False, False], [True, False]]  # fmt: skip
    assert [s.truncated.tolist() for s in steps] == [
        [False, False], [False, False], [False, True], [False, False]]  # fmt: skip


class Broken(Counter):
    """Gives `value` in the last entry of what is seen, or as the reward, after `when` steps."""

    observation_space = gymnasium.spaces.Box(0, 100, (2,), dtype=np.float64)

    def __init__(self, value, when, entry="observation"):
        super().__init__(length=3)
        self.value, self.when, self.entry = value, when, entry

    def step(self, action):
        seen, reward, *ends = super().step(action)
        broken = self.time == self.when and self.entry == "reward"
        return seen, self.value if broken else reward, *ends

    def _seen(self):
        broken = self.time == self.when and self.entry == "observation"
        return np.array([self.time, self.value if broken else self.episode])


def play(env, steps):
    env.reset(seed=0)
    for _ in range(steps):
        env.step(np.zeros(env.n, dtype=int))


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.parametrize("when", [0, 2, 3])  # at the reset, on the way, in the last observation
@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e39], ids=str)
def test_what_is_not_finite_is_blamed_on_the_environment(value, when, mode):
    for mask in ((), (0,)):  # entries are numbered as the environment has them
        makers = [lambda: Broken(0.0, when), lambda: Broken(value, when)]
        env = GymnasiumVector(SyncVectorEnv(makers, autoreset_mode=mode), mask=mask)
        says = rf"in entry 1 of the observation at step {when} \(copy 1 of 2\): numbers must be fin"
        with pytest.raises(ValueError, match=says):
            play(env, when)
    play(GymnasiumVector(lambda: Broken(value, when), mask=(1,)), 4)  # what is hidden may be so


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39], ids=str)
def test_rewards_that_are_not_finite_are_blamed_on_the_environment(value):
    env = WithPrevious(
        GymnasiumVector(lambda: Broken(value, 2, "reward"), n=2), action=False, reward=True
    )
    says = re.escape(f"gave a reward of {value} at step 2 (copy 0 of 2)")
    with pytest.raises(ValueError, match=says):
        play(env, 2)


def test_a_foreign_vector_env_that_wastes_steps_is_refused():
    class Foreign(gymnasium.vector.VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    with pytest.raises(ValueError, match="SAME_STEP"):
        GymnasiumVector(Foreign())


def test_masked_cartpole():
    whole, blind = (
        GymnasiumVector("CartPole-v1", n=3),
        GymnasiumVector("CartPole-v1", 3, mask=(1, 3)),
    )
    assert blind.observation_space.shape == (2,)
    assert (whole.reset(seed=4)[:, [0, 2]] == blind.reset(seed=4)).all()
    for t in range(60):
        actions = np.full(3, t % 2)
        all_of_it, part = whole.step(actions), blind.step(actions)
        assert (all_of_it.observation[:, [0, 2]] == part.observation).all()
        assert (all_of_it.next_observation[:, [0, 2]] == part.next_observation).all()
        assert (all_of_it.terminated == part.terminated).all()


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Pendulum-v1"])
def test_what_was_done_and_paid_before_is_appended(name):
    """Numbers and vectors; zeros where an episode starts, but not in what the last step led to."""
    plain, more = (GymnasiumVector(name, n=2) for _ in range(2))
    more = WithPrevious(more, action=True, reward=True)
    size, numbers = plain.observation_space.flat_size, isinstance(plain.action_space, Discrete)
    extra = plain.action_space.flat_size + 1
    assert more.observation_space == Box((size + extra,))
    assert more.reset(seed=1)[:, size:].tolist() == [[0.0] * extra] * 2
    plain.reset(seed=1)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(250):
        action = rng.integers(0, 4, 2) if numbers else rng.normal(size=(2, 1)).astype(np.float32)
        step, shown = plain.step(action), more.step(action)
        ended = step.terminated | step.truncated
        done = np.eye(4)[action] if numbers else np.clip(action, -2.0, 2.0)
        before = np.column_stack([done, step.reward])
        np.testing.assert_array_equal(shown.next_observation[:, size:], before)
        np.testing.assert_array_equal(shown.observation[~ended][:, size:], before[~ended])
        assert not shown.observation[ended][:, size:].any()
        seen = np.eye(size)[step.observation] if numbers else step.observation
        np.testing.assert_array_equal(shown.observation[:, :size], seen)
        ends += ended.sum()
    assert ends


def test_actions_are_appended_as_the_environment_took_them():
    class Uneven(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
        action_space = gymnasium.spaces.Box(np.float32([-1.0, 0.0]), np.float32([1.0, 5.0]))

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env = WithPrevious(GymnasiumVector(Uneven), action=True, reward=False)
    env.reset()
    assert env.step(np.float32([[3.0, -2.0]])).observation.tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ((4,), "cannot hide entry 4: the observation has 4 entries"),
        ((-1,), "cannot hide entry -1"),
        ((0, 1, 2, 3), "cannot hide all 4 entries"),
    ],
)
def test_bad_masks(mask, words):
    with pytest.raises(ValueError, match=words):
        GymnasiumVector("CartPole-v1", mask=mask)


def env_with(space, mask=()):
    """Two copies of an environment that shows anything in `space`."""

    class Env(gymnasium.Env):
        observation_space = space
        action_space = gymnasium.spaces.Box(-1.0, np.array([1.0, 2.0], "f4"))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space.seed(seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(action)
            return self.observation_space.sample(), 0.0, False, False, {}

    return GymnasiumVector(Env, n=2, mask=mask)


def test_numbers_bits_and_structures_become_our_spaces():
    spaces = gymnasium.spaces
    lottery = env_with(spaces.Discrete(3, start=7))
    assert lottery.observation_space == Discrete(3)
    assert set(lottery.reset(seed=0).tolist()) <= {0, 1, 2}
    assert lottery.action_space == Box((2,), -1.0, 2.0)
    lottery.step(np.full((2, 2), 9.0))  # clipped to each entry's own bounds
    bits = env_with(spaces.MultiBinary((2, 3)))
    assert bits.observation_space == Binary(6)
    assert bits.reset(seed=0).shape == (2, 6)
    both = spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Box(0, 1, (2,))})
    flat = env_with(both)
    assert flat.reset(seed=0).shape == (2, 6)
    assert flat.observation_space.flat_size == 6
    pair = env_with(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))))
    assert pair.reset(seed=0).sum(axis=1).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="no fixed size"):
        env_with(spaces.Sequence(spaces.Discrete(2)))
    for empty in (spaces.Dict({}), spaces.Tuple(()), spaces.Box(0, 1, (0,))):
        with pytest.raises(ValueError, match="are empty: there is nothing to see"):
            env_with(empty)


@pytest.mark.parametrize("mask", [(), (1,)], ids=["whole", "masked"])
@pytest.mark.parametrize(
    ("space", "wrong", "says"),
    [
        (gymnasium.spaces.Discrete(3, start=7), 2, "whole numbers from 7 to 9: got 2"),
        (gymnasium.spaces.Box(0, 1, (4,)), np.zeros(3), r"of shape \[4\], .* got shape \[3\]"),
        (gymnasium.spaces.MultiBinary((2, 3)), np.zeros(6), r"got shape \[6\]"),
        (gymnasium.spaces.MultiDiscrete([2, 3]), [0], r"got shape \[1\]"),
        (
            gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(4), b=gymnasium.spaces.Box(0, 1)),
            {"a": 1},
            "as the environment gives it: got {'a': 1}",
        ),
    ],
    ids=["number", "box", "bits", "numbers", "parts"],
)
def test_one_observation_as_the_environment_gives_it(space, wrong, says, mask):
    """It becomes what the agent sees of it; also once the environments are closed."""
    env = env_with(space, mask)
    seen = env.reset(seed=3)
    raw = gymnasium.vector.utils.iterate(env._envs.observation_space, env._envs._observations)
    env.close()
    for one, expected in zip(raw, seen, strict=True):
        np.testing.assert_array_equal(env.inside(one), expected)
    with pytest.raises(ValueError, match=says):
        env.inside(wrong)


def test_masking_a_number_hides_entries_of_its_one_hot():
    from markovlens.envs.adapters.registration import register

    register()
    colourless = GymnasiumVector("markovlens/TMaze-5-v0", n=4, mask=(0, 1))
    assert colourless.observation_space == Binary(3)
    assert not colourless.reset(seed=0).any()
    assert colourless.step(np.full(4, 2)).observation.tolist() == [[1, 0, 0]] * 4


def test_our_own_vector_env_comes_back_the_same():
    from markovlens.envs.adapters.registration import register

    register()
    envs = gymnasium.make_vec("markovlens/TMaze-5-v0", num_envs=3)
    env = GymnasiumVector(envs)
    env.reset(seed=0)
    for _ in range(6):
        env.step(np.full(3, 2))
    step = env.step(np.zeros(3, int))
    assert step.terminated.all()
    assert step.next_observation.tolist() == [4, 4, 4]
    assert set(step.observation.tolist()) <= {0, 1}


def test_actions_that_are_neither_numbers_nor_boxes_are_refused():
    class Odd(Counter):
        action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    with pytest.raises(ValueError, match="Discrete or Box"):
        GymnasiumVector(Odd)
