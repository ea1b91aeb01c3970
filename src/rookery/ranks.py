"""Which of several copies of a command this process is, when mpiexec has started it."""

from __future__ import annotations

import os
import time

from rookery.errors import UserError

_LAUNCHERS = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
_RANK_0_SPEAKS = 5.0  # seconds


def rank() -> tuple[int, int]:
    """Rank and number of ranks; (0, 1) for a command that somebody simply typed."""
    for number, size in _LAUNCHERS:
        if number in os.environ and size in os.environ:
            return int(os.environ[number]), int(os.environ[size])
    return 0, 1


def speak_for_all_ranks() -> None:
    """Before an error is printed: leave it to rank 0, which ends the job, unless this rank alone has met it."""
    if rank()[0] > 0:
        time.sleep(_RANK_0_SPEAKS)


def refuse_copies(engine: str) -> None:
    """Several ranks that know nothing of each other would all do the same run."""
    _, size = rank()
    if size > 1 and engine != "mpi":
        raise UserError(f"mpiexec started {size} ranks, and engine={engine} would use one: add engine=mpi")
