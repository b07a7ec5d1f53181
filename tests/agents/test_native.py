"""The native code against what XLA makes of the definitions."""

import os
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.agents.cells import CELLS
from markovlens.agents.native import library
from markovlens.agents.native.dense import dense_layer
from markovlens.agents.native.outputs import output_layers
from markovlens.agents.native.recurrence import fits, native_sequence
from markovlens.agents.networks import actor_critic
from markovlens.cores import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def normal(rng, *shape):
    return jnp.float32(rng.normal(size=shape))


def close(got, expected, tolerance=2e-5):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=10 * tolerance, atol=tolerance * np.abs(b).max())


def test_it_is_there_where_there_is_a_compiler():
    assert library.available()


@pytest.mark.parametrize("name", ["gru", "lstm"])
@pytest.mark.parametrize("often", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize(
    ("length", "n", "units"), [(1, 1, 16), (40, 1, 48), (33, 3, 64), (9, 6, 80)]
)
def test_a_loop_equals_autodiff_of_steps(name, length, n, units, often):
    rng = np.random.default_rng(length)
    cell = CELLS[name](5, units, rng)
    cell = jax.tree.map(lambda p: p + 0.1 * normal(rng, *p.shape), cell)
    memory = normal(rng, n, cell.memory_size)
    projected = 3 * normal(rng, length, n, cell.recurrent.shape[1])
    first = jnp.asarray(rng.random((length, n)) < often)
    wanted = normal(rng, length, n, cell.memory_size)

    def steps(cell, projected, memory):
        def step(memory, now):
            x, first = now
            memory = cell.step(x, jnp.where(first[:, None], 0.0, memory))
            return memory, memory

        return jax.lax.scan(step, memory, (projected, first))[1]

    def native(cell, projected, memory):
        return cell.sequence(projected, memory, first)

    @partial(jax.jit, static_argnums=0)
    def outcome(function, *args):
        found, pull = jax.vjp(function, *args)
        return found, pull(wanted)

    assert fits(units)
    args = cell, projected, memory
    close(outcome(native, *args), outcome(steps, *args))


def test_gru_saturates_and_shows_what_is_not_a_number():
    x = jnp.zeros((3, 1, 48)).at[0].set(1e30).at[1].set(-1e30)
    sequence = jax.jit(partial(native_sequence, "gru"))
    zeros = jnp.zeros((1, 16)), jnp.zeros((3, 1), bool), jnp.zeros((16, 48)), jnp.zeros(48)
    memories = sequence(x, *zeros)
    np.testing.assert_allclose(memories[:, 0, 0], [0.0, -1.0, -0.5], atol=1e-6)
    assert np.isnan(sequence(x.at[1].set(jnp.nan), *zeros)[1:]).all()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("rows", "n_in", "n_out"), [(16, 1, 1), (19, 7, 33), (128, 40, 96), (31, 65, 16)]
)
def test_dense_layer_equals_its_definition(rows, n_in, n_out, positive):
    rng = np.random.default_rng(rows)
    x, weight, bias = normal(rng, rows, n_in), normal(rng, n_in, n_out), normal(rng, n_out)
    d_y = normal(rng, rows, n_out)

    def plain(x, weight, bias):
        y = x @ weight + bias[None]
        return jax.nn.relu(y) if positive else y

    def outcome(function):
        y, pull = jax.vjp(function, x, weight, bias)
        return y, pull(d_y)

    close(outcome(partial(dense_layer, positive)), outcome(plain), 1e-6)


def test_a_dense_layer_shows_what_is_not_a_number():
    x = jnp.ones((16, 3)).at[2, 1].set(jnp.nan)
    y = dense_layer(True, x, jnp.ones((3, 5)), jnp.zeros(5))
    assert np.isnan(y[2]).all()
    assert np.isfinite(np.delete(y, 2, axis=0)).all()


