"""How fast the closed form is, and how it grows.

    python benchmarks/closed_form.py            # all parts
    python benchmarks/closed_form.py --part size

Three ways to the same numbers, in one run, interleaved, best of several:
  here    one solve over (state, memory) per λ, as the package does it
  tensor  the paper's formula as printed, compiled: Π over pairs of observations, W^A = W ⊗ I, and
          an inverse over state-action pairs, on the POMDP expanded over its memory
  naive   the same formula in NumPy, with Python loops over states, observations and actions
"""

import argparse
import resource
import subprocess
import sys
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import markovlens as ml
from markovlens.pomdp.model import Pomdp
from markovlens.values.td_lambda import _q_values

MODELS = ("tmaze", "cheese", "maze4x3", "paint")
MEMORIES = (1, 2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("models", "growth", "size"), default=None)
    part = parser.parse_args().part
    print(f"matrix product: {gflops():.0f} GFLOP/s (2048², float32)\n")
    if part in (None, "models"):
        models()
    if part in (None, "growth"):
        growth()
    if part in (None, "size"):
        size()


def models() -> None:
    print("milliseconds: Q^0 and Q^1, and the gradient of the discrepancy with respect to μ")
    print(
        f"{'model':>8} {'M':>3} {'here':>9} {'tensor':>9} {'naive':>9} "
        f"{'gradient':>9} {'tensor':>9}"
    )
    for name in MODELS:
        pomdp = ml.library.load(name)
        for n_memory in MEMORIES:
            policy, memory = random_agent(pomdp, n_memory)
            forms = (both, tensor_both, naive_both, gradient, tensor_gradient)
            row = best_of(*(partial(form, pomdp, policy, memory) for form in forms), repeats=3)
            print(
                f"{name:>8} {n_memory:>3} " + " ".join(f"{1e3 * seconds:>9.2f}" for seconds in row),
                flush=True,
            )
    print()


def growth() -> None:
    print(
        "growth of Q^0 and Q^1: one size at a time, the others held at |S|=100 |A|=4 |Ω|=20 |M|=1"
    )
    base = {"S": 100, "A": 4, "O": 20, "M": 1}
    for axis, sizes in (
        ("S", (50, 100, 200, 400, 800)),
        ("A", (2, 4, 8, 16)),
        ("O", (10, 20, 40, 80)),
        ("M", (1, 2, 4, 8)),
    ):
        line = []
        for n in sizes:
            s = base | {axis: n}
            pomdp = ml.library.random_pomdp(0, s["S"], s["A"], s["O"], gamma=0.95)
            policy, memory = random_agent(pomdp, s["M"])
            (seconds,) = best_of(partial(both, pomdp, policy, memory), repeats=3)
            line.append(f"{n}: {1e3 * seconds:.2f} ms, {working_memory(pomdp, policy, memory)}")
        print(f"  |{axis}|  " + ";  ".join(line))
    print()


