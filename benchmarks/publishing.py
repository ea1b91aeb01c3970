"""100 MB to four worker processes: published once, beside a multiprocessing pipe to each."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.dispatch import NOTHING
from rookery.fleet import Fleet, Process

ROUNDS = 7
WORKERS = 4
BYTES = 100 * 10**6


def measure() -> list[dict[str, Any]]:
    """Seconds until every worker has looked at the value."""
    value = np.ones(BYTES, np.uint8)
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(WORKERS)]
    peers = [context.Process(target=look, args=(theirs,), daemon=True) for _, theirs in pipes]
    for peer in peers:
        peer.start()

    def piped() -> None:
        for ours, _ in pipes:
            ours.send(value)
        assert [ours.recv() for ours, _ in pipes] == [2] * WORKERS

    with Fleet(NOTHING, Process(workers=WORKERS)) as fleet:
        fleet.assemble()

        def published() -> None:
            ref = fleet.publish("value", value)
            assert list(fleet.all("first", ref, remember=False).values()) == [2] * WORKERS

        published(), piped()
        pairs = [(_seconds(published), _seconds(piped)) for _ in range(ROUNDS)]
        before = fleet.stats()
    for peer in peers:
        peer.terminate()
    assert before.lost == 0
    return [
        {
            "what": f"{BYTES // 10**6} MB to {WORKERS} workers",
            "published_seconds": round(statistics.median(a for a, _ in pairs), 3),
            "piped_seconds": round(statistics.median(b for _, b in pairs), 3),
            "ratio": round(statistics.median(b / a for a, b in pairs), 1),
        }
    ]


def look(pipe: Connection) -> None:
    """A peer's worker: the sum of the first and the last byte of each value."""
    while True:
        value = pipe.recv()
        pipe.send(int(value[0]) + int(value[-1]))


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
