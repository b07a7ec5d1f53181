"""The belief-optimal value: numbers known by hand or from the literature, and identities."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markovlens.pomdp import library
from markovlens.pomdp.model import Pomdp
from markovlens.pomdp.solve import solve
from markovlens.pomdp.splitting import split_on_action

seeds = st.integers(0, 2**32 - 1)


def small_pomdp(seed, gamma=0.8, **sizes):
    sizes = {"n_states": 4, "n_actions": 2, "n_observations": 2} | sizes
    return library.random_pomdp(seed, gamma=gamma, **sizes)


def altered(pomdp, **changes):
    arrays = {name: np.asarray(getattr(pomdp, name)) for name in ("T", "R", "Phi", "p0", "gamma")}
    return Pomdp(**(arrays | changes))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tmaze", 4 * 0.9**6),  # six steps to the junction, then the goal
        ("parity_check", 0.9**2),
        ("tiger", 3.770189),
        ("shuttle", 32.889725),
    ],
)
def test_known_values(name, value):
    solution = solve(library.load(name), tol=1e-6)
    assert solution.converged
    np.testing.assert_allclose([solution.lower, solution.upper], value, rtol=2e-6)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if "network" in n else n for n in library.names()],
)
def test_the_whole_library_within_a_thousandth(name):
    solution = solve(library.load(name), tol=1e-3)
    assert solution.converged
    assert solution.lower <= solution.upper + 1e-9
    assert solution.gap <= 1e-3 * solution.lower


def test_the_classic_tiger_that_goes_on_for_ever():
    """19.3714 is what exact solvers of the literature report for a discount of 0.95."""
    listen = np.eye(2)
    anew = np.full((2, 2), 0.5)
    heard = np.array([[0.85, 0.15], [0.15, 0.85]])
    tiger = split_on_action(
        T=np.stack([listen, anew, anew]),
        R=np.array([[-1.0, -100.0, 10.0], [-1.0, 10.0, -100.0]]),
        O=np.stack([heard, anew, anew]),
        p0=np.array([0.5, 0.5]),
        gamma=0.95,
        states=["left", "right"],
        actions=["listen", "open-left", "open-right"],
        observations=["hear-left", "hear-right"],
    )
    solution = solve(tiger, tol=1e-5)
    np.testing.assert_allclose(solution.lower, 19.3714, atol=2e-4)


def test_the_first_observation_is_seen_before_the_first_action():
    """Guess a coin that is shown: blind the guess is worth a half, seen it is worth 0.9."""
    coin = Pomdp(
        T=np.full((2, 2, 2), 0.5),
        R=np.eye(2),
        Phi=[[0.9, 0.1], [0.1, 0.9]],
        p0=[0.5, 0.5],
        gamma=0.0,
    )
    solution = solve(coin)
    np.testing.assert_allclose([solution.lower, solution.upper], 0.9)


@settings(max_examples=10)
@given(seeds)
def test_if_the_state_is_seen_the_value_is_the_mdps(seed):
    pomdp = small_pomdp(seed, n_states=3)
    seen = altered(pomdp, Phi=np.eye(3))
    T, R = np.asarray(seen.T), np.asarray(seen.R)
    values = np.zeros(3)
    for _ in range(200):
        values = (R + 0.8 * np.einsum("ast,t->sa", T, values)).max(axis=1)
    solution = solve(seen, tol=1e-7)
    np.testing.assert_allclose(solution.lower, np.asarray(seen.p0) @ values, rtol=1e-6, atol=1e-6)


@settings(max_examples=10)
@given(seeds)
def test_no_memoryless_policy_is_better(seed):
    pomdp = small_pomdp(seed)
    solution = solve(pomdp)
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))
    for policy in np.random.default_rng(seed).dirichlet(np.full(2, 0.3), (20, 2)):
        acts = Phi @ policy
        moves = np.einsum("sa,ast->st", acts, T)
        values = np.linalg.solve(np.eye(4) - 0.8 * moves, (acts * R).sum(axis=1))
        assert p0 @ values <= solution.upper + 1e-9


@settings(max_examples=10)
@given(seeds)
def test_alphas_are_the_values_of_the_controller(seed):
    """The naive equation on the POMDP's own states: α_k = R_a + γ Σ_s' T Σ_o Φ α_then(k,o)."""
    pomdp = small_pomdp(seed)
    solution = solve(pomdp)
    T, R, Phi = np.asarray(pomdp.T), np.asarray(pomdp.R), np.asarray(pomdp.Phi)
    alphas = np.asarray(solution.alphas)
    for k, (a, then) in enumerate(zip(solution.actions, solution.then, strict=True)):
        after = np.array([sum(Phi[s, o] * alphas[then[o], s] for o in range(2)) for s in range(4)])
        np.testing.assert_allclose(alphas[k], R[:, a] + 0.8 * T[a] @ after, atol=1e-9)
    roots = np.asarray(pomdp.p0)[:, None] * Phi
    np.testing.assert_allclose(solution.lower, (alphas @ roots).max(axis=0).sum(), atol=1e-9)


@settings(max_examples=10)
@given(seeds)
def test_rewards_may_be_scaled_and_shifted(seed):
    pomdp = small_pomdp(seed)
    solution = solve(pomdp, tol=1e-5)
    moved = solve(altered(pomdp, R=3.0 * np.asarray(pomdp.R) + 50.0), tol=1e-7)
    slack = 1e-8 + moved.gap + 3.0 * solution.gap
    assert abs(moved.lower - (3.0 * solution.lower + 50.0 / 0.2)) <= slack


@settings(max_examples=10)
@given(seeds)
def test_ending_at_random_is_discounting(seed):
    """γ = 1 with a fifth of a chance to end at each step is γ = 0.8 without."""
    pomdp = small_pomdp(seed)
    discounted = solve(pomdp, tol=1e-5)
    T, Phi = np.zeros((2, 5, 5)), np.zeros((5, 3))
    T[:, :4, :4] = 0.8 * np.asarray(pomdp.T)
    T[:, :4, 4] = 0.2
    T[:, 4, 4] = 1.0
    Phi[:4, :2] = np.asarray(pomdp.Phi)
    Phi[4, 2] = 1.0
    R, p0 = np.zeros((5, 2)), np.zeros(5)
    R[:4], p0[:4] = np.asarray(pomdp.R), np.asarray(pomdp.p0)
    ending = solve(Pomdp(T, R, Phi, p0, gamma=1.0), tol=1e-5)
    assert abs(ending.lower - discounted.lower) <= ending.gap + discounted.gap + 1e-8


@settings(max_examples=10)
@given(seeds)
def test_a_state_in_two_copies_changes_nothing(seed):
    pomdp = small_pomdp(seed)
    origin = np.array([0, 1, 2, 3, 3])
    share = np.array([1.0, 1.0, 1.0, 0.3, 0.7])
    T, R, Phi, p0 = (np.asarray(x) for x in (pomdp.T, pomdp.R, pomdp.Phi, pomdp.p0))
    copied = Pomdp(
        T=T[:, origin][:, :, origin] * share,
        R=R[origin],
        Phi=Phi[origin],
        p0=p0[origin] * share,
        gamma=0.8,
    )
    one, two = solve(pomdp, tol=1e-5), solve(copied, tol=1e-5)
    assert abs(one.lower - two.lower) <= one.gap + two.gap + 1e-8


def test_nothing_to_gain():
    solution = solve(altered(small_pomdp(0), R=np.zeros((4, 2))))
    assert solution.converged
    assert solution.lower == solution.upper == 0.0


def test_nothing_to_gain_and_no_discount():
    """Every state is then as good as the end, and merged with it."""
    pomdp = small_pomdp(0, gamma=1.0, terminal=True)
    solution = solve(altered(pomdp, R=np.zeros((4, 2))))
    assert solution.lower == solution.upper == 0.0


def test_a_single_observation_is_no_observation():
    """Blind in two states that swap: alternate. 1 + γ + γ² + … = 5 with γ = 0.8."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    blind = Pomdp(
        T=np.stack([swap, swap]), R=np.eye(2), Phi=np.ones((2, 1)), p0=[1.0, 0.0], gamma=0.8
    )
    solution = solve(blind)
    np.testing.assert_allclose([solution.lower, solution.upper], 5.0)


