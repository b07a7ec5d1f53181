"""Who works on what, agreed on through a folder: several processes, or machines, and no server.

A claim on `name` is the file `name.1`, created exclusively, so only one process can hold it. Its
holder touches it now and then. When the holder has died (its process is gone, or the file has not
been touched for long), the next one creates `name.2`, again exclusively; the highest number rules.
Nothing is renamed or overwritten, so two heirs cannot both win. A holder that was only asleep finds
the higher number, or its own file untouched for so long that an heir may have come and gone, and
knows that it has lost.
"""

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TOUCH_SECONDS = 5.0
EXPIRY_SECONDS = 60.0


class Claim:
    """A claim that is held; `lost` becomes true if another process took it over, or could have."""

    def __init__(self, path: Path):
        self.path = path
        self._released = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._keep_touching, daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        return self._lost.is_set()

    def release(self) -> None:
        """Stop holding: others may claim at once."""
        self._released.set()
        self._thread.join()
        self.path.unlink(missing_ok=True)

    def _keep_touching(self) -> None:
        while not self._released.wait(TOUCH_SECONDS):
            with suppress(OSError):  # a full disk, a share that is away: next time
                _, last = _last_number(self.path.parent, self.path.stem)
                if last != self.path or _age(self.path) >= EXPIRY_SECONDS:
                    self._lost.set()
                    return
                os.utime(self.path)


def try_claim(folder: Path, name: str, expiry: float = EXPIRY_SECONDS) -> Claim | None:
    """The claim on `name`, or None if a living process has it."""
    folder.mkdir(parents=True, exist_ok=True)
    number, last = _last_number(folder, name)
    if last is not None and _is_alive(last, expiry):
        return None
    path = folder / f"{name}.{number + 1}"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"machine": _machine(), "process": os.getpid()}, file)
    return Claim(path)


@contextmanager
def claimed(folder: Path, name: str, expiry: float = EXPIRY_SECONDS) -> Iterator[Claim]:
    """Hold the claim on `name` for the length of a block, waiting for whoever has it."""
    patience = threading.Event()
    while (claim := try_claim(folder, name, expiry)) is None:
        patience.wait(0.05)
    try:
        yield claim
    finally:
        claim.release()


def _last_number(folder: Path, name: str) -> tuple[int, Path | None]:
    numbered = [
        (int(path.suffix[1:]), path)
        for path in folder.glob(f"{name}.*")
        if path.suffix[1:].isdigit() and path.stem == name
    ]
    return max(numbered, default=(0, None))


def _is_alive(path: Path, expiry: float) -> bool:
    try:
        age = _age(path)
        holder = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # just released: its number is free again, so the next one is not
        return True
    except ValueError:  # created, not yet written: its holder is just starting, or died doing so
        return age < expiry
    if holder["machine"] == _machine() and not _runs(holder["process"]):
        return False
    return age < expiry


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _machine() -> str:
    """The machine, and within it the container: where a process number means something."""
    try:
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _age(path: Path) -> float:
    """Seconds since it was touched, by the file system's clock: machines that share a folder may
    disagree on theirs."""
    with tempfile.TemporaryFile(dir=path.parent) as file:
        return os.fstat(file.fileno()).st_mtime - path.stat().st_mtime
