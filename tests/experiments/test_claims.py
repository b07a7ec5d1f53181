"""Claims: never two holders, and nothing stays claimed by the dead."""

import json
import multiprocessing
import os
import signal
import time

import pytest

from markovlens.experiments import claims
from markovlens.experiments.claims import claimed, try_claim


def test_a_held_claim_is_refused_and_a_released_one_is_free(tmp_path):
    first = try_claim(tmp_path, "unit")
    assert try_claim(tmp_path, "unit") is None
    other = try_claim(tmp_path, "unit-b")
    first.release()
    again = try_claim(tmp_path, "unit")
    assert again is not None
    again.release()
    other.release()
    assert list(tmp_path.iterdir()) == []


def _hold(folder, ready):
    try_claim(folder, "unit")
    ready.set()
    time.sleep(60)


def test_the_claim_of_a_killed_process_is_free_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(60)
    assert try_claim(tmp_path, "unit") is None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    heir = try_claim(tmp_path, "unit")
    assert heir.path.name == "unit.2"
    heir.release()


def test_a_claim_from_another_machine_expires_when_it_is_not_touched(tmp_path):
    path = tmp_path / "unit.1"
    path.write_text(json.dumps({"machine": "elsewhere", "process": 1}))
    assert try_claim(tmp_path, "unit") is None
    os.utime(path, (time.time() - 100,) * 2)
    heir = try_claim(tmp_path, "unit")
    assert heir.path.name == "unit.2"
    heir.release()


def test_a_sleeper_finds_out_that_it_was_succeeded(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "TOUCH_SECONDS", 0.02)
    sleeper = try_claim(tmp_path, "unit")
    heir = try_claim(tmp_path, "unit", expiry=0.0)
    deadline = time.monotonic() + 30
    while not sleeper.lost and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sleeper.lost
    assert not heir.lost
    heir.release()


def test_a_holder_goes_on_when_the_share_was_away(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "TOUCH_SECONDS", 0.02)
    looked = []

    def away(folder, name):
        looked.append(name)
        raise OSError("stale file handle")

    holder = try_claim(tmp_path, "unit")
    with monkeypatch.context() as broken:
        broken.setattr(claims, "_last_number", away)
        deadline = time.monotonic() + 30
        while len(looked) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(looked) >= 3
    assert not holder.lost
    holder.release()


def test_a_sleeper_gives_up_what_another_may_have_finished_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "TOUCH_SECONDS", 0.02)
    sleeper = try_claim(tmp_path, "unit")
    deadline = time.monotonic() + 30
    while not sleeper.lost and time.monotonic() < deadline:
        os.utime(sleeper.path, (time.time() - 100,) * 2)  # as if it had slept that long
        time.sleep(0.01)
    assert sleeper.lost
    sleeper.release()
    try_claim(tmp_path, "unit").release()


def test_a_half_written_claim_counts_as_held_until_it_is_old(tmp_path):
    path = tmp_path / "unit.1"
    path.touch()
    assert try_claim(tmp_path, "unit") is None
    os.utime(path, (time.time() - 100,) * 2)
    try_claim(tmp_path, "unit").release()


def test_a_claim_that_is_released_while_one_looks_has_no_heir(tmp_path, monkeypatch):
    # Its number is free again: whoever takes it, and an heir with the next one, would both hold.
    monkeypatch.setattr(claims, "_last_number", lambda folder, name: (1, folder / "unit.1"))
    assert try_claim(tmp_path, "unit") is None


def _count(folder, times):
    for _ in range(times):
        with claimed(folder, "counter"):
            path = folder / "count.txt"
            path.write_text(str(int(path.read_text()) + 1))


@pytest.mark.slow
def test_processes_that_take_turns_lose_no_count(tmp_path):
    (tmp_path / "count.txt").write_text("0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_count, args=(tmp_path, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "count.txt").read_text() == "60"
