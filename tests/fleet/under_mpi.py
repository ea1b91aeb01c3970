"""A program for mpiexec: carries out checks on a fleet of ranks, and prints what became of each as JSON."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

from rookery.fleet import MPI, Fleet
from tests.fleet.checks import CHECKS, PROBE


def main() -> None:
    spec = MPI(
        head_works="head" in sys.argv, exchange=next((e for e in ("collective", "head") if e in sys.argv), "p2p")
    )
    if spec.serve():
        return
    outcomes = {}
    with Fleet(PROBE, spec) as fleet, TemporaryDirectory() as folder:
        fleet.assemble()
        for check in CHECKS:
            try:
                check(fleet, Path(folder))
                outcomes[check.__name__] = ""
            except Exception:  # noqa: BLE001  (the report is for the test that runs this)
                outcomes[check.__name__] = traceback.format_exc()
    print("outcomes " + json.dumps(outcomes), flush=True)


main()