def working_memory(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> str:
    """What XLA sets aside for one of the two, beside the model."""
    with jax.enable_x64(True):
        program = _q_values.__wrapped__.lower(
            pomdp, jnp.asarray(policy), jnp.asarray(memory), jnp.asarray(0.5)
        )
        return f"{program.compile().memory_analysis().temp_size_in_bytes / 2**20:.2f} MiB"


def size() -> None:
    """In a process of its own, so that the peak memory is that of this POMDP alone."""
    print("the largest: |S| = 3000, |A| = 10, |Ω| = 100, dense")
    code = (
        "from benchmarks.closed_form import largest; largest()"
        if __package__
        else "import runpy; runpy.run_path('benchmarks/closed_form.py')['largest']()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def largest() -> None:
    rng = np.random.default_rng(0)
    n_states, n_actions, n_observations = 3000, 10, 100
    T = rng.random((n_actions, n_states, n_states))
    T /= T.sum(axis=2, keepdims=True)
    Phi = np.eye(n_observations)[rng.integers(n_observations, size=n_states)]
    pomdp = Pomdp(
        T=T,
        R=rng.normal(size=(n_states, n_actions)),
        Phi=Phi,
        p0=np.full(n_states, 1.0 / n_states),
        gamma=0.95,
    )
    del T
    model = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    policy = np.asarray(ml.random_policy(pomdp))
    started = time.perf_counter()
    found = float(ml.lambda_discrepancy(pomdp, policy))
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    float(ml.lambda_discrepancy(pomdp, policy, 0.0, 0.9))
    again = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  Λ = {found:.4g} in {seconds:.1f} s (compiled anew), {again:.1f} s (again)")
    print(
        f"  T alone is {pomdp.T.nbytes / 2**30:.2f} GiB; the model took {model:.2f} GiB to build,"
    )
    print(f"  and the process peaked at {peak:.2f} GiB")


def random_agent(pomdp: Pomdp, n_memory: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n_observations, n_actions = pomdp.n_observations, pomdp.n_actions
    policy = rng.dirichlet(np.ones(n_actions), size=(n_observations, n_memory))
    memory = rng.dirichlet(np.ones(n_memory), size=(n_observations, n_actions, n_memory))
    return policy, memory


def both(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> object:
    return [ml.q_values(pomdp, policy, lam, memory=memory) for lam in (0.0, 1.0)]


def gradient(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> object:
    return _gradient(pomdp, policy, memory)


@jax.jit
def _gradient(pomdp: Pomdp, policy: jax.Array, memory: jax.Array) -> jax.Array:
    return jax.grad(lambda mu: ml.lambda_discrepancy(pomdp, policy, memory=mu))(memory)


def tensor_both(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> object:
    with jax.enable_x64(True):
        return [_tensor_q(pomdp, jnp.asarray(policy), jnp.asarray(memory), x) for x in (0.0, 1.0)]


def tensor_gradient(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> object:
    with jax.enable_x64(True):
        return _tensor_gradient(pomdp, jnp.asarray(policy), jnp.asarray(memory))


@jax.jit
def _tensor_gradient(pomdp: Pomdp, policy: jax.Array, memory: jax.Array) -> jax.Array:
    def discrepancy(mu: jax.Array) -> jax.Array:
        difference = _tensor_q(pomdp, policy, mu, 0.0) - _tensor_q(pomdp, policy, mu, 1.0)
        return jnp.sqrt((policy.reshape(difference.shape) * difference**2).sum())

    return jax.grad(discrepancy)(memory)


@jax.jit
def _tensor_q(pomdp: Pomdp, policy: jax.Array, memory: jax.Array, lam: float) -> jax.Array:
    """Equation (5) with the tensors of appendix C, on the paper's folded P_μ."""
    n_memory = memory.shape[-1]
    size, n_actions = pomdp.n_states * n_memory, pomdp.n_actions
    pi = policy.reshape(-1, n_actions)
    mu_s = jnp.einsum("so,oamn->samn", pomdp.Phi, memory)
    T = jnp.einsum("ast,samn->smatn", pomdp.T, mu_s).reshape(size, n_actions, size)
    R = jnp.repeat(pomdp.R, n_memory, axis=0)
    Phi = jnp.kron(pomdp.Phi, jnp.eye(n_memory))
    p0 = jnp.kron(pomdp.p0, jnp.eye(n_memory)[0])
    acting = Phi @ pi
    visits = jnp.linalg.solve(
        jnp.eye(size) - pomdp.gamma * jnp.einsum("sa,sat->st", acting, T).T, p0
    )
    counts = Phi.T * visits[None]
    W = counts / jnp.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    Pi = jnp.einsum("op,oa->opa", jnp.eye(len(pi)), pi)
    W_A = jnp.einsum("os,ab->oasb", W, jnp.eye(n_actions))
    W_Pi = jnp.einsum("opa,pasb->osb", Pi, W_A)
    Pi_S = jnp.einsum("st,sa->sta", jnp.eye(size), acting)
    K = lam * Pi_S + (1.0 - lam) * jnp.einsum("so,ota->sta", Phi, W_Pi)
    TK = jnp.einsum("sat,tub->saub", T, K).reshape(size * n_actions, size * n_actions)
    inverse = jnp.linalg.inv(jnp.eye(size * n_actions) - pomdp.gamma * TK)
    return W @ (inverse @ R.reshape(-1)).reshape(size, n_actions)


def naive_both(pomdp: Pomdp, policy: np.ndarray, memory: np.ndarray) -> object:
    sys.path.insert(0, ".")
    from tests.values import oracle

    folded = ml.fold_memory(pomdp, memory)
    pi = policy.reshape(-1, pomdp.n_actions)
    return [oracle.q_values(folded, pi, lam) for lam in (0.0, 1.0)]


def best_of(*functions, repeats: int = 7) -> list[float]:  # type: ignore[no-untyped-def]
    """Best seconds of each, taken in turns so that all meet the same noise."""
    best = [float("inf")] * len(functions)
    for function in functions:
        jax.block_until_ready(function())
    for _ in range(repeats):
        for i, function in enumerate(functions):
            started = time.perf_counter()
            jax.block_until_ready(function())
            best[i] = min(best[i], time.perf_counter() - started)
    return best


def gflops() -> float:
    x = jnp.ones((2048, 2048))
    product = jax.jit(lambda a: a @ a)
    (seconds,) = best_of(lambda: product(x))
    return 2 * 2048**3 / seconds / 1e9


if __name__ == "__main__":
    main()
