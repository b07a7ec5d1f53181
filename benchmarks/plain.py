"""The baseline of benchmarks/ppo.py: the same agent, written without any of the tricks.

The GRU multiplies its input and its memory by six matrices inside the loop and is differentiated by
JAX; each environment is reset at every step and the fresh start kept where the episode ended; noise
is drawn step by step; values are computed while acting.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from markovlens.agents import ppo, program
from markovlens.agents.actions import action_distribution, forbid
from markovlens.agents.gru import GRU
from markovlens.agents.rollout import Rollout, max_truncations
from markovlens.envs.vector import VectorState


class PlainGRU(GRU):
    """The same unit with the same parameters."""

    def project(self, x):
        return x  # nothing is done ahead

    def step(self, x, memory):
        w, u = jnp.split(self.inputs.weight, 3, axis=1), jnp.split(self.recurrent, 3, axis=1)
        b = jnp.split(self.inputs.bias, 3)
        reset = jax.nn.sigmoid(x @ w[0] + b[0][None] + memory @ u[0])
        update = jax.nn.sigmoid(x @ w[1] + b[1][None] + memory @ u[1])
        new = jnp.tanh(x @ w[2] + b[2][None] + reset * (memory @ u[2] + self.bias[None]))
        return (1.0 - update) * new + update * memory

    def sequence(self, x, memory, first):
        def one(memory, now):
            x_t, first_t = now
            memory = self.step(x_t, jnp.where(first_t[:, None], 0.0, memory))
            return memory, memory

        return jax.lax.scan(one, memory, (x, first))[1]


def plainly(network):
    """The network with its GRU replaced by the plain one."""
    gru = network.cell
    plain = object.__new__(PlainGRU)
    for name in ("inputs", "recurrent", "bias"):
        object.__setattr__(plain, name, getattr(gru, name))
    return eqx.tree_at(lambda net: net.cell, network, plain)


def collect(env, network, memory, state, key, length):
    """Act, with everything computed at every step."""
    distribution = action_distribution(env.action_space)
    flatten = jax.vmap(env.observation_space.flatten)
    n = state.first.shape[0]

    def one(loop, key):
        memory, state = loop
        act_key, step_key, reset_key = jax.random.split(key, 3)
        x = flatten(state.observation)
        memory = network.step(x, memory, state.first)
        allowed = jax.vmap(env.action_mask)(state.env_state) if env.masks_actions else None
        said = network.outputs(memory)
        action = distribution.sample(
            forbid(said.action, allowed), distribution.noise(act_key, (n,))
        )
        after, step = jax.vmap(env.step)(jax.random.split(step_key, n), state.env_state, action)
        start, seen = jax.vmap(env.reset)(jax.random.split(reset_key, n))

        def restart(fresh, old):
            return jnp.where(step.ended.reshape(-1, *(1,) * (old.ndim - 1)), fresh, old)

        now = VectorState(
            jax.tree.map(restart, start, after), restart(seen, step.observation), step.ended
        )
        out = (x, state.first, action, allowed, step, flatten(step.observation), memory, said.value)
        return (memory, now), out

    (last, state), (x, first, action, allowed, step, led_to, memories, _) = jax.lax.scan(
        one, (memory, state), jax.random.split(key, length)
    )
    flags = step.reward, step.terminated, step.truncated
    return last, state, Rollout(x, first, action, allowed, *flags, led_to, memory, memories)


class PlainProgram(program.Program):
    """A `Program` of plain updates."""

    def start(self):
        state = super().start()
        return eqx.tree_at(
            lambda s: (s.learner.network, s.learner.moments),
            state,
            (plainly(state.learner.network), _plain_moments(state.learner.moments)),
        )

    def _some_updates(self, env_arrays, hyper, n, state):
        env = eqx.combine(env_arrays, self._env_rules)
        step = partial(_update, env, self.config, hyper)
        return jax.lax.fori_loop(0, n, lambda _, state: step(state), state)


def _plain_moments(moments):
    return moments._replace(mu=plainly(moments.mu), nu=plainly(moments.nu))


def _update(env, config, hyper, state):
    run_key = jax.random.wrap_key_data(state.key)
    act_key, learn_key = jax.random.split(jax.random.fold_in(run_key, state.learner.update))
    distribution = action_distribution(env.action_space)
    network = state.learner.network
    memory, vector, rollout = collect(
        env, network, state.memory, state.vector, act_key, config.n_steps
    )
    watch, rollout, episodes, sd = program.observe(state.watch, rollout)
    cuts = max_truncations(env, config.n_steps)
    batch = ppo.judge(network, distribution, hyper, rollout, cuts)
    passes = ppo.Passes(config.epochs, config.minibatches)
    learner, progress = ppo.learn(
        state.learner, distribution, hyper, passes, batch, state.memory, learn_key
    )
    watch = program.note(watch, progress, episodes, sd)
    return program.RunState(learner, memory, vector, watch, state.key)