def test_observations_that_never_occur_do_not_matter():
    pomdp = small_pomdp(3)
    wider = altered(pomdp, Phi=np.column_stack([np.asarray(pomdp.Phi), np.zeros(4)]))
    plain, more = solve(pomdp), solve(wider)
    np.testing.assert_allclose(more.lower, plain.lower)
    np.testing.assert_allclose(more.upper, plain.upper)


def test_a_value_of_nearly_zero_is_found():
    """Both actions cost or pay the same on average: no share of the value 0 could be reached."""
    fair = Pomdp(
        T=np.full((2, 2, 2), 0.5),
        R=[[1.0, -1.0], [-1.0, 1.0]],
        Phi=np.ones((2, 1)),
        p0=[0.5, 0.5],
        gamma=0.9,
    )
    solution = solve(fair)
    assert solution.converged
    assert solution.lower <= 1e-9 <= solution.upper + 2e-9


def test_an_interrupt_gives_the_bounds_so_far():
    def interrupt(done, status=""):
        raise KeyboardInterrupt

    solution = solve(library.load("maze4x3"), progress=interrupt)
    assert solution.interrupted
    assert not solution.converged
    assert solution.lower < 2.0247 < solution.upper


@pytest.mark.parametrize("name", ["paint", "maze4x3"])
def test_a_discount_near_one_is_no_harder(name):
    """Per step the value changes little between γ = 0.999 and 0.99999, and it is found as soon."""
    model = library.load(name)
    at = {g: solve(eqx.tree_at(lambda m: m.gamma, model, jnp.asarray(g))) for g in (0.999, 0.99999)}
    assert all(solution.converged for solution in at.values())
    assert at[0.99999].beliefs < 3 * at[0.999].beliefs
    per_step = [(1.0 - gamma) * solution.lower for gamma, solution in at.items()]
    np.testing.assert_allclose(*per_step, rtol=0.01)


