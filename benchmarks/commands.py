"""Run the `rookery` command, and the programs that measure peers, from cold processes, as users do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

PEERS = Path(__file__).parent / "peers"
_NOT_PROGRESS = ("started", "validated", "ended")


class Loop(NamedTuple):
    """Environment steps of a run, and its seconds: all that it compiles, but no imports and no validation."""

    steps: int
    seconds: float

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


def rookery(*arguments: str) -> tuple[str, float]:
    """What it printed, and the seconds it took."""
    start = time.perf_counter()
    printed = _printed([sys.executable, "-m", "rookery", *arguments])
    return printed, time.perf_counter() - start


def looped(preset: str, *changes: str) -> Loop:
    """What a run's loop did until its step limit; it does not end at a score."""
    with tempfile.TemporaryDirectory() as runs:
        what = [preset, "stop.score=null", "validate_every=0", "validation_episodes=2", *changes]
        rookery("run", *what, "--name", "looped", "--runs", runs, "--quiet")
        log = (Path(runs) / "looped" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    last = [event for event in events if "steps" in event and event["event"] not in _NOT_PROGRESS][-1]
    return Loop(last["steps"], last["seconds"] - events[0]["seconds"])


def peer(name: str, **options: object) -> dict[str, Any]:
    """What a peer's program found, given `--key value` for each option."""
    given = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    with tempfile.TemporaryDirectory() as scratch:  # MuJoCo writes a log where it is started
        printed = _printed([sys.executable, "-W", "ignore", str(PEERS / f"{name}.py"), *given], scratch)
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return found


def _printed(command: list[str], where: str | None = None) -> str:
    """What a process printed. It uses nothing that JAX compiled for another one before it."""
    cold = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    done = subprocess.run(command, cwd=where, env=cold, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        sys.exit(f"{shlex.join(command)}\n{said[-1]}")
    return done.stdout
