"""The learner's objective is the λ-discrepancy's square, in both views, with the right gradient."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import markovlens as ml
from markovlens.memory.config import MemoryConfig
from markovlens.memory.objective import discounted_return, squared_discrepancy
from markovlens.pomdp.policies import random_distributions
from markovlens.values.links import DENSE, links_of_pomdp


def random_agent(pomdp, n_memory, seed):
    keys = jax.random.split(jax.random.key(seed))
    n_observations, n_actions = pomdp.n_observations, pomdp.n_actions
    policy = random_distributions(keys[0], (n_observations, n_memory, n_actions))
    memory = random_distributions(keys[1], (n_observations, n_actions, n_memory, n_memory))
    return policy, memory


def evaluate(function, *args, **kwargs):
    with jax.enable_x64(True):
        return float(jax.jit(lambda *xs: function(*xs, *args[3:], **kwargs))(*args[:3]))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "max"},
        {"weighting": "occupancy"},
        {"lam1": 0.3, "lam2": 0.9},
    ],
)
@pytest.mark.parametrize("name", ["tmaze", "network"])
def test_square_of_the_discrepancy(name, changes):
    pomdp, config = ml.library.load(name), replace(MemoryConfig(), **changes)
    policy, memory = random_agent(pomdp, 3, 1)
    found = evaluate(squared_discrepancy, pomdp, policy, memory, config)
    expected = float(ml.lambda_discrepancy(pomdp, policy, memory=memory, **changes))
    assert found == pytest.approx(expected**2, rel=1e-10)


@pytest.mark.parametrize("name", ["tmaze", "network", "paint"])
def test_folded_view_is_the_memoryless_folded_pomdp(name):
    pomdp = ml.library.load(name)
    policy, memory = random_agent(pomdp, 2, 2)
    folded = ml.fold_memory(pomdp, memory)
    flat = np.asarray(policy).reshape(folded.n_observations, folded.n_actions)
    config = MemoryConfig(view="folded")
    found = evaluate(squared_discrepancy, pomdp, policy, memory, config)
    assert found == pytest.approx(float(ml.lambda_discrepancy(folded, flat)) ** 2, rel=1e-9)
    value = evaluate(discounted_return, pomdp, policy, memory, "folded")
    assert value == pytest.approx(float(ml.start_value(folded, flat)), rel=1e-9)


def test_views_agree_exactly_when_every_state_emits_one_observation():
    """And not otherwise: a folded memory looks at an observation of its own."""
    for name, agree in (("cheese", True), ("network", False)):
        pomdp = ml.library.load(name)
        policy, memory = random_agent(pomdp, 2, 3)
        exact = evaluate(discounted_return, pomdp, policy, memory, "exact")
        folded = evaluate(discounted_return, pomdp, policy, memory, "folded")
        assert (exact == pytest.approx(folded, rel=1e-9)) is agree
        assert exact == pytest.approx(float(ml.start_value(pomdp, policy, memory)), rel=1e-10)


@pytest.mark.parametrize("view", ["exact", "folded"])
@pytest.mark.parametrize("what", ["discrepancy", "return"])
def test_gradients_are_differences(view, what):
    """The derivative along a random direction, against central differences."""
    pomdp = ml.library.load("network")
    policy, memory = random_agent(pomdp, 2, 4)
    with jax.enable_x64(True):
        start = (jnp.log(policy), jnp.log(memory))
        keys = jax.random.split(jax.random.key(5))
        along = tuple(jax.random.normal(key, x.shape) for key, x in zip(keys, start, strict=True))

        def objective(step):
            logits = [x + step * d for x, d in zip(start, along, strict=True)]
            agent = [jax.nn.softmax(x) for x in logits]
            if what == "return":
                return discounted_return(pomdp, *agent, view)
            return squared_discrepancy(pomdp, *agent, MemoryConfig(view=view))

        objective = jax.jit(objective)
        slope = float(jax.grad(objective)(0.0))
        h = 1e-5
        difference = float(objective(h) - objective(-h)) / (2 * h)
    assert slope == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize(
    "name",
    ["tmaze", "cheese", "network", "paint", "shuttle", "tiger", "maze4x3", "parity_check"],
)
def test_objectives_and_gradients_are_the_same_by_elimination(name):
    check_both_ways(ml.library.load(name))


@pytest.mark.parametrize("gamma", [0.9, 0.9999, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_elimination_in_random_pomdps(seed, gamma):
    pomdp = sparse_pomdp(seed, gamma)
    assert links_of_pomdp(pomdp).states is not None
    check_both_ways(pomdp)


def sparse_pomdp(seed, gamma):
    """Few successors for each state and action, the last state terminal, Φ stochastic."""
    rng = np.random.default_rng(seed)
    T = rng.exponential(size=(2, 8, 8)) * (rng.random((2, 8, 8)) < 0.2)
    T[:, np.arange(8), (np.arange(8) + 1) % 8] += 0.1
    T[:, -1] = np.eye(8)[-1]
    R = rng.normal(size=(8, 2))
    R[-1] = 0.0
    Phi = rng.dirichlet(np.full(3, 0.3), size=8) * (rng.random((8, 3)) < 0.7) + 1e-3 * np.eye(8, 3)
    Phi[Phi.sum(axis=1) == 0.0, 0] = 1.0
    return ml.Pomdp(
        T=T / T.sum(axis=-1, keepdims=True),
        R=R,
        Phi=Phi / Phi.sum(axis=-1, keepdims=True),
        p0=np.eye(8)[0],
        gamma=gamma,
    )


def check_both_ways(pomdp):
    links = links_of_pomdp(pomdp)
    agent = random_agent(pomdp, 3, 6)

    def both(policy, memory, links):
        square = squared_discrepancy(pomdp, policy, memory, MemoryConfig(), links)
        return square + discounted_return(pomdp, policy, memory, "exact", links)

    with jax.enable_x64(True):
        found, expected = (
            jax.jit(jax.value_and_grad(lambda *agent, way=way: both(*agent, way), (0, 1)))(*agent)
            for way in (links, DENSE)
        )
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9 * max(1.0, np.abs(y).max()))