def test_what_nobody_does_may_cost_any_amount():
    """The bounds are as near as was asked for, whatever a forbidden action costs."""
    base = small_pomdp(3, gamma=0.95)
    T, R = np.asarray(base.T), np.asarray(base.R)
    for cost in (1e6, 1e13):
        arrays = np.concatenate([T, T[:1]]), np.column_stack([R, np.full(4, -cost)])
        solution = solve(Pomdp(*arrays, base.Phi, base.p0, 0.95))
        assert solution.converged
        assert solution.gap <= 1.01e-3 * abs(solution.lower)


def test_states_are_told_apart_whatever_else_is_paid():
    costly = Pomdp(np.full((2, 2, 2), 0.5), [[1.0, -1e13], [0.0, -1e13]], np.eye(2), [1, 0], 0.9)
    solution = solve(costly)
    np.testing.assert_allclose([solution.lower, solution.upper], 5.5)


def test_the_upper_bound_holds_very_near_to_one():
    """Going to and fro is worth 1 + 1e-3 a step, staying 1."""
    gamma = 1.0 - 1e-9
    T = [[[1, 0], [1, 0]], [[0, 1], [1, 0]]]
    pomdp = Pomdp(T, np.array([[1.0, 1.501], [0.5, 1.501]]), np.eye(2), [1, 0], gamma)
    to_and_fro = 1.501 / (1.0 - gamma)
    assert solve(pomdp, tol=1e-6).upper >= to_and_fro * (1.0 - 1e-9)


def test_time_is_a_limit_too():
    solution = solve(library.load("network"), time=1e-9)
    assert not solution.converged
    assert solution.lower < 296.2187 < solution.upper


def test_progress_goes_from_0_to_1_while_the_gap_shrinks():
    seen = []
    solve(library.load("maze4x3"), progress=lambda done, status="": seen.append((done, status)))
    shares = [done for done, _ in seen]
    assert len(shares) > 2
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares[-1] == 1.0
    assert "gap" in seen[0][1]


@pytest.mark.parametrize("bad", [{"tol": 0.0}, {"tol": float("nan")}, {"time": -1.0}])
def test_bad_arguments_are_named(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        solve(small_pomdp(0), **bad)
