from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest

from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.evaluate import _play_host, evaluate
from markovlens.agents.host import Player, host_env, program_for
from markovlens.agents.networks import actor_critic
from markovlens.agents.run import load_run
from markovlens.agents.training import complete, train
from markovlens.envs.adapters.from_gymnasium import GymnasiumVector
from markovlens.envs.registry import is_gymnasium_id
from markovlens.experiments.report import write_report

BLIND = PPOConfig(env="CartPole-v1", hide=(1, 3), latent=8, n_steps=32, steps=128 * 3)


def test_gymnasium_ids_are_told_from_our_names():
    assert is_gymnasium_id("CartPole-v1")
    assert is_gymnasium_id("ALE/Pong-v5")
    assert not any(
        is_gymnasium_id(name) for name in ("tmaze-5", "pocman", "rocksample-11-11", "x.POMDP")
    )


@pytest.mark.parametrize("previous", [False, True])
@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1"])
def test_a_host_rollout_is_consistent(name, previous):
    """Memories are those of the network over the stored sequence; a new episode starts where the
    last step ended one; final observations are not the next episode's first."""
    config = PPOConfig(env=name, previous_action=previous, previous_reward=previous)
    env = host_env(config)
    sizes = env.observation_space.flat_size, env.action_space.flat_size
    network = actor_critic(*sizes, 8, 2, "gru", np.random.default_rng(0))
    player = Player(env, seed=0)
    player.live(network, 0, 20)
    rollout, _ = player.live(network, 1, 60)
    again = network.sequence(rollout.observation, rollout.start_memory, rollout.first)
    np.testing.assert_allclose(again, rollout.memories, atol=1e-5)
    np.testing.assert_array_equal(rollout.first[1:], rollout.ended[:-1])
    going_on = ~np.asarray(rollout.ended[:-1])
    following, led_to = np.asarray(rollout.observation[1:]), np.asarray(rollout.next_observation)
    np.testing.assert_array_equal(following[going_on], led_to[:-1][going_on])
    assert rollout.ended.any()
    assert (following[~going_on] != led_to[:-1][~going_on]).any()


@pytest.mark.slow
def test_training_on_gymnasium_with_hidden_velocities(tmp_path):
    run = train(BLIND, out=tmp_path / "blind")
    assert run.metrics["step"].max() == BLIND.steps
    assert run.metrics["discrepancy"].is_finite().all()
    again = load_run(tmp_path / "blind")
    for x, y in zip(jax.tree.leaves(run.network()), jax.tree.leaves(again.network()), strict=True):
        np.testing.assert_array_equal(x, y)
    outside = gymnasium.make("CartPole-v1")
    action, _ = again.act(outside.reset(seed=0)[0])
    outside.step(action)  # which takes NumPy's numbers, not JAX's
    assert evaluate(again, episodes=5)["length"].min() >= 5
    page = write_report([tmp_path / "blind"], tmp_path / "report.html", "CartPole")
    assert page.path.exists()  # without an episode: nothing here can draw it


def test_episodes_begin_anew_when_a_run_goes_on():
    """Their environments do: what was paid before counts for no later episode."""
    config = replace(complete(BLIND), scale_rewards=True)
    program = program_for([RunSpec(config, 0)], None)
    start = program.start()
    later = program.fill(jax.tree.map(lambda leaf: leaf + 3, start))
    for name in ("total", "discounted", "discount", "length"):
        np.testing.assert_array_equal(
            getattr(later.watch.statistics, name), getattr(start.watch.statistics, name)
        )
    np.testing.assert_array_equal(later.watch.scale.running, start.watch.scale.running)
    np.testing.assert_array_equal(later.watch.scale.count, start.watch.scale.count + 3)


def test_what_gymnasium_cannot_make_is_reported(tmp_path):
    with pytest.raises(ValueError, match="Gymnasium cannot make"):
        train(PPOConfig(env="NoSuchThing-v3"), out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_no_two_copies_of_any_two_runs_start_alike():
    env = host_env(BLIND)
    network = actor_critic(2, 2, 8, 2, "gru", np.random.default_rng(0))
    starts = [Player(env, seed).live(network, 0, 1)[0].observation[0] for seed in range(3)]
    assert len(np.unique(np.concatenate(starts), axis=0)) == 3 * BLIND.n_envs


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action):
        return np.zeros(1, dtype=np.float32), 0.0, False, False, {}


def test_episodes_that_never_end_cannot_be_scored(monkeypatch):
    monkeypatch.setattr("markovlens.agents.evaluate.LONGEST", 200)
    network = actor_critic(1, 2, 8, 1, "gru", np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"has not ended after 200 steps.* time limit"):
        _play_host(network, GymnasiumVector(Endless, 2), 2, True, jax.random.key(0))


def register(monkeypatch, name, entry_point):
    spec = gymnasium.envs.registration.EnvSpec(
        id=name, entry_point=entry_point, disable_env_checker=True, max_episode_steps=10
    )
    monkeypatch.setitem(gymnasium.registry, name, spec)


class Uneven(Endless):
    """Bounds that differ from entry to entry."""

    action_space = gymnasium.spaces.Box(np.float32([-9.0, 2.0]), np.float32([9.0, 3.0]))


def test_actions_come_out_as_the_environment_takes_them(monkeypatch):
    register(monkeypatch, "Uneven-v0", Uneven)
    run = train(PPOConfig(env="Uneven-v0", algo="rnn", latent=8, n_steps=8, steps=32))
    action, _ = run.act(np.zeros(1, dtype=np.float32))
    assert 2.0 <= float(action[1]) <= 3.0
    with pytest.raises(ValueError, match="only numbered actions can be masked"):
        run.act(np.zeros(1), allowed=[True, True])
    with pytest.raises(ValueError, match="finite in 32 bits"):
        run.act(np.array([1e39]))


