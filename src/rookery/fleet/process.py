"""Processes of this machine: spawned, never forked; calls go down sockets, published values into shared memory.

A worker is a fresh interpreter, so nothing that the head has imported or started is in it. It ends with the head,
however the head ends, and a worker that dies is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import IO, Any

import msgspec

from rookery.fleet import wire
from rookery.fleet.engine import (
    ActorSpec,
    Call,
    Event,
    Failure,
    FleetError,
    Joined,
    Lost,
    Move,
    Ref,
    Refused,
    Traits,
    WorkerId,
)
from rookery.fleet.host import Host, RawAnswer, describe
from rookery.fleet.link import ClosedError, Link
from rookery.fleet.memory import SharedMemory, mapped
from rookery.fleet.wire import Buffer

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rookery.fleet.process import work; work(*map(int, sys.argv[2:]))"
)
_ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}
_STILLBORN = 3  # workers in a row that may die before they are ready
_TAIL_BYTES = 2000  # of what a worker printed, for the message about its death
_END_SECONDS = 2.0


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first message to a worker."""

    actor: ActorSpec


class Ready(msgspec.Struct, frozen=True, array_like=True):
    """The first message of a worker."""

    failure: Failure | None = None


class _Worker:
    """What the head holds of one worker process."""

    def __init__(self, process: subprocess.Popen[bytes], link: Link, printed: IO[bytes], core: int) -> None:
        self.process, self.link, self.printed, self.core = process, link, printed, core
        self.ready = False

    def end(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()
        self.printed.close()

    def epitaph(self) -> str:
        """How the process ended, and the last line that it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        code = self.process.poll()
        end = os.fstat(self.printed.fileno()).st_size
        printed = os.pread(self.printed.fileno(), _TAIL_BYTES, max(0, end - _TAIL_BYTES)).decode(errors="replace")
        lines = printed.strip().splitlines()
        how = "it hung up" if code is None else f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"{how}; it printed: {lines[-1]}" if lines else how


class ProcessEngine:
    """Worker processes of this machine."""

    name = "process"
    traits = Traits()

    def __init__(self, workers: int, pin: bool = True) -> None:
        self.expected, self.pin = workers, pin
        self.workers: dict[WorkerId, _Worker] = {}
        self.selector = selectors.DefaultSelector()
        self.events: deque[Event] = deque()
        self.memory = SharedMemory()
        self.made = 0
        self.stillborn = 0
        self.lifeline = os.pipe()

    def start(self, actor: ActorSpec, fleet: str) -> None:
        del fleet
        self.hello = wire.pack(Hello(actor)).pieces()
        self.add(self.expected)

    def add(self, workers: int) -> None:
        for worker in range(self.made, self.made + workers):
            held = self.workers[worker] = self._spawn(self._core())
            held.link.send(self.hello)
            self.selector.register(held.link.socket, selectors.EVENT_READ, worker)
        self.made += workers

    def _core(self) -> int:
        """The core with the fewest workers; -1 where workers are not kept on one."""
        if not self.pin or not hasattr(os, "sched_getaffinity"):
            return -1
        taken = Counter(held.core for held in self.workers.values())
        return min(sorted(os.sched_getaffinity(0)), key=lambda core: taken[core])

    def _spawn(self, core: int) -> _Worker:
        ours, theirs = socket.socketpair()
        printed = tempfile.TemporaryFile()  # noqa: SIM115  (it lives as long as the worker)
        numbers = [str(theirs.fileno()), str(self.lifeline[0]), str(core)]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path), *numbers],
                pass_fds=[theirs.fileno(), self.lifeline[0]],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                process_group=0,  # Ctrl-C is for the head
                env=os.environ | _ONE_THREAD,
            )
        return _Worker(process, Link(ours), printed, core)

    def send(self, worker: WorkerId, call: Call) -> None:
        self._deliver(worker, wire.pack(call).pieces())

    def _deliver(self, worker: WorkerId, message: Sequence[Buffer] = ()) -> None:
        """Send what can be sent at once, and the rest when the worker reads."""
        held = self.workers.get(worker)
        if held is None:
            return  # it is gone, and the event that says so is on its way
        try:
            waiting = held.link.send(message)
        except ClosedError:
            return  # the selector will say so
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
        if self.selector.get_key(held.link.socket).events != wanted:
            self.selector.modify(held.link.socket, wanted, worker)

    def receive(self, timeout: float) -> Sequence[Event]:
        for key, mask in self.selector.select(0 if self.events else timeout):
            if mask & selectors.EVENT_WRITE:
                self._deliver(key.data)
            if mask & selectors.EVENT_READ:
                self._listen(key.data)
        events, self.events = self.events, deque()
        return events

    def _listen(self, worker: WorkerId) -> None:
        held = self.workers.get(worker)
        if held is None:
            return
        try:
            for data in held.link.receive():
                self._hear(worker, held, data)
        except ClosedError:
            self._bury(worker, held)

    def _hear(self, worker: WorkerId, held: _Worker, data: Buffer) -> None:
        message = wire.unpack(data)
        if held.ready:
            self.events.append(RawAnswer.to_reply(worker, message))
            return
        held.ready, self.stillborn = True, 0
        failure = message.read(Ready).failure
        self.events.append(Joined(worker) if failure is None else Refused(worker, failure))

    def _bury(self, worker: WorkerId, held: _Worker) -> None:
        """A worker has died of itself; another takes its place."""
        reason = held.epitaph()
        self._forget(worker)
        self.events.append(Lost(worker, reason))
        self.stillborn += not held.ready
        if self.stillborn >= _STILLBORN:
            raise FleetError(f"{self.stillborn} workers died before they were ready; the last one: {reason}")
        self.add(1)

    def _forget(self, worker: WorkerId) -> None:
        held = self.workers.pop(worker)
        self.selector.unregister(held.link.socket)
        held.end()

    def end(self, worker: WorkerId) -> None:
        if worker in self.workers:
            self._forget(worker)
            self.events.append(Lost(worker, "it was ended"))

    def publish(self, ref: Ref, value: Any) -> Ref:
        pieces = wire.pack(value).pieces()
        return msgspec.structs.replace(ref, size=wire.size(pieces), where=self.memory.put(pieces))

    def retract(self, ref: Ref) -> None:
        self.memory.drop(ref.where)

    def transfer(self, moves: Sequence[Move], give: str, take: str) -> bool:
        del moves, give, take
        return False

    def close(self) -> None:
        for held in self.workers.values():
            held.link.close()  # a worker that is not busy ends by itself, and puts its things away
        until = time.monotonic() + _END_SECONDS
        for held in self.workers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                held.process.wait(max(0.0, until - time.monotonic()))
            held.end()
        self.workers = {}
        self.memory.close()
        self.selector.close()
        for end in self.lifeline:
            with contextlib.suppress(OSError):
                os.close(end)


def work(descriptor: int, lifeline: int, core: int) -> None:
    """What a worker process does until the head hangs up."""
    threading.Thread(target=_end_with_head, args=(lifeline,), daemon=True).start()
    if core >= 0:
        os.sched_setaffinity(0, {core})
    link = Link(socket.socket(fileno=descriptor), blocking=True)
    with contextlib.suppress(ClosedError):
        messages = iter(link.messages())
        actor = wire.unpack(next(messages)).read(Hello).actor
        try:
            host = Host(actor, lambda ref: mapped(ref.where))
        except Exception as error:  # noqa: BLE001  (whatever a user's actor raises)
            link.send(wire.pack(Ready(describe(error))).pieces())
            return
        link.send(wire.pack(Ready()).pieces())
        try:
            for message in messages:
                link.send(host.answer(wire.unpack(message)).pieces())
        finally:
            host.close()


def _end_with_head(lifeline: int) -> None:
    """Nothing is ever written to this pipe: reading ends when the head has gone, in whatever way."""
    os.read(lifeline, 1)
    os._exit(0)
