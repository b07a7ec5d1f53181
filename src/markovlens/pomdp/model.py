"""What a POMDP is: five arrays, a discount, and the names of things."""

from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float

from markovlens.precision import as_float64, in_float64, is_traced

STAYS = 1e-12  # how far from 1 the probability of staying may be rounded
ROW_SUM_TOLERANCE = 1e-6
EXACT_ENOUGH = 1e-12  # a row this close to 1 is left as it is, so that reading undoes writing


Rows = TypeVar("Rows", Array, np.ndarray)


class Pomdp(eqx.Module):
    """A finite partially observable Markov decision process.

    An agent in hidden state `s` sees `o ~ Phi[s]`, acts `a`, is paid `R[s, a]`
    and moves to `s' ~ T[a, s]`. The first state is drawn from `p0`.

    Arguments:
        T: transition probabilities `T[a, s, s']`; here and below, rows that miss 1 by rounding (up
            to 1e-6) are divided by their sum.
        R: expected rewards `R[s, a]`; `R[a, s, s']` is also accepted and averaged over `s'`.
        Phi: observation probabilities `Phi[s, o]`.
        p0: start distribution `p0[s]`.
        gamma: discount in [0, 1]. 1 is allowed when every policy ends.
        states, actions, observations: optional names, one for each index.

    >>> import numpy as np
    >>> coin = Pomdp(T=np.ones((1, 1, 1)), R=np.ones((1, 1)), Phi=np.ones((1, 1)), p0=[1.0],
    ...              gamma=0.9)
    >>> coin
    Pomdp(1 state, 1 action, 1 observation, gamma=0.9)
    """

    T: Float[Array, "A S S"]
    R: Float[Array, "S A"]
    Phi: Float[Array, "S O"]
    p0: Float[Array, "S"]
    gamma: Float[Array, ""]
    states: tuple[str, ...] = eqx.field(static=True)
    actions: tuple[str, ...] = eqx.field(static=True)
    observations: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        T: ArrayLike,
        R: ArrayLike,
        Phi: ArrayLike,
        p0: ArrayLike | Sequence[float],
        gamma: ArrayLike,
        states: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        observations: Sequence[str] | None = None,
    ):
        given: dict[str, Any] = {"T": T, "R": R, "Phi": Phi, "p0": p0, "gamma": gamma}
        arrays = as_float64({name: _numbers(name, value) for name, value in given.items()})
        traced = is_traced(arrays)
        self.T, self.Phi, self.p0 = arrays["T"], arrays["Phi"], arrays["p0"]
        self.gamma = arrays["gamma"]
        _check_shapes(self.T, arrays["R"], self.Phi, self.p0, self.gamma)
        n_actions, n_states, _ = self.T.shape
        self.states = _names("states", states, n_states, "s")
        self.actions = _names("actions", actions, n_actions, "a")
        self.observations = _names("observations", observations, self.Phi.shape[1], "o")
        if not traced:
            _check_finite({name: np.asarray(value) for name, value in arrays.items()})
            _check_probabilities(self)
            self.T, self.Phi, self.p0 = map(normalised, (self.T, self.Phi, self.p0))
        self.R = _expected_reward(self.T, arrays["R"])
        if not traced:
            _check_gamma(self)

    @property
    def n_states(self) -> int:
        return len(self.states)

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def n_observations(self) -> int:
        return len(self.observations)

    @property
    def terminal(self) -> Bool[Array, "S"]:
        """States that no action leaves and that pay nothing: the episode is over there."""
        with jax.enable_x64(True):
            return never_left(self.T) & (self.R == 0.0).all(axis=1)

    def __repr__(self) -> str:
        sizes = (
            _count(self.n_states, "state"),
            _count(self.n_actions, "action"),
            _count(self.n_observations, "observation"),
        )
        known = eqx.is_array(self.gamma) and self.gamma.ndim == 0 and not is_traced(self.gamma)
        gamma = f"{float(self.gamma):g}" if known else repr(self.gamma)
        return f"Pomdp({', '.join(sizes)}, gamma={gamma})"


def normalised(rows: Rows) -> Rows:
    """Rows that nearly sum to 1, as float32 leaves them, divided by their sums: near γ = 1 what is
    missing would count 1 / (1 - γ) times."""
    sums = np.asarray(rows).sum(axis=-1, keepdims=True)
    if (np.abs(sums - 1.0) <= EXACT_ENOUGH).all():
        return rows
    with jax.enable_x64(True):
        return rows / np.where(np.abs(sums - 1.0) > EXACT_ENOUGH, sums, 1.0)


