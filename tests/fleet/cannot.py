"""A program for mpiexec that asks for what MPI cannot do."""

from __future__ import annotations

import sys

from rookery.errors import RookeryError
from rookery.fleet import MPI, Fleet
from tests.fleet.checks import PROBE


def main() -> None:
    spec = MPI()
    if spec.serve():
        return
    with Fleet(PROBE, spec) as fleet:
        fleet.assemble()
        for what, attempt in (("join", lambda: fleet.add(1)), ("leave", lambda: fleet.end(1))):
            try:
                attempt()
            except RookeryError as error:
                print(f"one worker cannot {what}: {error}", flush=True)
        try:
            fleet.any("sleep", 600.0, timeout=0.5)
        except RookeryError as error:
            print(f"deadline: {error}", flush=True)
    sys.exit(1)


main()
