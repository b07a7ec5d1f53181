"""Tiny environments with known answers."""

import jax.numpy as jnp
import numpy as np

from markovlens.envs.env import Env, Step, TimeLimit
from markovlens.envs.spaces import Box, Discrete
from markovlens.envs.tabular import Tabular
from markovlens.pomdp.model import Pomdp


def bandit() -> Env:
    """One step; action 1 pays 1."""
    T = np.zeros((2, 2, 2))
    T[:, :, 1] = 1.0
    R = np.array([[0.0, 1.0], [0.0, 0.0]])
    return TimeLimit(Tabular(Pomdp(T=T, R=R, Phi=np.eye(2), p0=[1.0, 0.0], gamma=0.9)), 10)


def delay() -> Env:
    """Two steps; the first action decides what the second step pays."""
    start, good, bad, end = range(4)
    T = np.zeros((2, 4, 4))
    T[1, start, good] = T[0, start, bad] = 1.0
    T[:, [good, bad, end], end] = 1.0
    R = np.zeros((4, 2))
    R[good] = 1.0
    return TimeLimit(Tabular(Pomdp(T=T, R=R, Phi=np.eye(4), p0=[1, 0, 0, 0], gamma=0.9)), 10)


def remember() -> Env:
    """A bit is shown, then hidden for a step; then the action must name it: +1 or -1."""
    T = np.zeros((2, 7, 7))
    for bit in (0, 1):
        shown, hidden, asked = bit, 2 + bit, 4 + bit
        T[:, shown, hidden] = T[:, hidden, asked] = T[:, asked, 6] = 1.0
    T[:, 6, 6] = 1.0
    R = np.zeros((7, 2))
    R[4], R[5] = [1.0, -1.0], [-1.0, 1.0]
    Phi = np.zeros((7, 5))
    Phi[[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 2, 3, 3, 4]] = 1.0
    p0 = [0.5, 0.5, 0, 0, 0, 0, 0]
    return TimeLimit(Tabular(Pomdp(T=T, R=R, Phi=Phi, p0=p0, gamma=0.9)), 10)


def learn_the_arm() -> Env:
    """Ten steps; one of two arms pays 1, another one each episode, and nothing but pay tells."""
    T = np.tile(np.eye(2), (2, 1, 1))
    R, Phi = np.eye(2), np.ones((2, 1))
    return TimeLimit(Tabular(Pomdp(T=T, R=R, Phi=Phi, p0=[0.5, 0.5], gamma=0.9)), 10)


class Aim(Env):
    """One step; the reward is how near a number comes to 0.5, at most 0."""

    @property
    def gamma(self):
        return 0.9

    @property
    def observation_space(self):
        return Discrete(1)

    @property
    def action_space(self):
        return Box((1,), -1.0, 1.0)

    def reset(self, key):
        return jnp.int32(0), jnp.int32(0)

    def noise(self, key):
        return None

    def transition(self, state, action, noise):
        reward = -((action[0] - 0.5) ** 2)
        return state, Step(jnp.int32(0), reward, jnp.bool_(True), jnp.bool_(False))


class Steady(Env):
    """Pays 1 a step for ever; ends in the way it is told to, after `length` steps."""

    length: int
    terminates: bool

    @property
    def gamma(self):
        return 0.5

    @property
    def observation_space(self):
        return Discrete(1)

    @property
    def action_space(self):
        return Discrete(2)

    @property
    def time_limit(self):
        return None if self.terminates else self.length

    def reset(self, key):
        return jnp.int32(0), jnp.int32(0)

    def noise(self, key):
        return None

    def transition(self, state, action, noise):
        over = state + 1 >= self.length
        yes, no = over & self.terminates, over & (not self.terminates)
        return state + 1, Step(jnp.int32(0), jnp.float32(1.0), yes, no)
