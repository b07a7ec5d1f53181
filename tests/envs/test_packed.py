import jax
import jax.numpy as jnp
import numpy as np

from markovlens.envs.packed import Packed


def test_every_leaf_comes_back_as_it_was():
    rng = np.random.default_rng(0)
    trees = {
        "float": jnp.asarray(rng.normal(size=(2, 3, 4)), jnp.float32),
        "nan": jnp.full((2, 3), jnp.nan),
        "int": jnp.asarray(rng.integers(-9, 9, (2, 3)), jnp.int32),
        "unsigned": jnp.asarray(rng.integers(0, 2**32, (2, 3, 1, 2)), jnp.uint32),
        "bool": jnp.asarray(rng.random((2, 3, 5)) < 0.5),
        "byte": jnp.asarray(rng.integers(-9, 9, (2, 3, 2)), jnp.int8),
        "half": jnp.asarray(rng.normal(size=(2, 3)), jnp.float16),
        "nothing": jnp.zeros((2, 3, 0)),
        "key": jax.random.split(jax.random.key(0), (2, 3)),
    }
    packed = Packed(trees, 2)
    i, j = jnp.array([1, 0, 1]), jnp.array([2, 1, 0])
    for index in ((1, 2), (i, j)):
        found = packed[index].unpack()
        for name, leaf in trees.items():
            assert found[name].dtype == leaf.dtype
            np.testing.assert_array_equal(_plain(found[name]), _plain(leaf[index]))


def test_keys_alone():
    keys = jax.random.split(jax.random.key(0), (2, 3))
    np.testing.assert_array_equal(_plain(Packed(keys, 2)[1, 2].unpack()), _plain(keys[1, 2]))


def _plain(leaf):
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
