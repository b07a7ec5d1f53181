"""Our environments through Gymnasium's eyes."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from markovlens.envs.adapters.registration import IDS, register
from markovlens.envs.adapters.to_gymnasium import GymnasiumEnv, GymnasiumVectorEnv
from markovlens.envs.env import TimeLimit
from markovlens.envs.registry import names
from markovlens.envs.tmaze import TMaze
from markovlens.pomdp import library
from markovlens.pomdp.cassandra import write_pomdp

register()
GAMES = ["PocMan-v0", "Battleship-10-v0", "RockSample-11-11-v0", "TMaze-5-v0", "Tiger-v0"]


def test_every_environment_of_the_registry_has_a_gymnasium_name():
    assert sorted(IDS.values()) == sorted(names())
    assert {f"markovlens/{name}" for name in IDS} <= set(gymnasium.registry)


@pytest.mark.parametrize("name", IDS)
def test_passes_gymnasiums_checker(name, capsys):
    env = gymnasium.make(f"markovlens/{name}")
    check_env(env.unwrapped, skip_render_check=name not in GAMES)


@pytest.mark.parametrize("imports", ["markovlens, gymnasium", "gymnasium, markovlens"])
def test_registered_whichever_is_imported_first(imports):
    program = f"""
import sys, {imports}
assert "markovlens/PocMan-v0" in gymnasium.registry
assert "jax" not in sys.modules, "registering must stay light"
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_any_size_by_name():
    env = gymnasium.make("markovlens/Env-v0", name="rocksample-5-3", seed=7)
    assert env.action_space.n == 8
    assert env.observation_space.n == 13


def test_an_environment_of_ones_own():
    own = TimeLimit(TMaze(2), 9)
    env = gymnasium.make("markovlens/Env-v0", name=own, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(9)]
    assert ends == [(False, False)] * 8 + [(False, True)]
    assert env.render().shape[2] == 3
    envs = gymnasium.make_vec("markovlens/Env-v0", num_envs=3, name=own)
    envs.reset(seed=0)
    cut = [envs.step(np.ones(3, dtype=int))[3].all() for _ in range(9)]
    assert cut == [False] * 8 + [True]


def test_an_environment_of_ones_own_is_as_it_was_made():
    for make in (GymnasiumEnv, lambda env, seed=0: GymnasiumVectorEnv(2, env, seed)):
        with pytest.raises(ValueError, match="seed 3 is for an environment by name"):
            make(TMaze(2), seed=3)
        with pytest.raises(ValueError, match=r"must be an Env .* got the class TMaze"):
            make(TMaze)


