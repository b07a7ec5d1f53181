import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import polars as pl
import pytest

from markovlens.agents import training
from markovlens.agents.config import PPOConfig, RunSpec
from markovlens.agents.evaluate import estimate, evaluate
from markovlens.agents.folder import CHECKPOINT, CONFIG, META, METRICS, RunFolder
from markovlens.agents.program import Program
from markovlens.agents.run import load_run
from markovlens.agents.training import Diverged, train, train_together
from tests.agents.probes import Aim, Steady, bandit, delay, learn_the_arm, remember

SMALL = PPOConfig(env="tmaze-2", latent=8, n_steps=16, steps=64 * 20)


def same_networks(a, b):
    for x, y in zip(jax.tree.leaves(a._networks), jax.tree.leaves(b._networks), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_probe", "algo", "best"),
    [
        (bandit, "ld", 1.0),
        (delay, "ld", 1.0),
        (remember, "ld", 1.0),
        (remember, "rnn", 1.0),
        (Aim, "rnn", 0.0),
    ],
)
def test_probes_are_solved(make_probe, algo, best):
    config = PPOConfig(algo=algo, latent=16, steps=512 * 60, entropy_weight=0.0)
    run = train(config, env=make_probe())
    played = evaluate(run, episodes=50, greedy=True)
    assert played["return"].mean() > best - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("sees_rewards", [False, True])
def test_what_only_rewards_tell_is_learnt_by_who_sees_them(sees_rewards):
    config = PPOConfig(algo="rnn", latent=16, steps=512 * 60, entropy_weight=0.0)
    config = replace(config, previous_action=True, previous_reward=sees_rewards)
    got = evaluate(train(config, env=learn_the_arm()), episodes=200)["return"].mean()
    assert got > 9.0 if sees_rewards else got < 6.5  # at best 9.5, and 5


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "solves"), [("ld", True), ("rnn", True), ("memoryless", False)])
def test_only_agents_with_memory_solve_the_tmaze(algo, solves):
    run = train(PPOConfig(env="tmaze-2", algo=algo, steps=20_480), seeds=[0, 1])
    got = evaluate(run, episodes=200)["return"].mean()
    assert got > 3.9 if solves else got < 2.5  # half of the guesses are right: 1.95


@pytest.mark.slow
def test_a_run_stopped_anywhere_goes_on_bit_for_bit(tmp_path):
    """Killed outright, several times, at moments that depend on the machine."""
    whole = train(SMALL, seeds=[3, 4], out=tmp_path / "whole")
    code = (
        "from markovlens.agents.config import PPOConfig\n"
        "from markovlens.agents.training import train\n"
        f"train({SMALL!r}, seeds=[3, 4], out={str(tmp_path / 'cut')!r}, checkpoint_seconds=0.0)\n"
    )
    checkpoint = tmp_path / "cut" / CHECKPOINT
    kills = 0
    for _ in range(3):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", code])
        while process.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                time.sleep(0.003 * kills)
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.001)
        process.wait()
    assert kills
    with np.load(checkpoint) as saved:
        assert 0 < saved["done"] < SMALL.n_updates
    resumed = train(SMALL, seeds=[3, 4], out=tmp_path / "cut")
    same_networks(whole, resumed)
    drop = "steps_per_second"
    assert whole.metrics.drop(drop).equals(resumed.metrics.drop(drop))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tmaze"
    return train(SMALL, seeds=[0, 1], out=folder), folder


def test_a_folder_opens_as_it_was_left(finished):
    run, folder = finished
    again = load_run(folder)
    same_networks(run, again)
    assert again.specs == run.specs
    assert again.metrics.equals(run.metrics)
    meta = RunFolder(folder).meta()
    assert meta["finished"]
    assert meta["steps"] == SMALL.steps
    assert {"markovlens", "jax"} <= set(meta["versions"])


def test_metrics_have_a_row_for_every_interval_and_run(finished):
    run, _ = finished
    table = run.metrics
    assert table.height == 2 * SMALL.n_updates
    assert table["step"].max() == SMALL.steps
    assert table.filter(pl.col("run") == 1)["seed"].unique().to_list() == [1]
    for name in ("discrepancy", "entropy", "kl", "explained_variance_1", "explained_variance_2"):
        assert table[name].is_finite().all()


