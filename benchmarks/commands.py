"""Run the `rookery` command from a cold process, as a user does."""

from __future__ import annotations

import subprocess
import sys
import time


def rookery(*arguments: str) -> tuple[str, float]:
    """What it printed, and the seconds it took."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rookery", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout, time.perf_counter() - start
