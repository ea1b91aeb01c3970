"""Thousands of workers that sleep instead of simulating, on the sockets of `engine=process`.

The head is the real one, with a socket to each worker and the real messages on it. At the other end of all sockets
is one helper process, which answers each call after the time that its evaluation is said to take.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, cast

from rookery.fleet import wire
from rookery.fleet.host import Answer
from rookery.fleet.link import ClosedError, Link
from rookery.fleet.process import ProcessEngine, Ready, _Worker
from rookery.fleet.specs import Process
from rookery.fleet.wire import Message
from rookery.rollout.results import Result, Trial

_STEPS = 300  # of the episodes that nobody played
_START = "import sys; from benchmarks.sleepers import sleep; sleep(int(sys.argv[1]), float(sys.argv[2]))"


class SleepersEngine(ProcessEngine):
    """Worker processes, as far as the head can tell."""

    def __init__(self, workers: int, seconds: float) -> None:
        super().__init__(workers, pin=False)
        self.handed, theirs = socket.socketpair()
        with theirs:
            self.helper = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno()), str(seconds)], pass_fds=[theirs.fileno()]
            )

    def _spawn(self, core: int) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.handed, [b"."], [theirs.fileno()])
        return _Worker(self.helper, Link(ours), cast("Any", tempfile.TemporaryFile()), core)

    def close(self) -> None:
        self.handed.close()  # the helper ends when nobody can hand it sockets any more
        self.helper.wait()
        super().close()


class Sleepers(Process, frozen=True, tag="sleepers"):
    """The engine's settings: `workers` that take `seconds` for each call."""

    seconds: float = 1.0

    def make(self) -> SleepersEngine:
        return SleepersEngine(self.workers or 1, self.seconds)


def sleep(descriptor: int, seconds: float) -> None:
    """The helper: takes sockets until there are no more to come, and answers on all of them."""
    handed = socket.socket(fileno=descriptor)
    selector = selectors.DefaultSelector()
    selector.register(handed, selectors.EVENT_READ)
    due: list[tuple[float, int, Link, Message]] = []
    ready = wire.pack(Ready()).pieces()
    greeted: set[Link] = set()
    calls = 0
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        for key, _ in selector.select(wait):
            if key.fileobj is handed:
                _, found, _, _ = socket.recv_fds(handed, 1, 1)
                if not found:
                    return
                link = Link(socket.socket(fileno=found[0]))
                selector.register(link.socket, selectors.EVENT_READ, link)
                continue
            link = key.data
            try:
                for data in link.receive():
                    if link in greeted:
                        calls += 1
                        heapq.heappush(due, (time.monotonic() + seconds, calls, link, wire.unpack(data)))
                    else:
                        greeted.add(link)
                        link.send(ready)
            except ClosedError:
                selector.unregister(link.socket)
        while due and due[0][0] <= time.monotonic():
            _, _, link, call = heapq.heappop(due)
            link.send(_answer(call).pieces())


def _answer(message: Message) -> Message:
    """What `Evaluator.evaluate(context, trials)` could have returned."""
    number, _, _, calls, _ = message.read(tuple[int, str, int, list[tuple[Any, list[Trial]]], Any])
    results = [
        Result(
            id=trial.candidate.id,
            fitness=float(trial.candidate.id % 997),
            returns=(1.0,) * len(trial.seeds),
            lengths=(_STEPS,) * len(trial.seeds),
        )
        for _, trials in calls
        for trial in trials
    ]
    return wire.pack(Answer(number, 1.0, None, [results]))
