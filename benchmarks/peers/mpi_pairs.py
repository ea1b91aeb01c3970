"""For mpiexec with two ranks: how long empty calls take, through a fleet or as bare pairs of `send` and `recv`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import mpi4py.MPI

CALLS = 20_000
WARM_UP = 1_000


def fleet() -> None:
    """Rank 1 holds an actor, and rank 0 calls it."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from benchmarks.dispatch import NOTHING, fleet_calls
    from rookery.fleet import MPI, Fleet

    spec = MPI()
    if not spec.serve():
        with Fleet(NOTHING, spec) as made:
            made.assemble()
            fleet_calls(made, WARM_UP)
            start = time.perf_counter()
            fleet_calls(made, CALLS)
            print(CALLS / (time.perf_counter() - start), flush=True)


def bare() -> None:
    """Rank 0 sends an empty list and receives the answer, again and again."""
    comm = mpi4py.MPI.COMM_WORLD
    start = 0.0
    for number in range(WARM_UP + CALLS):
        if number == WARM_UP:
            start = time.perf_counter()
        if comm.Get_rank() == 0:
            comm.send([], dest=1)
            comm.recv(source=1)
        else:
            comm.send(comm.recv(source=0), dest=0)
    if comm.Get_rank() == 0:
        print(CALLS / (time.perf_counter() - start), flush=True)


fleet() if sys.argv[1] == "fleet" else bare()
