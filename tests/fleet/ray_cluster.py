"""A real Ray cluster: several nodes, each with a loopback address of its own, closed to who lacks its token."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import psutil

from tests.conftest import environment

# A node that died is to be noticed within the patience of a test.
_QUICK = {"period_ms": "300", "timeout_ms": "1000", "failure_threshold": "3", "initial_delay_ms": "0"}


class RayCluster:
    """`ray start` on 127.0.0.2, 127.0.0.3 and so on; each node has one core."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(32)
        self.environment = environment() | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}
        self.environment |= {f"RAY_health_check_{name}": value for name, value in _QUICK.items()}
        with socket.socket() as free:
            free.bind(("127.0.0.2", 0))
            self.address = f"127.0.0.2:{free.getsockname()[1]}"
        self.nodes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._start("--head", f"--port={self.address.rpartition(':')[2]}", "--include-dashboard=false")
        return self

    def __exit__(self, *exception: object) -> None:
        for node in range(len(self.nodes)):
            self.kill(node)

    def join(self) -> None:
        """One more node, which is there a few seconds later."""
        self._start(f"--address={self.address}")

    def kill(self, node: int) -> None:
        """A machine that is switched off: everything on it is gone at once."""
        process = self.nodes[node]
        if process.poll() is None:
            family = psutil.Process(process.pid).children(recursive=True)
            for member in [process, *family]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
            process.wait()

    def _start(self, *options: str) -> None:
        number = len(self.nodes)
        where = [f"--node-ip-address=127.0.0.{number + 2}", "--num-cpus=1", *options]
        with (self.folder / f"node-{number}.txt").open("wb") as printed:
            command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *where]
            env = self.environment
            self.nodes.append(
                subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
            )
        host, _, port = self.address.partition(":")
        until = time.monotonic() + 60
        while True:
            assert self.nodes[-1].poll() is None, (self.folder / f"node-{number}.txt").read_text()
            assert time.monotonic() < until, "the cluster's head does not listen"
            try:
                socket.create_connection((host, int(port)), 1.0).close()
                return
            except OSError:
                time.sleep(0.05)
