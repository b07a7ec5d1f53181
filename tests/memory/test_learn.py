"""Learning a memory: known answers, one seed or many, stopped and resumed, and bad input."""

import jax
import numpy as np
import optax
import pytest

import markovlens as ml
from markovlens.memory.config import MemoryConfig
from markovlens.memory.describe import flow, moves
from markovlens.memory.learn import learn_memories, learn_memory
from markovlens.memory.run import MemoryRun

SHORT = {"memory_steps": 300, "policy_steps": 300, "learning_rate": 0.03, "n_policies": 10}


@pytest.fixture(scope="module")
def tmaze():
    return ml.library.tmaze(corridor=1)


@pytest.fixture(scope="module")
def short(tmaze):
    return learn_memories(tmaze, 2, [0, 1], **SHORT)


def test_results_are_what_they_say(tmaze, short):
    for found in short:
        value = float(ml.start_value(tmaze, found.policy, memory=found.memory))
        assert found.value == pytest.approx(value, rel=1e-9)
        revealing = np.asarray(found.revealing_policy)
        before = float(ml.lambda_discrepancy(tmaze, revealing))
        assert found.initial_discrepancy == pytest.approx(before, rel=1e-9)
        repeated = np.repeat(revealing[:, None], 2, axis=1)
        after = float(ml.lambda_discrepancy(tmaze, repeated, memory=found.memory))
        assert found.discrepancy == pytest.approx(after, rel=1e-9)
        assert found.discrepancy < found.initial_discrepancy
        assert list(found.history) == ["memory", "policy"]
        assert found.history["memory"][-1] == pytest.approx(after**2, rel=0.1)


def test_the_most_discrepant_of_the_policies_is_chosen(tmaze):
    """The chosen one beats the mean of fresh random ones; uniform is the uniform one."""
    with jax.enable_x64(True):
        run = MemoryRun(tmaze, 2, range(8), MemoryConfig(n_policies=50))
        plain = MemoryRun(tmaze, 2, range(8), MemoryConfig(initial_policy="uniform"))
        chosen = np.sqrt(run.initial_discrepancy)
    random = [float(ml.lambda_discrepancy(tmaze, ml.random_policy(tmaze, s))) for s in range(40)]
    assert chosen.min() > np.mean(random)
    assert np.ptp(plain.initial_discrepancy) == 0.0
    uniform = float(ml.lambda_discrepancy(tmaze, ml.uniform_policy(tmaze)))
    assert np.sqrt(plain.initial_discrepancy[0]) == pytest.approx(uniform)


def test_steps_are_those_of_plain_gradient_descent(tmaze):
    """A second implementation: the public discrepancy, jax.grad and optax in a Python loop."""
    steps = {"memory_steps": 3, "policy_steps": 0, "n_policies": 5}
    found = learn_memory(tmaze, 2, seed=3, optimizer="sgd", learning_rate=0.1, **steps)
    with jax.enable_x64(True):
        run = MemoryRun(tmaze, 2, [3], MemoryConfig(**steps))
        run._enter("memory")
        policy, logits = jax.nn.softmax(run.logits.policy[0]), run.logits.memory[0]
        optimiser = optax.sgd(0.1)
        state = optimiser.init(logits)

        def objective(x):
            return ml.lambda_discrepancy(tmaze, policy, memory=jax.nn.softmax(x)) ** 2

        for _ in range(3):
            updates, state = optimiser.update(jax.grad(objective)(logits), state)
            logits = optax.apply_updates(logits, updates)
        expected = np.asarray(jax.nn.softmax(logits))
    assert np.asarray(found.memory) == pytest.approx(expected, abs=1e-9)


def test_many_seeds_equal_one_by_one(tmaze, short):
    alone = learn_memory(tmaze, 2, 1, **SHORT)
    assert alone.value == pytest.approx(short[1].value, rel=1e-6)
    assert short[0].value != pytest.approx(short[1].value, rel=1e-6)