def test_a_finished_run_is_not_trained_again(finished):
    run, folder = finished
    checkpoint = (folder / CHECKPOINT).read_bytes()
    again = train(SMALL, seeds=[0, 1], out=folder)
    same_networks(run, again)
    assert load_run(folder).metrics.equals(run.metrics)
    assert checkpoint == (folder / CHECKPOINT).read_bytes()


def test_a_run_of_a_version_with_fewer_options_goes_on(finished, tmp_path):
    copy = shutil.copytree(finished[1], tmp_path / "copy")
    config = (copy / "config.toml").read_text()
    assert "previous_reward = false\n" in config
    (copy / "config.toml").write_text(config.replace("previous_reward = false\n", ""))
    same_networks(finished[0], train(SMALL, seeds=[0, 1], out=copy))


def test_what_made_a_finished_run_stays_written_down(finished, tmp_path):
    copy = shutil.copytree(finished[1], tmp_path / "copy")
    made = json.loads((copy / "meta.json").read_text()) | {"commit": "another"}
    (copy / "meta.json").write_text(json.dumps(made))
    train(SMALL, seeds=[0, 1], out=copy)
    assert json.loads((copy / "meta.json").read_text()) == made


def test_td_0_without_the_second_critic():
    assert PPOConfig(env="tmaze-5", algo="rnn", lam1=0.0).resolve().lam2 == 0.0


@pytest.mark.parametrize("option", ["beta", "lam2"])
def test_what_only_ld_has_is_refused_elsewhere(option):
    with pytest.raises(ValueError, match=f"{option} is for ld.* got {option} 0.3 with algo rnn"):
        PPOConfig(env="tmaze-5", algo="rnn", **{option: 0.3}).resolve()
    resolved = PPOConfig(env="tmaze-5", algo="rnn").resolve()
    assert resolved.resolve() == resolved


def test_training_together_is_training_alone(finished):
    together, _ = finished
    alone = train(SMALL, seed=1)
    for x, y in zip(
        jax.tree.leaves(together.network(1)), jax.tree.leaves(alone.network(0)), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_hyperparameters_can_differ_within_one_program(finished):
    base, _ = finished
    other = replace(SMALL, lam1=0.3, learning_rate=1e-4, beta=0.5)
    run = train_together([(SMALL, 0), (other, 0)])
    first = jax.tree.leaves(run.network(0))
    for x, y in zip(first, jax.tree.leaves(base.network(0)), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
    alone = jax.tree.leaves(train(other).network())
    for x, y, z in zip(jax.tree.leaves(run.network(1)), alone, first, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)
        assert (x != z).any()


def test_runs_of_different_structure_cannot_train_together():
    with pytest.raises(ValueError, match="latent is 8 and 16"):
        train_together(
            [(SMALL, 0), (PPOConfig(env="tmaze-2", latent=16, steps=1280, n_steps=16), 1)]
        )
    outside = PPOConfig(env="CartPole-v1", latent=8, steps=64, n_steps=16)
    with pytest.raises(ValueError, match="epochs is 4 and 3"):
        train_together([(outside, 0), (replace(outside, epochs=3), 0)])


def test_numbers_of_numpy_are_numbers(tmp_path):
    config = PPOConfig(
        env="tmaze-2", latent=np.int64(8), steps=np.float32(64), n_steps=16, gamma=np.float64(0.5)
    )
    train(config, out=tmp_path / "run")
    assert load_run(tmp_path / "run").spec().config.gamma == 0.5
    with pytest.raises(ValueError, match=r"latent must be a whole number, got 4\.5"):
        PPOConfig(latent=4.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train("tmaze-5"), r"got 'tmaze-5': write PPOConfig\(env='tmaze-5'\)"),
        (lambda: train_together([({"env": "tmaze-5"}, 0)]), r"must be a PPOConfig, got \{'env'"),
        (lambda: train(SMALL, seeds=3), r"like \[0, 1, 2\] or range\(3\), got 3"),
        (lambda: train(SMALL, seeds="0..3"), r"must be a list of whole numbers.*got '0\.\.3'"),
        (lambda: train(SMALL, seeds=[0, 0.5]), r"from 0 to 4294967295, got 0\.5"),
        (lambda: train(SMALL, seed=-1), "from 0 to 4294967295, got -1"),
        (lambda: train(SMALL, seed=1.5), r"got 1\.5"),
        (lambda: train(SMALL, seed=2**32), "from 0 to 4294967295, got 4294967296"),
        (lambda: train_together([(SMALL, -1)]), "got -1"),
        (lambda: evaluate("runs/x"), r"must be a Run, .* got 'runs/x': .* load_run"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_seeds_of_numpy_are_seeds(finished, tmp_path):
    run, _ = finished
    again = train(SMALL, seeds=np.arange(2), out=tmp_path / "run")
    same_networks(run, again)
    assert [spec.seed for spec in load_run(tmp_path / "run").specs] == [0, 1]
    with pytest.raises(ValueError, match=r"a seed must be .*, got 1\.5"):
        evaluate(run, 1, seed=1.5)


def test_only_runs_that_are_there(finished):
    run, _ = finished
    for ask in (run.env, run.network, lambda index: evaluate(run, 1, index=index)):
        for index in (-1, 2):
            with pytest.raises(ValueError, match=f"numbered from 0 to 1 here, got {index}"):
                ask(index)


def test_acting_outside(finished):
    run, _ = finished
    action, memory = run.act(0)
    assert 0 <= int(action) < 4
    _, longer = run.act(2, memory)
    _, fresh = run.act(2)
    assert (longer != fresh).any()
    with pytest.raises(ValueError, match="needs a key"):
        run.act(0, greedy=False)
    drawn = [int(run.act(0, greedy=False, key=jax.random.key(i))[0]) for i in range(20)]
    assert len(set(drawn)) > 1
    with pytest.raises(ValueError, match="whole numbers from 0 to 4: got 99"):
        run.act(99)
    with pytest.raises(ValueError, match=r"of shape \[\]: got shape \[3\]"):
        run.act(np.zeros(3))


def test_acting_with_some_actions_only(finished):
    run, _ = finished
    for action in range(4):
        assert int(run.act(0, allowed=np.arange(4) == action)[0]) == action
    jitted = jax.jit(lambda allowed: run.act(0, allowed=allowed)[0])
    assert int(jitted(np.arange(4) == 2)) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"allowed": [True] * 3}, r"shape \[4\]: got shape \[3\]"),
        ({"allowed": [0, 1, 2, 3]}, "true and false only"),
        ({"allowed": [False] * 4}, "forbids every action"),
        ({"memory": np.zeros(5)}, r"remembers 8 finite numbers: got shape \[5\]"),
        ({"memory": np.zeros((1, 8))}, r"got shape \[1, 8\]"),
        ({"memory": np.full(8, np.nan)}, "got others; give what the last act returned"),
    ],
)
def test_what_does_not_fit_the_agent_is_refused(finished, arguments, says):
    with pytest.raises(ValueError, match=says):
        finished[0].act(0, **arguments)


