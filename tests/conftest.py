"""Strict JAX, and programs compiled as quickly as can be, in every test and what it starts."""

import os
from collections import Counter
from pathlib import Path

# Compiling is most of the suite's time, and what it compiles runs for moments: so compile lightly,
# and let later processes and runs find the programs of earlier ones. `XLA_FLAGS= make test` tests
# the programs as users get them. Two pytest workers share two cores: one thread each.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "0" if "XLA_FLAGS" in os.environ else "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false --xla_cpu_use_fusion_emitters=false"
)
os.environ.setdefault("MARKOVLENS_CACHE", str(Path(__file__).parents[1] / ".cache" / "jax"))
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.environ["MARKOVLENS_CACHE"])
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("markovlens", deadline=None, derandomize=True)
hypothesis.settings.load_profile("markovlens")


def pytest_collection_modifyitems(items):
    """Files of quick tests first; then those with most slow ones, so that no worker ends alone."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (item.path in slow, -slow[item.path]))


@pytest.fixture(autouse=True)
def _nothing_global_changes():
    """No test, and nothing it calls, may leave 64-bit floats switched on."""
    yield
    assert not jax.config.jax_enable_x64


@pytest.fixture
def optimised():
    """For tests that run a program much longer than it takes to compile."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
