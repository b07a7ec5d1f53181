import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.agents.cell import Cell
from markovlens.agents.cells import CELLS

T, N, D = 9, 3, 5
SIZES = [4, 48]  # of these, native code has loops for the second
RECURRENT = ["gru", "lstm"]


def example(name, size, n=N):
    rng = np.random.default_rng(1)

    def normal(*shape):
        return jnp.float32(rng.normal(size=shape))

    cell = CELLS[name](D, size, rng)
    cell = jax.tree.map(lambda p: p + 0.3 * normal(*p.shape), cell)  # so that no bias is zero
    first = jnp.asarray(rng.random((T, n)) < 0.3)
    return cell, normal(T, n, D), normal(n, cell.memory_size), first


@jax.jit
def plain_sequence(cell: Cell, projected, memory, first):
    """The definition: one step after the other, differentiated by JAX."""
    memories = []
    for t in range(len(projected)):
        memory = cell.step(projected[t], jnp.where(first[t][:, None], 0.0, memory))
        memories.append(memory)
    return jnp.stack(memories)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CELLS)
def test_a_sequence_is_steps_in_a_loop(name, size):
    cell, x, memory, first = example(name, size)
    projected = cell.project(x)
    fast = jax.jit(type(cell).sequence)(cell, projected, memory, first)
    np.testing.assert_allclose(fast, plain_sequence(cell, projected, memory, first), atol=2e-6)


@pytest.mark.parametrize("n", [N, 1])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*RECURRENT, "mingru"])
def test_gradient_equals_autodiff_of_the_plain_cell(name, size, n):
    cell, x, memory, first = example(name, size, n)
    weights = jnp.float32(np.random.default_rng(9).normal(size=(T, n, cell.memory_size)))

    def loss(parts, sequence):
        cell, x, memory = parts
        memories = sequence(cell, cell.project(x), memory, first)
        return (weights * memories**2).sum()

    gradient = jax.jit(jax.grad(loss), static_argnums=1)
    fast = gradient((cell, x, memory), type(cell).sequence)
    plain = gradient((cell, x, memory), plain_sequence)
    for a, b in zip(jax.tree.leaves(fast), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(fast[0]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", RECURRENT)
def test_gradients_of_single_sequences_can_be_vmapped(name, size):
    cell, x, memory, first = example(name, size)

    def loss(cell, x, memory, first):
        memories = cell.sequence(cell.project(x[:, None]), memory[None], first[:, None])
        return (memories**2).sum()

    one_by_one = jax.vmap(jax.grad(loss), in_axes=(None, 1, 0, 1))(cell, x, memory, first)
    together = jax.grad(lambda c: (c.sequence(c.project(x), memory, first) ** 2).sum())(cell)
    for a, b in zip(jax.tree.leaves(one_by_one), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(a.sum(axis=0), b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*RECURRENT, "mingru"])
def test_memory_is_forgotten_exactly_where_an_episode_starts(name, size):
    cell, x, memory, _ = example(name, size)
    first = jnp.zeros((T, N), dtype=bool).at[4, 1].set(True)

    def influence(memory):
        return cell.sequence(cell.project(x), memory, first)

    reached = np.abs(jax.jit(jax.jacobian(influence))(memory)).sum(axis=(2, 3, 4)) > 0  # [T, N]
    expected = np.ones((T, N), dtype=bool)
    expected[4:, 1] = False
    np.testing.assert_array_equal(reached, expected)


def test_no_memory_sees_only_the_present():
    cell, x, memory, first = example("none", 4)
    changed = x.at[0].add(1.0)
    a, b = (cell.sequence(cell.project(v), memory, first) for v in (x, changed))
    np.testing.assert_array_equal(a[1:], b[1:])
    assert (a[0] != b[0]).any()


def test_gru_by_hand():
    """One unit, weights 1 in each gate: r = z = σ(x + h), n = tanh(x + r h), h' = (1-z) n + z h."""
    gru = CELLS["gru"](1, 1, np.random.default_rng(0))
    gru = eqx.tree_at(
        lambda c: (c.inputs.weight, c.recurrent), gru, (jnp.ones((1, 3)), jnp.ones((1, 3)))
    )
    x, h = 0.5, 0.25
    gate = 1 / (1 + np.exp(-(x + h)))
    candidate = np.tanh(x + gate * h)
    after = gru.step(gru.project(jnp.full((1, 1), x)), jnp.full((1, 1), h))
    np.testing.assert_allclose(after[0, 0], (1 - gate) * candidate + gate * h, rtol=1e-6)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_weights_start_orthogonal(name):
    cell = CELLS[name](D, 4, np.random.default_rng(3))
    for block in np.split(np.asarray(cell.recurrent), cell.recurrent.shape[1] // 4, axis=1):
        np.testing.assert_allclose(block.T @ block, np.eye(4), atol=1e-5)
