import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from markovlens.agents.networks import actor_critic

T, N, D, A, H = 7, 2, 6, 3, 8


def network(cell="gru", n_critics=2, **kwargs):
    return actor_critic(D, A, H, n_critics, cell, np.random.default_rng(0), **kwargs)


def n_parameters(net):
    return sum(leaf.size for leaf in jax.tree.leaves(net))


def test_initial_weights_have_the_stated_gains_and_no_bias():
    net = network()
    for layer, gain in ((net.latent, 2**0.5), (net.actor, 0.01)):
        w = np.asarray(layer.weight)
        np.testing.assert_allclose(w.T @ w, gain**2 * np.eye(w.shape[1]), atol=1e-4)
        assert not layer.bias.any()
    for head in np.split(np.asarray(net.heads.weight), 3, axis=1):
        np.testing.assert_allclose(head.T @ head, 4.0 * np.eye(H), atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(net.value_weight, axis=1), 1.0, rtol=1e-5)


def test_critics_are_separate():
    net = network()
    memory = jnp.float32(np.random.default_rng(1).normal(size=(N, H)))

    def second_value(heads):
        return eqx.tree_at(lambda n: n.heads.weight, net, heads).outputs(memory).value[:, 1].sum()

    influence = np.abs(jax.grad(second_value)(net.heads.weight)).sum(axis=0)
    assert not influence[: 2 * H].any()
    assert influence[2 * H :].any()


@pytest.mark.parametrize("cell", ["gru", "lstm", "mingru", "none"])
def test_steps_and_sequence_agree(cell):
    net = network(cell)
    rng = np.random.default_rng(2)
    x = jnp.float32(rng.normal(size=(T, N, D)))
    first = jnp.asarray(rng.random((T, N)) < 0.3)
    memory = net.memory(N) + 0.5
    together = jax.jit(type(net).sequence)(net, x, memory, first)
    step = jax.jit(type(net).step)
    for t in range(T):
        memory = step(net, x[t], memory, first[t])
        np.testing.assert_allclose(memory, together[t], atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"again": (0, 4)}, {"continuous": True}])
@pytest.mark.parametrize(("cell", "size"), [("gru", 8), ("gru", 16), ("gru", 80), ("lstm", 16)])
def test_the_actor_alone_acts_the_same(cell, size, options):
    n_outputs = 6 if "continuous" in options else A
    rng = np.random.default_rng(1)
    net = actor_critic(D, n_outputs, size, 2, cell, rng, **options)
    net = jax.tree.map(lambda p: p + 0.1 * jnp.float32(rng.normal(size=p.shape)), net)
    alone = net.without_critics()
    for n in (1, 3, 4, 6):
        x = jnp.float32(rng.normal(size=(n, D)))
        memory = jnp.float32(rng.normal(size=net.memory(n).shape))
        first = jnp.asarray(rng.random(n) < 0.5)
        expected, said = net.act(x, memory, first)
        found, alone_said = jax.jit(type(alone).act)(alone, x, memory, first)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(alone_said.action, said.action, atol=1e-5)
        assert alone_said.value.shape == (n, 0)


def test_what_is_fed_again_bypasses_the_first_layer():
    net = network(again=(0,))
    assert net.encoder.first.weight.shape == (D, 2 * H)
    assert net.encoder.second.weight.shape == (2 * H + 1, H)
    blind = eqx.tree_at(lambda n: n.encoder.first.weight, net, jnp.zeros((D, 2 * H)))
    x = jnp.zeros((1, D))
    seen = blind.encoder(x.at[0, 0].set(1.0)) - blind.encoder(x)
    unseen = blind.encoder(x.at[0, 1].set(1.0)) - blind.encoder(x)
    assert seen.any()
    assert not unseen.any()


def test_a_second_critic_costs_about_twelve_percent():
    """The paper's statement, at the size it uses for RockSample(11, 11)."""
    rng = np.random.default_rng(0)
    one, two = (actor_critic(33, 16, 128, n, "gru", rng) for n in (1, 2))
    assert 0.10 < n_parameters(two) / n_parameters(one) - 1 < 0.13