@in_float64
def _expected_reward(T: Float[Array, "A S S"], R: Array) -> Float[Array, "S A"]:
    return R if R.ndim == 2 else jnp.einsum("ast,ast->sa", T, R)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _numbers(name: str, value: Any) -> Any:
    if isinstance(value, jax.Array):
        return value
    try:
        if np.iscomplexobj(value):
            raise TypeError("probabilities and rewards are real numbers")
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be an array of numbers, got {type(value).__name__}: {error}"
        ) from None


def _names(kind: str, names: Sequence[str] | None, expected: int, prefix: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{prefix}{i}" for i in range(expected))
    names = tuple(str(name) for name in names)
    if len(names) != expected:
        raise ValueError(
            f"{kind} has {len(names)} names but the arrays have {expected} {kind}; "
            f"give {expected} names, or none"
        )
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{kind} names must differ, but {name!r} appears twice")
        seen.add(name)
    return names


def never_left(T: Any) -> Any:
    """Which states no action leaves, [S]; `T[a, s, s']` of NumPy or JAX."""
    return (T.diagonal(axis1=1, axis2=2) > 1.0 - STAYS).all(axis=0)


def _check_shapes(T: Array, R: Array, Phi: Array, p0: Array, gamma: Array) -> None:
    if T.ndim != 3 or T.shape[1] != T.shape[2] or 0 in T.shape:
        raise ValueError(f"T must have shape [actions, states, states], got {list(T.shape)}")
    n_actions, n_states, _ = T.shape
    if R.shape not in ((n_states, n_actions), (n_actions, n_states, n_states)):
        raise ValueError(
            f"R must have shape [states, actions] = [{n_states}, {n_actions}] or "
            f"[actions, states, states] = [{n_actions}, {n_states}, {n_states}] to go with T, "
            f"got {list(R.shape)}"
        )
    if Phi.ndim != 2 or Phi.shape[0] != n_states or Phi.shape[1] == 0:
        raise ValueError(
            f"Phi must have shape [states, observations] with {n_states} states, "
            f"got {list(Phi.shape)}"
        )
    if p0.shape != (n_states,):
        raise ValueError(f"p0 must have shape [states] = [{n_states}], got {list(p0.shape)}")
    if gamma.shape != ():
        raise ValueError(f"gamma must be a single number, got shape {list(gamma.shape)}")


def _check_finite(arrays: dict[str, np.ndarray]) -> None:
    for name, value in arrays.items():
        if not np.isfinite(value).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
            raise ValueError(
                f"{name}{list(index) if index else ''} is {value[index]}; "
                "every number must be finite"
            )


def _check_probabilities(pomdp: Pomdp) -> None:
    for a, action in enumerate(pomdp.actions):
        _check_rows(
            np.asarray(pomdp.T[a]),
            lambda s, action=action: f"T of action {action!r} in state {pomdp.states[s]!r}",
            pomdp.states,
        )
    _check_rows(
        np.asarray(pomdp.Phi), lambda s: f"Phi of state {pomdp.states[s]!r}", pomdp.observations
    )
    _check_rows(np.asarray(pomdp.p0)[None], lambda _: "p0", pomdp.states)


def _check_gamma(pomdp: Pomdp) -> None:
    gamma = float(pomdp.gamma)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must be in [0, 1], got {gamma:g}")
    if gamma == 1.0:
        _check_every_policy_ends(pomdp)


def _check_rows(rows: np.ndarray, describe, columns: Sequence[str]) -> None:  # type: ignore[no-untyped-def]
    if (rows < 0).any():
        i, j = np.argwhere(rows < 0)[0]
        raise ValueError(
            f"{describe(i)}: the probability of {columns[j]!r} is {rows[i, j]:g}; "
            "probabilities cannot be negative"
        )
    sums = rows.sum(axis=1)
    bad = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"{describe(i)}: the row sums to {sums[i]:.6g}, expected 1; "
            "divide it by its sum, or add the missing outcomes"
        )


def _check_every_policy_ends(pomdp: Pomdp) -> None:
    """With γ = 1 no policy may avoid the terminal states for ever.

    Shrinks the non-terminal states to the largest set some policy can stay
    inside with certainty; it must be empty.
    """
    moves = np.asarray(pomdp.T) > 0.0
    trap = ~np.asarray(pomdp.terminal)
    while trap.any():
        can_stay = (~moves[:, :, ~trap].any(axis=2)).any(axis=0)
        if (trap & can_stay == trap).all():
            state = pomdp.states[int(np.argmax(trap))]
            raise ValueError(
                f"gamma = 1 needs every policy to end, but from state {state!r} one can go on "
                "for ever; use gamma < 1 (say 0.9999), or add a terminal state"
            )
        trap &= can_stay