def test_resumed_equals_uninterrupted(tmaze, short, tmp_path):
    """Stopped by Ctrl-C twice, in different stages, and gone on with: the same numbers."""
    file = tmp_path / "half.npz"

    def interrupt_after(work):
        def progress(done, status=""):
            if done >= work:
                raise KeyboardInterrupt

        return progress

    for work in (500, 1100):
        with pytest.raises(KeyboardInterrupt):
            learn_memories(
                tmaze, 2, [0, 1], checkpoint=file, progress=interrupt_after(work), **SHORT
            )
    resumed = learn_memories(tmaze, 2, [0, 1], checkpoint=file, **SHORT)
    for found, expected in zip(resumed, short, strict=True):
        assert found.value == expected.value
        assert (np.asarray(found.memory) == np.asarray(expected.memory)).all()
        assert found.history["memory"].tolist() == expected.history["memory"].tolist()


def test_numbers_of_numpy_make_the_same_run(tmaze, tmp_path):
    file = tmp_path / "half.npz"
    learned = learn_memory(tmaze, 2, checkpoint=file, **SHORT)
    numpy = {name: np.float64(value) for name, value in SHORT.items()}
    again = learn_memory(tmaze, np.int64(2), checkpoint=file, **numpy)
    assert again.value == learned.value


def test_a_checkpoint_of_another_run_is_refused(tmaze, tmp_path):
    file = tmp_path / "half.npz"
    learn_memory(tmaze, 2, checkpoint=file, **SHORT)
    with pytest.raises(ValueError, match="belongs to a different run"):
        learn_memory(tmaze, 2, seed=5, checkpoint=file, **SHORT)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="is not a saved run"):
        learn_memory(tmaze, 2, checkpoint=file, **SHORT)
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(ValueError, match="is not a saved run"):
        learn_memory(tmaze, 2, checkpoint=file, **SHORT)


@pytest.mark.slow
def test_best_recipe_solves_the_tmaze():
    """Every seed, with one bit; and the bit is the colour."""
    tmaze = ml.library.tmaze()
    for found in learn_memories(tmaze, 2, range(3), "best", polish_steps=1000):
        assert found.value > 0.99 * 2.125764
        steps = flow(tmaze, found)
        colours = [tmaze.observations.index(name) for name in ("blue", "red")]
        remembered = steps[colours].sum(axis=(1, 2)).argmax(axis=1)
        assert set(remembered) == {0, 1}
        assert {m.action for m in moves(tmaze, found) if m.observation == "corridor"} == {"right"}


@pytest.mark.slow
def test_the_return_alone_does_not_solve_the_tmaze():
    """Policy and memory by the gradient of the return, from random starts: no better than none."""
    alone = MemoryConfig(memory_steps=0, policy_steps=0, joint_steps=2000, learning_rate=0.03)
    for found in learn_memories(ml.library.tmaze(), 2, range(6), alone):
        assert found.n_memory == 2
        assert found.value < 1.1  # memoryless: 1.0363; with the colour: 2.1258


@pytest.mark.slow
def test_parity_check_needs_a_random_memory_first():
    parity = ml.library.parity_check()
    with pytest.raises(ValueError, match=r"zero for all 24 random policies.*random_memory=True"):
        learn_memory(parity, 2, recipe="best")
    short = {"restarts": 4, "polish_steps": 500, "random_memory": True}
    found = learn_memory(parity, 2, recipe="best", **short)
    memoryless = learn_memory(parity, 1, recipe="best", restarts=1, polish_steps=0)
    assert memoryless.value == pytest.approx(0.0, abs=1e-6)
    assert found.value == pytest.approx(0.81, abs=0.01)  # γ² · 1, and nothing pays more


def test_markov_observations_have_nothing_to_remember():
    mdp = ml.library.load("equivalent_mdp_collapsed")
    with pytest.raises(ValueError, match="either the observations are Markov"):
        learn_memory(mdp, 2, n_policies=5)
    with pytest.raises(ValueError, match="even with a random memory"):
        learn_memory(mdp, 2, n_policies=5, random_memory=True)


