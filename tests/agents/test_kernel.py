import jax
import jax.numpy as jnp
import numpy as np

from markovlens.agents.kernel import one_kernel


def powers(x, w):
    """x W, x W², … up to x W⁵, row by row."""
    return jax.lax.scan(lambda x, _: (x @ w, x @ w), x, length=5)[1]


def example(n=1):
    rng = np.random.default_rng(0)
    return jnp.float32(rng.normal(size=(n, 1, 40))), jnp.float32(rng.normal(size=(40, 40)) / 7)


def test_same_numbers_as_without():
    (x,), w = example()
    once = one_kernel(powers)
    np.testing.assert_allclose(jax.jit(once)(x, w), powers(x, w), rtol=1e-5, atol=1e-6)


def test_under_vmap_and_inside_a_loop():
    xs, w = example(3)
    expected = jnp.stack([powers(x, w) for x in xs])
    mapped = jax.jit(jax.vmap(one_kernel(powers), in_axes=(0, None)))(xs, w)
    looped = jax.jit(lambda xs: jax.lax.map(lambda x: one_kernel(powers)(x, w), xs))(xs)
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(looped, expected, rtol=1e-5, atol=1e-6)


def test_the_loop_is_one_call_on_a_cpu():
    (x,), w = example()
    entry = jax.jit(one_kernel(powers)).lower(x, w).compile().as_text().split("ENTRY")[1]
    assert (" while(" in entry) == (jax.default_backend() != "cpu")