def rollout(env, seed, steps):
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    seen = [observation]
    for _ in range(steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen += [observation, reward, terminated, truncated]
        if terminated or truncated:
            seen.append(env.reset()[0])
    return np.concatenate([np.atleast_1d(x).astype(float) for x in seen])


def test_a_seed_gives_the_same_episodes_and_another_seed_others():
    env, twin = (gymnasium.make("markovlens/RockSample-11-11-v0") for _ in range(2))
    assert (rollout(env, 3, 60) == rollout(twin, 3, 60)).all()
    assert not np.array_equal(rollout(env, 3, 60), rollout(env, 4, 60))


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    file = tmp_path / "a.POMDP"
    for name, kinds in (("tiger", 2), ("cheese", 7)):
        write_pomdp(library.load(name), file)
        os.utime(file, ns=(kinds, kinds))  # however fast
        env = gymnasium.make("markovlens/Env-v0", name=str(file))
        assert env.observation_space.n == library.load(name).n_observations


def test_battleship_masks():
    env = gymnasium.make("markovlens/Battleship-10-v0").unwrapped
    _, info = env.reset(seed=0)
    assert info["action_mask"].sum() == env.action_masks().sum() == 100
    _, _, _, _, info = env.step(17)
    assert np.flatnonzero(~env.action_masks()).tolist() == [17]
    assert (info["action_mask"] == env.action_masks()).all()
    length = 1
    over = False
    while not over:
        _, reward, over, truncated, _ = env.step(int(np.argmax(env.action_masks())))
        length += 1
        assert not truncated
    assert length <= 100
    assert reward == 99.0


def test_battleship_is_cut_off_for_players_who_ignore_the_mask():
    env = gymnasium.make("markovlens/Battleship-10-v0")
    env.reset(seed=0)
    cut = [env.step(17)[2:4] for _ in range(100)]
    assert cut == [(False, False)] * 99 + [(False, True)]


@pytest.mark.parametrize("name", GAMES)
def test_pictures_change_with_the_game(name):
    env = gymnasium.make(f"markovlens/{name}", render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.dtype == np.uint8
    assert before.ndim == 3
    assert before.shape[2] == 3
    env.step(0)
    assert (env.render() != before).any()
    env.close()


# --- many at once ---------------------------------------------------------------------------


def test_vector_spaces_and_types():
    envs = gymnasium.make_vec("markovlens/PocMan-v0", num_envs=3)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observation, info = envs.reset(seed=0)
    assert envs.observation_space.contains(observation)
    assert info == {}
    envs.action_space.seed(0)
    observation, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observation)
    assert reward.shape == terminated.shape == truncated.shape == (3,)
    envs.close()


def test_vector_seeds_are_reproducible_and_copies_differ():
    def run(seed):
        envs = gymnasium.make_vec("markovlens/RockSample-11-11-v0", num_envs=8)
        first, _ = envs.reset(seed=seed)
        steps = [envs.step(np.full(8, 5 + t % 11))[0] for t in range(20)]
        return np.stack([first, *steps])

    assert (run(1) == run(1)).all()
    assert (run(1) != run(2)).any()
    assert (run(range(8)) == run(list(range(8)))).all()
    assert len(np.unique(run(1)[0], axis=0)) > 1


def test_vector_restarts_in_the_same_step_and_keeps_the_final_observation():
    envs = gymnasium.make_vec("markovlens/TMaze-5-v0", num_envs=4)
    first, _ = envs.reset(seed=0)
    right, up, stay = 2, 0, 1
    for _ in range(6):
        observation, *_ = envs.step(np.array([right, right, stay, right]))
    assert observation.tolist() == [3, 3, first[2], 3]  # at the junction, but for the third
    observation, reward, terminated, truncated, info = envs.step(np.full(4, up))
    assert terminated.tolist() == [True, True, False, True]
    assert not truncated.any()
    assert set(observation[[0, 1, 3]].tolist()) <= {0, 1}  # a fresh start's colour
    assert [info["final_obs"][i] for i in (0, 1, 3)] == [4, 4, 4]
    assert info["_final_obs"].tolist() == [True, True, False, True]
    goal_up = first == 0
    assert reward.tolist() == [
        np.float32(4.0 if goal_up[i] else -0.1) if i != 2 else 0.0 for i in range(4)
    ]


def test_vector_masks_follow_each_copy_through_restarts():
    envs = gymnasium.make_vec("markovlens/Env-v0", num_envs=2, name="battleship-5")
    _, info = envs.reset(seed=0)
    shots = np.zeros((2, 25), bool)
    ends = 0
    for _ in range(60):
        assert ((info["action_mask"] == 0) == shots).all()
        actions = info["action_mask"].argmax(-1)
        shots[[0, 1], actions] = True
        _, _, terminated, _, info = envs.step(actions)
        for i in np.flatnonzero(terminated):
            assert (info["final_info"]["action_mask"][i] == ~shots[i]).all()
        shots[terminated] = False
        ends += terminated.sum()
    assert ends >= 2


def test_vector_truncates_and_renders():
    envs = gymnasium.make_vec("markovlens/PocMan-v0", num_envs=2, render_mode="rgb_array")
    envs.reset(seed=0)
    envs.step(np.array([3, 1]))
    left, right = envs.render()
    assert left.shape == right.shape
    assert (left != right).any()
    with pytest.raises(ValueError, match="rgb_array"):
        gymnasium.make_vec("markovlens/PocMan-v0", num_envs=2, render_mode="human")


def test_vector_agrees_with_single():
    """The same distribution: mean returns of random play agree within their errors."""
    n = 400
    envs = gymnasium.make_vec("markovlens/TMaze-5-v0", num_envs=n)
    envs.reset(seed=0)
    envs.action_space.seed(1)
    totals = np.zeros(n)
    for _ in range(60):
        _, reward, *_ = envs.step(envs.action_space.sample())
        totals += reward
    env = gymnasium.make("markovlens/TMaze-5-v0")
    env.action_space.seed(2)
    single = []
    for i in range(40):
        env.reset(seed=100 + i)
        total = 0.0
        for _ in range(60):
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total += reward
            if terminated or truncated:
                env.reset()
        single.append(total)
    error = np.hypot(np.std(single) / np.sqrt(40), totals.std() / np.sqrt(n))
    assert abs(np.mean(single) - totals.mean()) < 4 * error


def test_actions_that_do_not_exist_are_refused():
    env = gymnasium.make("markovlens/Tiger-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"got the action 9, expected one of Discrete\(3\)"):
        env.step(9)
    envs = gymnasium.make_vec("markovlens/Tiger-v0", num_envs=2).unwrapped
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"got the action \[0, -1\]"):
        envs.step(np.array([0, -1]))