def test_rounding_near_gamma_one_is_not_taken_for_a_discrepancy():
    block = ml.library.random_block_mdp(0)
    patient = ml.Pomdp(block.T, block.R, block.Phi, block.p0, gamma=0.99999)
    with pytest.raises(ValueError, match="either the observations are Markov"):
        learn_memory(patient, 2, n_policies=5)


def test_no_reward_no_states_no_seeds(tmaze):
    nothing = ml.Pomdp(
        T=tmaze.T, R=np.zeros_like(tmaze.R), Phi=tmaze.Phi, p0=tmaze.p0, gamma=tmaze.gamma
    )
    with pytest.raises(ValueError, match="pays no reward"):
        learn_memory(nothing, 2)
    with pytest.raises(ValueError, match="n_memory = 0; 2 is one bit"):
        learn_memory(tmaze, 0)
    with pytest.raises(ValueError, match="no seeds"):
        learn_memories(tmaze, 2, [])
    with pytest.raises(ValueError, match="nothing to do: with one memory state"):
        learn_memory(tmaze, 1, policy_steps=0)
    with pytest.raises(ValueError, match="unknown setting 'memory_step'; did you mean"):
        learn_memory(tmaze, 2, memory_step=3)


def test_a_uniform_policy_without_discrepancy_is_not_said_to_be_many():
    tmaze = ml.library.tmaze()
    reward = np.where(np.asarray(tmaze.R) > 0.0, 4.0, np.where(np.asarray(tmaze.R) < 0.0, -4.0, 0))
    even = ml.Pomdp(tmaze.T, reward, tmaze.Phi, tmaze.p0, tmaze.gamma)
    with pytest.raises(ValueError, match="of the uniform policy is zero; initial_policy="):
        learn_memory(even, 2, initial_policy="uniform")
    for_return = {"memory_steps": 0, "policy_steps": 0, "joint_steps": 1}
    assert np.isfinite(learn_memory(even, 2, initial_policy="uniform", **for_return).value)


def test_a_fresh_policy_also_where_joint_learning_comes_first(tmaze):
    """A step too small to see leaves the policy it started from: near uniform."""
    for_return = {"memory_steps": 5, "policy_steps": 0, "joint_steps": 1, "learning_rate": 1e-9}
    found = learn_memory(tmaze, 2, policy_start="fresh", **for_return)
    np.testing.assert_allclose(found.policy, 0.25, atol=0.15)
    assert not np.allclose(found.revealing_policy, 0.25, atol=0.15)


def test_moves_are_distributions(tmaze, short):
    shares = flow(tmaze, short[0])
    assert shares.sum() == pytest.approx(1.0)
    told = moves(tmaze, short[0], seldom=0.0)
    for m, o in {(move.memory, move.observation) for move in told}:
        chances = [x.chance for x in told if (x.memory, x.observation) == (m, o)]
        assert sum(chances) == pytest.approx(1.0)


def test_memory_states_are_counted(tmaze):
    with pytest.raises(ValueError, match=r"whole one: got 2\.0"):
        learn_memory(tmaze, 2.0)


def test_a_restart_that_diverged_is_not_the_best(tmaze, monkeypatch):
    short = {"memory_steps": 2, "policy_steps": 2, "n_policies": 2}

    def returns(run):
        return np.array([np.nan, 1.0, 2.0]) if len(run.restart) == 3 else np.array([2.0])

    monkeypatch.setattr(MemoryRun, "returns", returns)
    assert learn_memory(tmaze, 2, restarts=3, polish_steps=1, **short).restart == 2
    monkeypatch.setattr(MemoryRun, "returns", lambda run: np.array([np.nan]))
    with pytest.raises(ValueError, match=r"learning diverged with seed 0: .*lower learning_rate"):
        learn_memory(tmaze, 2, **short)
