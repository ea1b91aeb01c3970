"""The most memory that a run held after 10 generations and after 100, and that an update of 10M weights takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any

# The process's own high-water mark, in kB; what getrusage says begins at that of the parent.
_PEAK = """
def peak():
    with open("/proc/self/status") as status:
        return next(line.split()[1] for line in status if line.startswith("VmHWM"))
"""

_RUN = """
import sys
from rookery.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(peak())
"""

_UPDATE = """
from rookery.evolution import ES
from rookery.genomes import ParameterSpace
from rookery.rollout.results import Result
strategy = ES(population=1000)
state, out = strategy.ask(strategy.init(0, ParameterSpace.flat(10_000_000)))
strategy.tell(state, [Result(id=c.id, fitness=float(c.id % 7)) for c in out])
print(peak())
"""


def measure() -> list[dict[str, Any]]:
    """Resident memory in MB."""
    rows = []
    with tempfile.TemporaryDirectory() as runs:
        for generations in (10, 100):
            stop = ["stop.score=null", f"stop.generations={generations}", "checkpoint.every=1"]
            peak = _peak(_RUN, "run", "lander", *stop, "max_steps=200", "--runs", runs, "--quiet")
            rows.append({"what": f"lander, {generations} generations", "peak_mb": peak})
    rows.append(
        {"what": "whole process, update of 10M parameters from 1,000 candidates", "peak_mb": _peak(_UPDATE)}
    )
    return rows


def _peak(script: str, *arguments: str) -> int:
    command = [sys.executable, "-W", "ignore", "-c", _PEAK + script, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return round(int(printed.split()[-1]) / 1024)
