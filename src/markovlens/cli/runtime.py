"""How JAX is set up for a command, before its first array."""

import os

from markovlens.cores import available_cores
from markovlens.files import cache_folder


def prepare_jax(n_parallel: int = 1, threads: dict[str, str] | None = None) -> None:
    """Keep compiled programs between calls, and give independent work a device for each core; what
    is a single piece of work has `threads`, or as many as XLA likes.

    The cache lies in the user's cache folder; `MARKOVLENS_CACHE` puts it elsewhere, and
    `MARKOVLENS_CACHE=` (empty) switches it off.
    """
    import jax

    cache = cache_folder()
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    n_devices = max(1, min(n_parallel, available_cores()))
    if n_devices > 1:
        jax.config.update("jax_num_cpu_devices", n_devices)
    elif threads is not None:
        os.environ.update(threads)