@pytest.mark.parametrize(
    ("rows", "size", "n_actions", "n_critics"), [(16, 7, 1, 1), (40, 48, 35, 2)]
)
def test_output_layers_equal_their_definition(rows, size, n_actions, n_critics):
    rng = np.random.default_rng(rows)
    hidden = normal(rng, rows, (1 + n_critics) * size)
    actor = normal(rng, size, n_actions), normal(rng, n_actions)
    critics = normal(rng, n_critics, size), normal(rng, n_critics)
    wanted = normal(rng, rows, n_actions), normal(rng, rows, n_critics)

    def plain(hidden, weight, bias, critics, critics_bias):
        parts = hidden.reshape(rows, 1 + n_critics, size)
        value = (parts[:, 1:] * critics[None]).sum(-1) + critics_bias[None]
        return parts[:, 0] @ weight + bias[None], value

    def outcome(function):
        found, pull = jax.vjp(function, hidden, *actor, *critics)
        return found, pull(wanted)

    close(outcome(output_layers), outcome(plain), 1e-6)


def test_a_step_of_acting_shows_what_is_not_a_number():
    net = actor_critic(3, 2, 16, 2, "gru", np.random.default_rng(0)).without_critics()
    x = jnp.ones((5, 3)).at[2, 1].set(jnp.nan)
    memory, said = net.act(x, jnp.zeros((5, 16)), jnp.zeros(5, bool))
    for found in (memory, said.action):
        assert np.isnan(found[2]).all()
        assert np.isfinite(np.delete(found, 2, axis=0)).all()


LARGE = """
import hashlib, jax, jax.numpy as jnp, numpy as np
from functools import partial
from markovlens.agents.native.adam import adam_step
from markovlens.agents.native.dense import dense_layer
from markovlens.agents.native.recurrence import native_sequence
from markovlens.agents.networks import actor_critic
rng = np.random.default_rng(0)
normal = lambda *shape: jnp.float32(rng.normal(size=shape) / 16)
first = jnp.asarray(rng.random((64, 1)) < 0.1)
def both(x, weight, bias, recurrent):
    rows = dense_layer(True, x, weight, bias)
    return native_sequence("gru", rows[:, None], jnp.zeros((1, 256)), first, recurrent, bias)
args = normal(64, 800), normal(800, 768), normal(768), normal(256, 768)
for _ in range(20):
    found, pull = jax.vjp(jax.jit(both), *args)
    found = found, pull(found)
network = actor_critic(700, 90, 128, 2, "gru", rng, again=(3, 5))
slope = jax.tree.map(lambda p: normal(*p.shape), network)
scales = jnp.array([0.1, 10.0, 1000.0, 0.5, 1.0])
adam = jax.jit(partial(adam_step, (0.9, 0.999), 1e-5))
moved = adam(scales, network, slope, slope, slope)
actor = network.without_critics()
seen, first = normal(4, 700), jnp.array([True, False, False, True])
acted = [actor.act(seen, normal(4, 128), first) for _ in range(20)]
found = found, moved, acted
numbers = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(found))
print(hashlib.sha256(numbers).hexdigest())
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True
    )


def test_a_second_thread_changes_not_one_bit():
    one, two = (run(LARGE, MARKOVLENS_THREADS=n) for n in ("1", "2"))
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert len(one.stdout) == 65
    assert one.stdout == two.stdout


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"MARKOVLENS_NATIVE": "0"}, ""),
        ({"CXX": "false", "MARKOVLENS_CACHE": ""}, "the native code could not be compiled"),
        ({"CXX": "no-such-compiler"}, "the native code could not be compiled"),
    ],
)
def test_without_it_all_works_too(environment, said):
    code = "from markovlens.agents.native import library; print(library.available())"
    answer = run(code, **environment)
    assert answer.stdout == "False\n", answer.stderr
    assert said in answer.stderr
    assert said or not answer.stderr


def test_nothing_is_kept_without_a_cache(tmp_path):
    code = "from markovlens.agents.native import library; print(library.available())"
    assert run(code, MARKOVLENS_CACHE="", TMPDIR=str(tmp_path)).stdout == "True\n"
    assert not list(tmp_path.iterdir())
