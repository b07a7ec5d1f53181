"""Strict JAX, and jaxtyping's shapes checked by beartype, in every test."""

import os
from pathlib import Path

# The suite runs two pytest workers on two cores: one thread each, or they fight over them.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
# Compiling is most of the suite's time; a second run finds the programs of the first.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

hypothesis.settings.register_profile("markovlens", deadline=None, derandomize=True)
hypothesis.settings.load_profile("markovlens")


@pytest.fixture(autouse=True)
def _nothing_global_changes():
    """No test, and nothing it calls, may leave 64-bit floats switched on."""
    yield
    assert not jax.config.jax_enable_x64
