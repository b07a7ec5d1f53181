"""Stable-Baselines3 learns on our environments through Gymnasium."""

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

from markovlens.envs.adapters.registration import register

register()
SMALL = {"n_steps": 256, "batch_size": 64, "seed": 0, "device": "cpu"}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small networks: more threads only get into each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_ppo_learns_the_way_out():
    """On a 3×3 RockSample, +10 lies two steps east at most; a random policy takes a while."""
    env = gymnasium.make("markovlens/Env-v0", name="rocksample-3-1")
    model = PPO(
        "MlpPolicy", env, gamma=0.9, learning_rate=3e-3, policy_kwargs={"net_arch": [16]}, **SMALL
    )
    lengths = []
    for _ in range(2):
        model.learn(1024, reset_num_timesteps=False)
        lengths.append(np.mean([episode["l"] for episode in list(model.ep_info_buffer)[-50:]]))
    assert lengths[1] < 2.5 < lengths[0]


@pytest.mark.slow
def test_maskable_ppo_never_shoots_twice_at_a_cell():
    class Referee(gymnasium.Wrapper):
        def step(self, action):
            assert self.env.unwrapped.action_masks()[action]
            return self.env.step(action)

        def action_masks(self):
            return self.env.unwrapped.action_masks()

    env = Referee(gymnasium.make("markovlens/Env-v0", name="battleship-5"))
    MaskablePPO("MlpPolicy", env, **SMALL).learn(512)
