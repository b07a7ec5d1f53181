"""How many cores there are to work with, and how many threads JAX makes of them."""

import os
import shlex
import shutil

# For the environment of a process that computes on one core; XLA reads it with its first array.
# With more threads than one it hands every operation from thread to thread, which takes longer than
# most of them do: an update of PPO with 32 or 128 units takes half as long again. NumPy's threads
# wait for each other in loops, so that two processes side by side take seconds for a few small
# matrices.
ONE_THREAD = {"PJRT_NPROC": "1", "OPENBLAS_NUM_THREADS": "1"}

# The same, and a second thread for the native code alone, which knows what is worth dividing.
ONE_THREAD_AND_HELPER = ONE_THREAD | {"MARKOVLENS_THREADS": "2"}


def training_threads(small: bool) -> dict[str, str]:
    """For the environment of a process that trains one run, of a small network or a large one."""
    if small:
        return ONE_THREAD
    native = os.environ.get("MARKOVLENS_NATIVE", "1") != "0" and find_compiler() is not None
    return ONE_THREAD_AND_HELPER if native and available_cores() > 1 else {}


def find_compiler() -> list[str] | None:
    """The command of a C++ compiler; `$CXX` alone counts if it is set."""
    if named := os.environ.get("CXX"):
        return shlex.split(named)
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return None if found is None else [found]


def available_cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
