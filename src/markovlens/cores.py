"""How many cores there are to work with, and how many threads JAX makes of them."""

import os

# For the environment of a process that computes on one core; XLA reads it with its first array.
# With more threads than one it hands every operation from thread to thread, which takes longer than
# most of them do: an update of PPO with 32 or 128 units takes half as long again.
ONE_THREAD = {"PJRT_NPROC": "1"}


def available_cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
