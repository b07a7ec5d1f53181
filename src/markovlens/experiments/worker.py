"""A process that takes units of work from a results folder until none is left.

`python -m markovlens.experiments.worker RESULTS`, with the units' names as a line of JSON on
standard input. When that input closes, whoever started the worker has died, and it stops too.
"""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from markovlens.agents.folder import FolderInUse
from markovlens.experiments.claims import Claim, try_claim
from markovlens.experiments.units import Unit, load_units
from markovlens.files import write_text

WAIT_SECONDS = 0.5

Train = Callable[[Unit, Claim], None]


class ClaimLost(Exception):
    """Another process has taken the unit over, believing this one dead."""


def work(results: Path, names: Iterable[str], train: Train) -> None:
    """Train every unit in `names` that is not done, whoever does it: returns when all are over.

    A unit that fails is written down, in `error.txt` beside it, and the others go on.
    """
    wanted = set(names)
    pending = {unit.name: unit for unit in load_units(results) if unit.name in wanted}
    patience = threading.Event()
    while pending:
        pending = {name: unit for name, unit in pending.items() if not is_over(unit)}
        worked = [work_on(results, unit, train) for unit in pending.values()]
        if pending and not any(worked):
            patience.wait(WAIT_SECONDS)


def work_on(results: Path, unit: Unit, train: Train) -> bool:
    """Claim and train one unit; False if another process is at it."""
    if is_over(unit):
        return True
    claim = try_claim(results / "claims", unit.name)
    if claim is None:
        return False
    try:
        if not is_over(unit):  # it may have been finished between the look and the claim
            train(unit, claim)
    except (ClaimLost, FolderInUse):  # another process has it, or still holds it asleep
        return False
    except Exception:
        write_text(error_file(unit), traceback.format_exc())
    finally:
        claim.release()
    return True


def is_over(unit: Unit) -> bool:
    return unit.done or error_file(unit).exists()


def error_file(unit: Unit) -> Path:
    return unit.folder / "error.txt"


def _stop_with_parent() -> None:
    def watch() -> None:
        sys.stdin.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    try:
        names = json.loads(sys.stdin.readline())
        _stop_with_parent()
        from markovlens.experiments.runs import train_unit

        work(Path(sys.argv[1]), names, train_unit)
    except KeyboardInterrupt:  # training has saved its checkpoint
        sys.exit(130)


if __name__ == "__main__":
    main()
