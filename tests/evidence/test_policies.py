"""What can act: tables, callables, trained runs, Stable-Baselines3's models."""

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.host import program_for
from markovlens.agents.policy import RunPolicy
from markovlens.agents.run import Run
from markovlens.envs.registry import make
from markovlens.envs.spaces import Discrete
from markovlens.envs.tmaze import TMaze
from markovlens.envs.wrappers import MaskObservation
from markovlens.evidence.collect import collect
from markovlens.evidence.detect import detect
from markovlens.evidence.sources import experience, load_model
from markovlens.pomdp import library


def untrained_run(env, **options):
    """A run before its first update: networks are as they will be, and nothing is compiled."""
    specs = [RunSpec(PPOConfig(env=env, latent=8, steps=512, gamma=0.9, **options).resolve(), 0)]
    networks = program_for(specs, None).start().learner.network
    return Run(specs, networks, pl.DataFrame(), np.zeros(1, dtype=bool))


def test_gymnasium_environments_are_stepped():
    data = collect(gymnasium.make("FrozenLake-v1"), 300, seed=3)
    assert len(data) == 300
    assert set(np.unique(data.observation)) <= set(range(16))
    inside = ~(data.terminated | data.truncated)[:-1]
    np.testing.assert_array_equal(data.next_observation[:-1][inside], data.observation[1:][inside])
    again = collect(gymnasium.make("FrozenLake-v1"), 300, seed=3)
    np.testing.assert_array_equal(data.action, again.action)


@pytest.mark.parametrize("algo", ["rnn", "memoryless"])
def test_the_answer_says_that_a_memory_was_cleared(algo):
    policy = RunPolicy(untrained_run("tmaze-5", algo=algo))
    answer = detect("tmaze-5", steps=400, policy=policy, replications=19, probes=1, frames=0)
    said = sum("memory was cleared" in note for note in answer.notes)
    assert said == (1 if algo == "rnn" else 0)


class Counter(gymnasium.Env):
    """Shows how many steps were taken, always in the same array."""

    observation_space = spaces.Box(0, 100, (1,))

    def __init__(self, action_space=None):
        self.action_space = action_space or spaces.Discrete(3)
        self.shown = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown[:] = 0
        return self.shown, {}

    def step(self, action):
        self.shown += 1
        return self.shown, 1.0, bool(self.shown == 4), False, {}


def test_an_environment_may_show_the_same_array_again():
    data = collect(Counter(), 8)
    assert data.observation[:, 0].tolist() == [0, 1, 2, 3] * 2
    assert data.next_observation[:, 0].tolist() == [1, 2, 3, 4] * 2
    assert data.action.shape == (8,)
    assert set(data.action.tolist()) <= {0, 1, 2}


@pytest.mark.parametrize(
    ("space", "first"),
    [
        (spaces.Dict(push=spaces.Box(0, 1, (2,)), gear=spaces.Discrete(3)), "gear"),
        (spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 1, (2,)))), 0),
    ],
)
def test_actions_in_parts_are_vectors(space, first):
    taken = []
    data = collect(Counter(space), 20, policy=lambda _: taken.append(space.sample()) or taken[-1])
    assert data.action.shape == (20, 3)
    assert data.action[:, 0].tolist() == [action[first] for action in taken]


def test_observations_too_wide_to_be_tested_are_not_collected():
    env = Counter()
    env.shown = np.zeros((210, 160, 3), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"100,800 components would take 10.1 GB, and at most 1,0"):
        collect(env, 50_000)
    assert env.shown.max() == 0


def test_a_callable_policy_decides():
    data = collect(gymnasium.make("CartPole-v1"), 200, policy=lambda o: int(o[2] > 0))
    np.testing.assert_array_equal(data.action, data.observation[:, 2] > 0)


@pytest.mark.parametrize("steps", [1, 5, 101])
def test_as_many_steps_as_asked_for(steps):
    data = collect(TMaze(2), steps)
    assert len(data) == steps
    assert data.terminated[-1] or data.truncated[-1]


def test_our_environments_are_stepped_by_tables_and_callables():
    table = np.zeros((5, 4))
    table[:, 2] = 1.0
    data = collect(TMaze(2), 100, policy=table)
    assert set(data.action.tolist()) == {2}
    called = collect(TMaze(2), 40, policy=lambda o: 2)
    assert set(called.action.tolist()) == {2}
    with pytest.raises(ValueError, match=r"shape \[5, 4\].*got \[4, 5\]"):
        collect(TMaze(2), 40, policy=table.T)
    with pytest.raises(ValueError, match=r"policy\[0\] sums to 2, expected 1"):
        collect(TMaze(2), 40, policy=2.0 * table)


def test_tables_are_checked_for_gymnasium_too():
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(ValueError, match=r"shape \[16, 4\].*got \[16, 3\]"):
        collect(lake, 40, policy=np.full((16, 3), 1 / 3))
    with pytest.raises(ValueError, match="numbered from 0"):
        collect(gymnasium.make("CartPole-v1"), 40, policy=np.full((4, 2), 0.5))


