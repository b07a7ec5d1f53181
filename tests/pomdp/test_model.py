"""What `Pomdp` accepts, what it refuses, and how it says so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from markovlens.pomdp.library import random_pomdp
from markovlens.pomdp.model import ROW_SUM_TOLERANCE, Pomdp
from markovlens.values.td_lambda import start_value


def parts(**changes):
    """Two states that an action swaps or keeps, seen through a noisy sensor."""
    swap, keep = np.eye(2)[::-1], np.eye(2)
    arrays = {
        "T": np.stack([keep, swap]),
        "R": np.array([[0.0, 1.0], [2.0, 3.0]]),
        "Phi": np.array([[0.8, 0.2], [0.3, 0.7]]),
        "p0": np.array([1.0, 0.0]),
        "gamma": 0.9,
        "states": ["day", "night"],
        "actions": ["keep", "swap"],
        "observations": ["light", "dark"],
    }
    return arrays | changes


def changed(array, index, value):
    array = np.array(array, dtype=float)
    array[index] = value
    return array


def test_fields_are_float64_and_sizes_follow():
    pomdp = Pomdp(**parts())
    for field in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0, pomdp.gamma):
        assert field.dtype == np.float64
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (2, 2, 2)
    assert repr(pomdp) == "Pomdp(2 states, 2 actions, 2 observations, gamma=0.9)"


def test_names_default_to_a_letter_and_a_number():
    pomdp = Pomdp(**parts(states=None, actions=None, observations=None))
    assert pomdp.states == ("s0", "s1")
    assert pomdp.actions == ("a0", "a1")
    assert pomdp.observations == ("o0", "o1")


T, PHI = parts()["T"], parts()["Phi"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"T": changed(T, (1, 0, 1), 0.7)}, r"T of action 'swap' in state 'day': .*sums to 0\.7"),
        ({"Phi": changed(PHI, (1, 0), 0.4)}, r"Phi of state 'night': the row sums to 1\.1"),
        ({"p0": [0.5, 0.4]}, r"p0: the row sums to 0\.9"),
        ({"T": changed(T, (1, 0), [-0.5, 1.5])}, r"T of action 'swap' .*'day' is -0\.5.*negative"),
        ({"Phi": [[1.2, -0.2], [0, 1]]}, r"Phi of state 'day': .*'dark' is -0\.2.*negative"),
        ({"p0": [-1.0, 2.0]}, r"p0: the probability of 'day' is -1.*negative"),
        ({"T": changed(T, (1, 0, 1), np.nan)}, r"T\[1, 0, 1\] is nan.*finite"),
        ({"R": changed(np.zeros((2, 2)), (1, 0), np.inf)}, r"R\[1, 0\] is inf.*finite"),
        ({"Phi": changed(PHI, (0, 0), np.nan)}, r"Phi\[0, 0\] is nan.*finite"),
        ({"gamma": np.nan}, r"gamma is nan.*finite"),
        ({"gamma": 1.5}, r"gamma must be in \[0, 1\], got 1\.5"),
        ({"gamma": -0.1}, r"gamma must be in \[0, 1\], got -0\.1"),
        ({"gamma": [0.9, 0.9]}, r"gamma must be a single number, got shape \[2\]"),
        ({"gamma": 1.0}, r"gamma = 1 needs every policy to end.*'day'.*gamma < 1"),
        ({"T": T[0]}, r"T must have shape \[actions, states, states\], got \[2, 2\]"),
        ({"T": T[:, :, :1]}, r"T must have shape .*got \[2, 2, 1\]"),
        (
            {"R": np.zeros((2, 3))},
            r"R must have shape \[states, actions\] = \[2, 2\].*got \[2, 3\]",
        ),
        ({"Phi": np.eye(3)}, r"Phi must have shape \[states, observations\] with 2 states"),
        ({"p0": [1.0]}, r"p0 must have shape \[states\] = \[2\], got \[1\]"),
        ({"T": "fog"}, r"T must be an array of numbers, got str"),
        ({"R": 1j * np.eye(2)}, r"R must be an array of numbers.* real numbers"),
        ({"states": ["day"]}, r"states has 1 names but the arrays have 2"),
        ({"actions": ["go", "go"]}, r"actions names must differ, but 'go' appears twice"),
    ],
)
def test_every_kind_of_offender_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        Pomdp(**parts(**changes))


def test_rewards_by_next_state_are_averaged_over_it():
    T = np.array([[[0.25, 0.75], [1.0, 0.0]]])
    R = np.array([[[8.0, 4.0], [-1.0, 99.0]]])
    pomdp = Pomdp(T=T, R=R, Phi=np.eye(2), p0=[1.0, 0.0], gamma=0.5)
    np.testing.assert_allclose(np.asarray(pomdp.R), [[5.0], [-1.0]], rtol=0, atol=1e-15)


def test_an_observation_that_never_occurs_is_legal():
    pomdp = Pomdp(**parts(Phi=[[1.0, 0.0], [1.0, 0.0]]))
    assert pomdp.n_observations == 2


def test_terminal_states_neither_move_nor_pay():
    stay = np.broadcast_to(np.eye(3), (2, 3, 3)).copy()
    stay[1, 2] = [1.0, 0.0, 0.0]  # the third state can be left
    R = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # the second one pays
    pomdp = Pomdp(T=stay, R=R, Phi=np.eye(3), p0=[0.0, 0.0, 1.0], gamma=0.9)
    assert pomdp.terminal.tolist() == [True, False, False]


def test_gamma_one_is_legal_exactly_when_every_policy_ends():
    end = [0.0, 0.0, 1.0]
    forth, back = [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]
    rest = {"R": np.zeros((3, 2)), "Phi": np.eye(3), "p0": [1, 0, 0], "gamma": 1.0}
    Pomdp(T=np.array([[forth, end, end], [end, end, end]]), **rest)
    # A chance to end at every turn of a cycle is enough ...
    half = [0.5, 0.0, 0.5]
    Pomdp(T=np.array([[forth, half, end], [forth, end, end]]), **rest)
    # ... but one policy that can cycle for ever is one too many.
    with pytest.raises(ValueError, match="one can go on for ever"):
        Pomdp(T=np.array([[forth, end, end], [end, back, end]]), **rest)


def test_traced_numbers_pass_unchecked_and_differentiate():
    def total_reward(scale):
        pomdp = Pomdp(**parts(R=scale * jnp.ones((2, 2)), gamma=scale))
        assert repr(pomdp).startswith("Pomdp(2 states, 2 actions, 2 observations, gamma=")
        return pomdp.R.sum() + pomdp.gamma

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(total_reward))(jnp.asarray(0.5))
    assert float(slope) == 5.0


def test_a_model_can_be_made_inside_what_is_traced():
    with jax.enable_x64(True):
        doubled = jax.jit(lambda x: x * Pomdp(**parts(gamma=0.5)).gamma)(2.0)
    assert float(doubled) == 1.0


def test_shapes_are_checked_even_when_traced():
    with pytest.raises(ValueError, match="p0 must have shape"):
        jax.jit(lambda p0: Pomdp(**parts(p0=p0)).p0)(jnp.ones(3))


def test_a_stack_of_pomdps_can_be_vmapped():
    pomdps = [random_pomdp(seed) for seed in range(3)]
    with jax.enable_x64(True):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pomdps)
        means = jax.vmap(lambda pomdp: pomdp.R.mean())(stacked)
    expected = [np.asarray(pomdp.R).mean() for pomdp in pomdps]
    np.testing.assert_allclose(np.asarray(means), expected, rtol=1e-12, atol=1e-12)


@given(
    rows=st.lists(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3), min_size=3, max_size=3),
    scale=st.floats(0.0, 2.0),
)
def test_a_row_is_accepted_exactly_when_it_is_a_distribution(rows, scale):
    Phi = np.array(rows) * scale
    good = (np.abs(Phi.sum(axis=1) - 1.0) <= ROW_SUM_TOLERANCE).all()
    still = {"T": np.eye(3)[None], "R": np.zeros((3, 1)), "p0": [1, 0, 0], "gamma": 0.9}
    if good:
        Pomdp(Phi=Phi, **still)
    else:
        with pytest.raises(ValueError, match=r"Phi of state 's[012]': the row sums to"):
            Pomdp(Phi=Phi, **still)
    sums = Phi.sum(axis=1, keepdims=True)
    if (sums > 1e-3).all():
        Pomdp(Phi=Phi / sums, **still)


def test_rows_that_float32_rounded_are_put_right():
    """A row that misses 1 by 3e-8 would miss the value by 3e-8 / (1 - γ), and worse."""
    third = np.full((1, 3, 3), 1 / 3, dtype=np.float32)
    paid = {"R": np.ones((3, 1)), "Phi": np.ones((3, 1)), "p0": np.full(3, 1 / 3)}
    for gamma in (0.9999, 1 - 1e-8):
        value = start_value(Pomdp(T=third, gamma=gamma, **paid), np.ones((1, 1)))
        assert float(value) == pytest.approx(1 / (1 - gamma), rel=1e-6)


def test_a_policy_that_float32_rounded_is_put_right():
    one = Pomdp(T=np.ones((3, 1, 1)), R=np.ones((1, 3)), Phi=[[1.0]], p0=[1.0], gamma=0.999999)
    policy = np.array([[0.1, 0.2, 0.7]], dtype=np.float32)
    assert policy.astype(float).sum() != 1.0
    assert float(start_value(one, policy)) == pytest.approx(1e6, rel=1e-9)