def test_acting_with_what_was_done_and_paid_before():
    config = replace(SMALL, previous_action=True, previous_reward=True, steps=64)
    run = train(config)
    _, unpaid = run.act(np.zeros(5 + 4 + 1))
    _, paid = run.act(np.append(np.zeros(5 + 4), 1.0))
    assert (unpaid != paid).any()
    with pytest.raises(
        ValueError, match="flat, then the previous action, flat, then the previous r"
    ):
        run.act(0)
    for odd in (np.nan, np.inf, 1e39):  # the last is not finite in 32 bits
        with pytest.raises(ValueError, match="finite in 32 bits: got"):
            run.act(np.full(10, odd))


def test_evaluation_counts_every_episode_once(finished):
    run, _ = finished
    played = evaluate(run, episodes=7)
    assert played.height == 14
    assert played.filter(pl.col("run") == 0).height == 7
    assert (played["length"] >= 4).all()
    again = evaluate(run, episodes=7)
    assert played.equals(again)


def test_estimate_by_hand():
    mean, low, high = estimate(pl.Series([1.0, 3.0]))
    assert mean == 2.0
    np.testing.assert_allclose((low, high), (2 - 12.706, 2 + 12.706), rtol=1e-4)
    assert json.dumps(estimate(pl.Series([3.0]))) == "[3.0, NaN, NaN]"


@pytest.mark.parametrize("stated", [None, 300])
def test_episodes_that_do_not_end_cannot_be_scored(monkeypatch, stated):
    """An environment that states a long time limit is given that long."""
    env = Steady(length=10_000 if stated is None else stated, terminates=stated is None)
    run = train(replace(SMALL, steps=64), env=env)
    monkeypatch.setattr("markovlens.agents.evaluate.LONGEST", 200)
    if stated is None:
        with pytest.raises(ValueError, match=r"has not ended after 200 steps.* time limit"):
            evaluate(run, episodes=2)
    else:
        assert evaluate(run, episodes=2)["length"].to_list() == [300, 300]


