"""Seconds to import the package and to see the command's help, from a cold process; the best of five."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

COMMANDS = {"import rookery": ["-c", "import rookery"], "rookery --help": ["-m", "rookery", "--help"]}


def measure() -> list[dict[str, Any]]:
    """One row per command."""
    return [
        {"command": name, "seconds": round(min(_time(what) for _ in range(5)), 3)}
        for name, what in COMMANDS.items()
    ]


def _time(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return time.perf_counter() - start
