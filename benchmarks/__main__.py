"""`python -m benchmarks [NAME...]`: measure, and write the figures that the documentation shows.

Everything is a ratio of two things measured alternately in one run, or a wall time from a cold process.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.report import main as write_pages
from rookery.errors import RookeryError

RESULTS = Path(__file__).parent / "results"
NAMES = (
    "throughput",
    "pixels",
    "convolutions",
    "evotorch",
    "startup",
    "memory",
    "solve",
    "bipedal",
    "strategies",
    "dispatch",
    "publishing",
    "engines",
    "scaling",
    "ga",
    "nevergrad",
    "ppo",
    "ppo_learning",
    "ppo_members",
    "ppo_pixels",
    "ppo_rllib",
    "pbt_tune",
    "pbt_lander",
)


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    names = [name.replace("-", "_") for name in sys.argv[1:]] or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"error: no benchmark '{unknown[0]}'; there are {', '.join(NAMES)}")
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        module = import_module(f"benchmarks.{name}")
        print(f"## {name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        try:
            rows = module.measure()
        except RookeryError as error:
            sys.exit(f"error: {name}: {error}")
        for row in rows:
            print("  " + ", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        report = {"measured": time.strftime("%Y-%m-%d"), "python": platform.python_version(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
    write_pages()


main()
