import jax
import jax.numpy as jnp
import numpy as np

from markovlens.agents.kernel import one_kernel, whole_loops


def powers(x, w):
    """x W, x W², … up to x W⁵, row by row."""
    return jax.lax.scan(lambda x, _: (x @ w, x @ w), x, length=5)[1]


def example(n=1):
    rng = np.random.default_rng(0)
    return jnp.float32(rng.normal(size=(n, 1, 40))), jnp.float32(rng.normal(size=(40, 40)) / 7)


def whole(*args):
    with whole_loops():
        return one_kernel(powers)(*args)


def has_loop(function, *args):
    entry = jax.jit(function).lower(*args).compile().as_text().split("ENTRY")[1]
    return " while(" in entry


def test_same_numbers_as_without():
    (x,), w = example()
    np.testing.assert_allclose(jax.jit(whole)(x, w), powers(x, w), rtol=1e-5, atol=1e-6)


def test_under_vmap_and_inside_a_loop():
    xs, w = example(3)
    expected = jnp.stack([powers(x, w) for x in xs])
    mapped = jax.jit(jax.vmap(whole, in_axes=(0, None)))(xs, w)
    looped = jax.jit(lambda xs, w: jax.lax.map(lambda x: whole(x, w), xs))(xs, w)
    np.testing.assert_allclose(mapped, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(looped, expected, rtol=1e-5, atol=1e-6)


def test_the_loop_is_one_call_on_a_cpu():
    (x,), w = example()
    assert has_loop(whole, x, w) == (jax.default_backend() != "cpu")


def test_nothing_is_kept_whole_unasked():
    (x,), w = example()
    assert has_loop(one_kernel(powers), x, w)
    assert has_loop(lambda x: one_kernel(powers)(x, w), x)  # w is known: this must not abort