def test_what_cannot_be_built_leaves_no_folder_behind(tmp_path):
    with pytest.raises(ValueError, match="feed_again names entries"):
        train(replace(SMALL, feed_again=(9,)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert len(train(SMALL, out=tmp_path / "run")) == 1


def test_a_run_that_goes_on_is_not_compiled_anew(caplog):
    program = Program([RunSpec(training.complete(SMALL), seed) for seed in (0, 1)])
    state = program(program.start(), 1)
    kept = jax.tree.map(np.asarray, program.trim(state))
    with jax.log_compiles():
        program(program.fill(kept), 1)
    assert not [line for line in caplog.messages if "all_runs" in line]


def test_lists_are_as_good_as_tuples():
    config = PPOConfig(env="CartPole-v1", hide=[1, 3])
    assert hash(config) == hash(PPOConfig(env="CartPole-v1", hide=(1, 3)))


def test_a_folder_of_another_config_is_refused(finished):
    _, folder = finished
    with pytest.raises(ValueError, match=r"its lam1 is 0\.95, not 0\.5"):
        train(replace(SMALL, lam1=0.5), seeds=[0, 1], out=folder)
    with pytest.raises(ValueError, match="holds 2 runs, not 1"):
        train(SMALL, seed=0, out=folder)


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(ValueError, match="not empty"):
        train(SMALL, out=tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "dear"


def test_a_folder_in_use_is_refused(finished):
    _, folder = finished
    with RunFolder(folder).locked(), pytest.raises(ValueError, match="in use"):
        train(SMALL, seeds=[0, 1], out=folder)


def test_a_damaged_checkpoint_is_reported(finished, tmp_path):
    _, folder = finished
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / CHECKPOINT).write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match="cannot be read"):
        load_run(copy)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (METRICS, b"garbage", "metrics.parquet cannot be read as parquet .*: put a copy"),
        (METRICS, None, "metrics.parquet is missing beside checkpoint.npz: put a copy"),
        (CONFIG, b"format = 1\n[[runs]]\nseed = 0", r"config.toml .* no table \[config\]; put"),
        (CONFIG, b"format = 1\n[config]\nenv = 'tmaze-2'", r"config.toml .* no tables \[\[runs"),
        (CONFIG, b"format = 1\n[config]\n[[runs]]\nseed = 'x'", "seed must be a whole number, g"),
        (CONFIG, b"format = 1\n[config]\n[[runs]]\nseed = 0\nbeat = 1", "unknown option 'beat'"),
        (CONFIG, b"\xff", "config.toml cannot be read: .*; put a copy"),
        (CHECKPOINT, b"hello", "checkpoint.npz cannot be read as a checkpoint: put a copy"),
        (META, b"hello", "meta.json is not JSON .*: put a copy back, or delete it"),
        (META, b"[1]", "meta.json must hold a JSON object: put a copy back, or delete it"),
    ],
)
def test_damage_is_one_line_that_names_the_file(finished, tmp_path, name, content, message):
    _, folder = finished
    copy = shutil.copytree(folder, tmp_path / "copy")
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as damage:
        train(SMALL, seeds=[0, 1], out=copy)
    assert str(copy / name) in str(damage.value)
    assert "\n" not in str(damage.value)
    assert "pickle" not in str(damage.value)
    if name != META:  # which says nothing that a run needs
        with pytest.raises(ValueError, match=message):
            load_run(copy)


def test_parquet_that_holds_no_metrics_is_refused(finished, tmp_path):
    _, folder = finished
    copy = shutil.copytree(folder, tmp_path / "copy")
    pl.DataFrame({"run": [0]}).write_parquet(copy / METRICS)
    with pytest.raises(ValueError, match="holds no metrics, it has no column 'step': put a copy"):
        load_run(copy)


def test_divergence_stops_with_a_message(tmp_path):
    """An absurd step size: the run ends, and what is kept is finite."""
    wild = replace(SMALL, learning_rate=1e30, max_gradient_norm=1e30)
    with pytest.raises(Diverged, match="smaller"):
        train(wild, out=tmp_path / "wild")
    kept = load_run(tmp_path / "wild")
    assert kept.diverged.all()
    meta = RunFolder(tmp_path / "wild").meta()
    with pytest.raises(Diverged, match="smaller"):  # and is not taken any further
        train(wild, out=tmp_path / "wild")
    assert RunFolder(tmp_path / "wild").meta()["steps"] == meta["steps"] < SMALL.steps


