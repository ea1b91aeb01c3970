"""The same run of the lander on every engine: environment steps per second, all of a generation included."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.dispatch import MPIEXEC

ROUNDS = 3
GENERATIONS = 60
FIRST = 5  # generations that do not count: pools and processes warm up
WORKERS = {
    "inline": ["engine=inline"],
    "process": ["engine=process", "workers=2"],
    "ray": ["engine=ray", "workers=2"],
    "mpi": ["engine=mpi"],
}


def measure() -> list[dict[str, Any]]:
    """One row per engine, with two workers each; the engines take turns."""
    with tempfile.TemporaryDirectory() as runs:
        rounds = [
            {engine: _rate(engine, Path(runs), f"{engine}-{n}") for engine in WORKERS} for n in range(ROUNDS)
        ]
    return [
        {
            "engine": engine,
            "steps_per_second": round(statistics.median(rates[engine] for rates in rounds)),
            "of_inline": round(statistics.median(rates[engine] / rates["inline"] for rates in rounds), 3),
        }
        for engine in WORKERS
    ]


def _rate(engine: str, runs: Path, name: str) -> float:
    python = [sys.executable, "-W", "ignore", "-m", "rookery"]
    started = [*MPIEXEC, "-n", "3", *python] if engine == "mpi" else python
    what = ["run", "lander", "stop.score=null", "validate_every=0", f"generations={GENERATIONS}"]
    where = ["--runs", str(runs), "--name", name, "--quiet"]
    subprocess.run(
        [*started, *what, *WORKERS[engine], *where], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    events = map(json.loads, (runs / name / "events.jsonl").read_text().splitlines())
    made = [event for event in events if event["event"] == "generation"]
    steps = made[-1]["steps"] - made[FIRST - 1]["steps"]
    return steps / sum(sum(g["times"].values()) for g in made[FIRST:])