class Numbered(Endless):
    """Observations and actions that are numbered from other than 0."""

    observation_space = gymnasium.spaces.Discrete(3, start=1)
    action_space = gymnasium.spaces.Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        return np.int64(1), {}

    def step(self, action):
        return np.int64(3), float(action), False, False, {}


def test_observations_go_in_as_the_environment_gives_them(monkeypatch):
    register(monkeypatch, "Numbered-v0", Numbered)
    run = train(PPOConfig(env="Numbered-v0", algo="rnn", latent=8, n_steps=8, steps=32))
    network = run.network()
    for given, seen in zip((1, 2, 3), np.eye(3, dtype=np.float32), strict=True):
        action, memory = run.act(given)
        assert int(action) in (5, 6)
        expected = network.step(seen[None], network.memory(1), np.ones(1, dtype=bool))[0]
        np.testing.assert_allclose(memory, expected, atol=1e-6)
    for wrong in (0, 4, 1.5):
        with pytest.raises(ValueError, match=f"numbers from 1 to 3: got {wrong}"):
            run.act(wrong)


def test_what_is_not_finite_is_not_blamed_on_the_step_size(monkeypatch):
    class Broken(Endless):
        breaks = True

        def step(self, action):
            return np.full(1, np.nan if Broken.breaks else 0.0, np.float32), 0.0, False, False, {}

    register(monkeypatch, "Broken-v0", Broken)
    config = PPOConfig(env="Broken-v0", algo="rnn", latent=8, n_steps=8, steps=32)
    with pytest.raises(ValueError, match="gave nan in entry 0 of the observation at step 1 "):
        train(config)
    Broken.breaks = False
    run = train(config)
    Broken.breaks = True
    with pytest.raises(ValueError, match="gave nan in entry 0 of the observation at step 1 "):
        evaluate(run, episodes=2)


class Fragile(Endless):
    """Raises at step `limit` of its life."""

    limit = None

    def __init__(self):
        self.age = 0

    def step(self, action):
        self.age += 1
        if self.age == Fragile.limit:
            raise RuntimeError("stuck")
        return super().step(action)


def test_an_error_in_the_environment_is_told_and_what_was_learnt_is_kept(monkeypatch, tmp_path):
    register(monkeypatch, "Fragile-v0", Fragile)
    monkeypatch.setattr("markovlens.agents.training.SECONDS_PER_CHUNK", 0.0)  # one update a chunk
    config = PPOConfig(env="Fragile-v0", algo="rnn", latent=8, n_steps=8, steps=32 * 6)
    monkeypatch.setattr(Fragile, "limit", 8 * 4 + 3)
    says = "raised at step 35: RuntimeError: stuck; what was learnt in 128 steps is in"
    with pytest.raises(ValueError, match=says):
        train(config, out=tmp_path / "run")
    kept = load_run(tmp_path / "run")
    assert kept.metrics["step"].max() == 128
    monkeypatch.setattr(Fragile, "limit", 5)
    with pytest.raises(ValueError, match=r"raised at step 5: RuntimeError: stuck$"):
        evaluate(kept, episodes=1)
    with pytest.raises(ValueError, match=r"at step 5: RuntimeError: stuck; .* in 128 steps"):
        train(config, out=tmp_path / "run")
    monkeypatch.setattr(Fragile, "limit", None)
    assert train(config, out=tmp_path / "run").metrics["step"].max() == config.steps


@pytest.mark.parametrize(
    "entry_point", ["no_such_module:Env", "markovlens:NoSuchClass", lambda: 1 / 0]
)
def test_environments_that_cannot_be_made_are_named(monkeypatch, tmp_path, entry_point):
    register(monkeypatch, "Lost-v0", entry_point)
    with pytest.raises(ValueError, match="Gymnasium cannot make 'Lost-v0': "):
        train(PPOConfig(env="Lost-v0"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_returns_are_discounted_as_the_agent_was_told():
    """CartPole pays 1 a step: at γ = 0.5 an episode is worth at most 2."""
    run = train(replace(BLIND, gamma=0.5))
    discounted = run.metrics["discounted_return"].drop_nulls()
    assert len(discounted) > 0
    assert 1.9 < discounted.max() <= 2.0


def test_few_environments_are_made_and_all_are_closed(monkeypatch, tmp_path):
    made, closed = [], []

    class Counted(Endless):
        def __init__(self):
            made.append(self)

        def close(self):
            closed.append(self)

    def counts(of):
        made.clear()
        closed.clear()
        result = of()
        assert {id(env) for env in closed} == {id(env) for env in made}
        return len(made), result

    register(monkeypatch, "Counted-v0", Counted)
    config = PPOConfig(env="Counted-v0", algo="rnn", latent=8, n_envs=4, n_steps=8, steps=32)
    assert counts(lambda: complete(config)) == (0, complete(config))
    n, _ = counts(lambda: train(config, seeds=[0, 1], out=tmp_path / "run"))
    assert n == 2 * 4
    n, run = counts(lambda: load_run(tmp_path / "run"))
    assert n == 4
    for expected in (4, 0):  # the second time nothing is left to be found out
        n, _ = counts(lambda: run.act(np.zeros(1, dtype=np.float32)))
        assert n == expected
    n, _ = counts(lambda: evaluate(run, episodes=2))
    assert n == 2 * 4