def test_names_come_with_environments():
    assert make("tmaze-5").observation_names == ("blue", "red", "corridor", "junction", "end")
    tiger = library.load("tiger")
    assert make("tiger").observation_names == tiger.observations
    uniform = np.full((tiger.n_observations, tiger.n_actions), 1 / tiger.n_actions)
    assert collect(make("tiger"), 40, policy=uniform).names == tiger.observations
    rocks = make("rocksample-3-2")
    assert rocks.observation_names[-2:] == ("rock 0", "rock 1")
    assert MaskObservation(rocks, (0, 7)).observation_names[-1] == "rock 0"


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["memoryless", "rnn"])
def test_a_trained_run_acts_as_its_network_says(algo):
    """Frequencies of the actions at the start against the network's own probabilities."""
    import jax

    run = untrained_run("tmaze-5", algo=algo)
    policy = RunPolicy(run)
    assert policy.forgets == (algo == "rnn")
    data = collect(make("tmaze-5"), 4000, policy=policy)
    network = run.network()
    for o in (0, 2):
        seen = jax.nn.one_hot(np.array([o]), 5)
        memory = network.step(seen, network.memory(1), np.ones(1, dtype=bool))
        probs = np.asarray(jax.nn.softmax(network.outputs(memory).action))[0]
        here = data.action[data.observation == o]
        share = np.bincount(here, minlength=4) / len(here)
        np.testing.assert_allclose(share, probs, atol=5 * np.sqrt(0.25 / len(here)))


@pytest.mark.slow
def test_a_run_on_gymnasium_with_something_hidden():
    policy = RunPolicy(untrained_run("CartPole-v1", algo="memoryless", hide=(1, 3)))
    assert policy.kept == (0, 2)
    data = collect(gymnasium.make("CartPole-v1"), 60, policy=policy)
    assert data.observation.shape == (60, 4)
    assert set(data.action.tolist()) == {0, 1}
    again = collect(gymnasium.make("CartPole-v1"), 60, policy=policy)
    np.testing.assert_array_equal(data.action, again.action)
    with pytest.raises(ValueError, match=r"trained on CartPole-v1, with observations of size 4"):
        collect(gymnasium.make("Acrobot-v1"), 60, policy=policy)
    with pytest.raises(ValueError, match="trained on CartPole-v1"):
        collect(make("tmaze-5"), 60, policy=policy)


@pytest.mark.slow
def test_runs_that_see_more_than_the_observation_are_refused():
    with pytest.raises(ValueError, match="its previous action"):
        RunPolicy(untrained_run("tmaze-5", algo="memoryless", previous_action=True))
    with pytest.raises(ValueError, match="the whole state"):
        RunPolicy(untrained_run("tmaze-5", algo="memoryless", full_view=True))


@pytest.mark.slow
def test_models_of_stable_baselines(tmp_path):
    """Saved and loaded by the library itself; sampled from, not greedy."""
    sb3 = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("CartPole-v1")
    sb3.PPO("MlpPolicy", env, n_steps=64, device="cpu", seed=0).save(tmp_path / "model")
    policy = load_model(f"PPO:{tmp_path / 'model.zip'}", trust=True)
    data = collect(env, 300, policy=policy)
    assert 0.3 < data.action.mean() < 0.7  # an untrained model is near even; greedy would be 0 or 1
    for seed, same in ((0, True), (1, False)):
        policy = load_model(f"PPO:{tmp_path / 'model.zip'}", trust=True, seed=seed)
        again = collect(env, 300, policy=policy)
        assert np.array_equal(again.action, data.action) == same
    for name in ("NOPE", "common"):
        with pytest.raises(ValueError, match=f"no algorithm '{name}'"):
            load_model(f"{name}:{tmp_path / 'model.zip'}", trust=True)


def test_an_environment_that_raises_is_said_to():
    class Boom(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.left = 30
            return 0, {}

        def step(self, action):
            self.left -= 1
            if self.left == 0:
                raise RuntimeError("connection lost")
            return 1, 0.0, False, False, {}

    with pytest.raises(ValueError, match="raised at step 29: RuntimeError: connection lost"):
        collect(Boom(), 100, policy=lambda o: 0)


def test_an_environment_of_ones_own_is_checked():
    class Broken(TMaze):
        @property
        def observation_space(self):
            return Discrete(2)

    with pytest.raises(ValueError, match="Broken"):
        experience(Broken(2), 100)


def test_a_run_is_no_policy_by_itself():
    for policy in ("runs/x", untrained_run("tmaze-5", algo="memoryless")):
        with pytest.raises(ValueError, match=r"RunPolicy\(load_run\(folder\)\)"):
            collect(TMaze(5), 100, policy=policy)


def test_tables_of_policies_have_a_size(monkeypatch):
    def never(*_):
        raise AssertionError("a table of 48 million probabilities")

    monkeypatch.setattr("markovlens.evidence.collect._telling_policy", never)

    class Vast(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(8_000_000)
        action_space = gymnasium.spaces.Discrete(6)

        def reset(self, *, seed=None, options=None):
            return 0, {}

        def step(self, action):
            return 1, float(action), True, False, {}

    assert len(collect(Vast(), 100)) == 100
