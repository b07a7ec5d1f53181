import pytest
from hypothesis import given
from hypothesis import strategies as st

from markovlens.agents.seeds import parse_seeds


def test_single_seeds_and_ranges():
    assert parse_seeds("3") == (3,)
    assert parse_seeds("0..2, 7") == (0, 1, 2, 7)


@given(st.integers(0, 50), st.integers(0, 20))
def test_ranges_include_both_ends(first, more):
    assert parse_seeds(f"{first}..{first + more}") == tuple(range(first, first + more + 1))


@pytest.mark.parametrize("bad", ["", "x", "1..", "3..1", "1,1", "0..4,2", "-1", "1.5"])
def test_mistakes(bad):
    with pytest.raises(ValueError, match="seed"):
        parse_seeds(bad)
