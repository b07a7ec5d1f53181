"""Sets as bits, against Python's sets."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markovlens.envs import bits


@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
@given(data=st.data())
def test_unpacking_undoes_packing(n, data):
    members = data.draw(st.sets(st.integers(0, n - 1)))
    dense = np.isin(np.arange(n), list(members))
    words = bits.pack(dense)
    assert words.shape == (bits.n_words(n),)
    assert sum(int(word) << (32 * i) for i, word in enumerate(words)) == sum(
        1 << m for m in members
    )
    np.testing.assert_array_equal(np.asarray(bits.unpack(jnp.asarray(words), n)), dense)


@given(st.integers(-40, 99))
def test_a_single_member(i):
    dense = np.asarray(bits.unpack(bits.single(jnp.int32(i), 4), 100))
    np.testing.assert_array_equal(dense, np.arange(100) == i)