def test_what_diverged_before_the_first_row_has_a_row(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "ROWS", 2)  # of 10 updates each: it does not get that far
    wild = replace(SMALL, learning_rate=1e30, max_gradient_norm=1e30)
    with pytest.raises(Diverged):
        train(wild, seeds=[0, 1], out=tmp_path / "wild")
    rows = load_run(tmp_path / "wild").metrics
    assert rows["run"].to_list() == [0, 1]
    assert rows["step"].max() < SMALL.steps // 2


class Interrupted(Exception):
    pass


def test_speed_is_of_the_updates_that_were_done(tmp_path, monkeypatch):
    """Rows of 7 updates, 20 in all, a second each, with an interruption after 9."""
    seconds, limit, call = 0, 9, Program.__call__

    def one_second_each(program, state, n):
        nonlocal seconds
        if seconds == limit:
            raise Interrupted
        seconds += n
        return call(program, state, n)

    monkeypatch.setattr(training, "ROWS", 3)
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(training, "SECONDS_PER_CHUNK", 0.0)  # one update a chunk
    monkeypatch.setattr(Program, "__call__", one_second_each)
    with pytest.raises(Interrupted):
        train(SMALL, seeds=[0, 1], out=tmp_path / "run", checkpoint_seconds=0.0)
    limit = None
    run = train(SMALL, seeds=[0, 1], out=tmp_path / "run")
    assert run.metrics["step"].unique().to_list() == [64 * 7, 64 * 14, 64 * 20]
    assert run.metrics["steps_per_second"].to_list() == [2 * 64.0] * 6


def test_the_first_checkpoint_comes_with_the_first_updates(finished, tmp_path, monkeypatch):
    """What is killed early, long before the next checkpoint is due, goes on bit for bit."""
    call = Program.__call__

    def killed(program, state, n):
        if (tmp_path / "run" / CHECKPOINT).exists():
            raise Interrupted
        return call(program, state, n)

    monkeypatch.setattr(Program, "__call__", killed)
    with pytest.raises(Interrupted):
        train(SMALL, seeds=[0, 1], out=tmp_path / "run")
    early = load_run(tmp_path / "run")
    assert RunFolder(tmp_path / "run").meta()["steps"] == SMALL.batch_steps
    assert early.metrics["step"].to_list() == [SMALL.batch_steps] * 2
    monkeypatch.setattr(Program, "__call__", call)
    resumed = train(SMALL, seeds=[0, 1], out=tmp_path / "run")
    same_networks(finished[0], resumed)


def test_a_full_disk_keeps_the_old_checkpoint(finished, monkeypatch, tmp_path):
    _, folder = finished
    copy = RunFolder(shutil.copytree(folder, tmp_path / "copy"))
    before = (copy.path / CHECKPOINT).read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        copy.save({"x": np.zeros(3)}, 1)
    assert (copy.path / CHECKPOINT).read_bytes() == before
    assert sorted(p.name for p in copy.path.iterdir() if p.name.startswith(".checkpoint")) == []


def test_an_environment_of_ones_own_is_needed_again(tmp_path):
    from markovlens.envs.env import TimeLimit
    from markovlens.envs.tmaze import TMaze

    mine, other = TimeLimit(TMaze(3), 50), TimeLimit(TMaze(2), 50)
    config = replace(SMALL, steps=128)
    train(config, env=mine, out=tmp_path)
    assert load_run(tmp_path, env=TimeLimit(TMaze(3), 50)).env().time_limit == 50
    for env in (None, other):
        with pytest.raises(ValueError, match=r"own TimeLimit .*load_run"):
            load_run(tmp_path, env=env)
    with pytest.raises(ValueError, match="holds another run: its env"):
        train(config, env=other, out=tmp_path)


@pytest.mark.parametrize(
    "odd",
    [{"max_gradient_norm": float("inf")}, {"env": '/tmp/λ "😀".POMDP'}],
    ids=["infinite", "unicode"],
)
def test_what_toml_writes_otherwise_than_json_is_read_back(tmp_path, odd):
    spec = RunSpec(replace(SMALL, **odd).resolve(), 0)
    folder = RunFolder(tmp_path)
    folder.claim([spec])
    assert folder.specs() == [spec]
