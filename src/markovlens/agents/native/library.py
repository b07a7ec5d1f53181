"""What is written in C++: compiled for this machine when they are first needed, and kept.

That takes a C++ compiler (`$CXX`, c++, g++ or clang++) and a few seconds, once; the headers come
with jaxlib. Without one, or with `MARKOVLENS_NATIVE=0`, XLA does the same, more slowly.
"""

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from markovlens.cores import available_cores, find_compiler
from markovlens.files import cache_folder

HERE = Path(__file__).parent
SOURCES = [
    HERE / name for name in ("actor.cc", "adam.cc", "dense.cc", "outputs.cc", "recurrence.cc")
]
HEADERS = [HERE / name for name in ("cells.h", "pair.h", "product.h", "rows.h", "vectors.h")]
TARGETS = (
    "markovlens_actor_pack",
    "markovlens_actor_step",
    "markovlens_adam",
    "markovlens_dense_forward",
    "markovlens_dense_by_input",
    "markovlens_dense_by_parameters",
    "markovlens_gru_forward",
    "markovlens_gru_backward",
    "markovlens_outputs_forward",
    "markovlens_outputs_backward",
    "markovlens_lstm_forward",
    "markovlens_lstm_backward",
)
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-w"]


def available() -> bool:
    """Whether there is native code for the arrays that JAX makes here."""
    wanted = os.environ.get("MARKOVLENS_NATIVE", "1") != "0"
    return wanted and jax.default_backend() == "cpu" and _registered()


def call(
    target: str,
    shapes: Sequence[tuple[int, ...]],
    *arrays: Array,
    in_place: dict[int, int] | None = None,
    **options: Any,
) -> Sequence[Array]:
    """What one of `TARGETS` makes of the arrays: float32, in these shapes. `in_place` says which of
    the arrays each result may be written over."""
    if not _registered():
        raise RuntimeError(f"{target} needs native code: ask `available` before")
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    function = jax.ffi.ffi_call(
        target, results, vmap_method="sequential", input_output_aliases=in_place
    )
    return function(*arrays, **options)


@cache
def _registered() -> bool:
    compiler = find_compiler()
    if compiler is None:
        return False
    try:
        library = load(compiler, cache_folder())
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        first = said[0] if said else "no reason given"
        reason = next((line for line in said if "error" in line), first)
        warnings.warn(
            f"the native code could not be compiled, so training is slower: {reason} "
            "(MARKOVLENS_NATIVE=0 goes without them, CXX names another compiler)",
            stacklevel=2,
        )
        return False
    for name in TARGETS:
        capsule = jax.ffi.pycapsule(getattr(library, name))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return True


def load(compiler: list[str], folder: Path | None) -> ctypes.CDLL:
    """The library out of `folder`, compiled into it if it is not there; None: into no folder."""
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            return load(compiler, Path(passing))
    library = folder / f"native-{_fingerprint(compiler)}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".native-", dir=folder) as beside:
            built = Path(beside) / library.name

            def compile_one(source: Path) -> Path:
                to = Path(beside) / f"{source.stem}.o"
                _run([*compiler, *FLAGS, f"-I{jax.ffi.include_dir()}", "-c", source, "-o", to])
                return to

            with ThreadPoolExecutor(available_cores()) as pool:
                objects = list(pool.map(compile_one, SOURCES))
            _run([*compiler, "-shared", *objects, "-o", built])
            os.replace(built, library)
    return ctypes.CDLL(str(library))


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _fingerprint(compiler: list[str]) -> str:
    """Of all that the compiled code depends on: it may lie where other machines find it too."""
    asked = subprocess.run([*compiler, "--version"], check=True, capture_output=True, text=True)
    code = [path.read_text() for path in SOURCES + HEADERS]
    parts = [*code, *compiler, asked.stdout, *FLAGS, version("jaxlib"), _processor()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """What kind of processor this is, and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    told = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return "\n".join([platform.machine(), platform.processor(), *sorted(told)])
