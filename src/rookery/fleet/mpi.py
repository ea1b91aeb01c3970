"""MPI: every rank runs the same program; rank 0 is the head, and the others serve until it dismisses them.

Plain MPI loses the whole job with any rank, and nobody joins later: the traits say so, and a run goes on from its
checkpoint. Calls that are sent at the same moment to the same rank travel as one. Nobody spins for long: a rank
that waits looks often at first, and then sleeps between its looks.
"""

from __future__ import annotations

import atexit
import queue
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rookery.errors import UserError
from rookery.fleet import wire
from rookery.fleet.engine import (
    ActorSpec,
    Call,
    Event,
    Failure,
    FleetError,
    Joined,
    Move,
    Ref,
    Refused,
    Traits,
    WorkerId,
)
from rookery.fleet.host import Host, RawAnswer, describe
from rookery.fleet.memory import SharedMemory, mapped
from rookery.fleet.mpi_exchange import Exchange, carry_out
from rookery.fleet.mpi_post import Post, framed, patiently, unframed
from rookery.fleet.wire import Buffer, Message

# What a message is, as its MPI tag.
HELLO, READY, CALLS, ANSWERS, VALUE, DROP, EXCHANGE, DONE, BYE = range(1, 10)

_FLUSH_SECONDS = 0.005  # answers to short calls are sent together, but none waits longer than this
_BYE_SECONDS = 2.0
_NUMBER = struct.Struct("<Q")


class _Ready(msgspec.Struct, frozen=True, array_like=True):
    host: str
    failure: Failure | None = None


class MPIEngine:
    """The head of the ranks."""

    name = "mpi"
    traits = Traits(elastic=False, survives=False)

    def __init__(self, head_works: bool, exchange: str) -> None:
        self.post = Post()
        _check_ranks(self.post, head_works)
        self.exchange = exchange
        self.head_works = head_works
        self.leaving: dict[WorkerId, list[Message]] = {}
        self.events: list[Event] = []
        self.elsewhere: set[WorkerId] = set()
        self.ranks = range(1, self.post.size)
        self.awaited = set(self.ranks)
        self.expected = len(self.ranks) + head_works
        self.memory = SharedMemory()
        self.values: dict[int, Buffer] = {}
        self.own: _Own | None = None

    def start(self, actor: ActorSpec, fleet: str) -> None:
        del fleet
        hello = wire.pack(actor).joined()
        for rank in self.ranks:
            self.post.send(rank, HELLO, hello)
        if self.head_works:
            try:
                self.own = _Own(actor)
                self.events.append(Joined(0))
            except Exception as error:  # noqa: BLE001  (whatever a user's actor raises)
                self.events.append(Refused(0, describe(error)))

    def send(self, worker: WorkerId, call: Call) -> None:
        self.leaving.setdefault(worker, []).append(wire.pack(call))

    def receive(self, timeout: float) -> Sequence[Event]:
        for worker, messages in self.leaving.items():
            if worker == 0 and self.own is not None:
                self.own.calls.put(messages)
            else:
                self.post.send(worker, CALLS, framed(messages))
        self.leaving = {}
        for _ in patiently(timeout):
            self._look()
            if self.events:
                break
        events, self.events = self.events, []
        return events

    def _look(self) -> None:
        """Take in whatever has come."""
        while (found := self.post.next()) is not None:
            rank, tag, data = found
            if tag == ANSWERS:
                self.events += [RawAnswer.to_reply(rank, message) for message in unframed(data)]
            elif tag == READY:
                ready: _Ready = wire.unpack(data).read(_Ready)
                if ready.host != socket.gethostname():
                    self.elsewhere.add(rank)
                    for value in self.values.values():
                        self.post.send(rank, VALUE, value)
                self.awaited.discard(rank)
                if not self.awaited and not self.elsewhere:
                    self.values = {}
                self.events.append(Joined(rank) if ready.failure is None else Refused(rank, ready.failure))
        if self.own is not None:
            while not self.own.answers.empty():
                self.events.append(RawAnswer.to_reply(0, self.own.answers.get()))

    def publish(self, ref: Ref, value: Any) -> Ref:
        """Once into memory that the ranks of this machine map, and once to each rank elsewhere."""
        pieces = wire.pack(value).pieces()
        if self.elsewhere or self.awaited:
            self.values[ref.number] = _NUMBER.pack(ref.number) + b"".join(pieces)
            for rank in self.elsewhere:
                self.post.send(rank, VALUE, self.values[ref.number])
        return msgspec.structs.replace(ref, size=wire.size(pieces), where=self.memory.put(pieces))

    def retract(self, ref: Ref) -> None:
        self.memory.drop(ref.where)
        if self.values.pop(ref.number, None) is not None:
            for rank in self.elsewhere:
                self.post.send(rank, DROP, _NUMBER.pack(ref.number))

    def add(self, workers: int) -> None:
        raise UserError(f"{workers} more workers cannot join an MPI job; start mpiexec with a larger -n")

    def end(self, worker: WorkerId) -> None:
        raise UserError(f"worker {worker} cannot leave an MPI job")

    def transfer(self, moves: Sequence[Move], give: str, take: str) -> bool:
        if self.exchange == "head":
            return False
        plan = Exchange(tuple(moves), give, take, self.exchange == "collective")
        for rank in self.ranks:
            self.post.send(rank, EXCHANGE, wire.pack(plan).joined())
        own = self.own.host if self.own is not None else None
        failures = [carry_out(plan, self.post, own)]
        failures += [wire.unpack(self.post.wait(rank, DONE)[2]).read(Failure | None) for rank in self.ranks]
        for failure in failures:
            if failure is not None:
                raise FleetError(f"a transfer failed: {failure.kind}: {failure.message}\n{failure.traceback}")
        return True

    def close(self) -> None:
        """Dismiss the ranks. One that does not answer is lost, and MPI cannot end without it: it is aborted."""
        if self.own is not None:
            self.own.end()
        for rank in self.ranks:
            self.post.send(rank, BYE, b"")
        left = set(self.ranks)
        for _ in patiently(_BYE_SECONDS):
            while left and (found := self.post.next()) is not None:
                if found[1] == BYE:
                    left.discard(found[0])
            if not left:
                break
        self.memory.close()
        if left:
            atexit.register(self.post.comm.Abort, 1)


class _Own:
    """The worker that lives beside the head, in a thread of rank 0."""

    def __init__(self, actor: ActorSpec) -> None:
        self.host = Host(actor, lambda ref: mapped(ref.where))
        self.calls: queue.SimpleQueue[list[Message] | None] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (calls := self.calls.get()) is not None:
            for call in calls:
                answer = self.host.answer(call)
                self.answers.put(Message(bytes(answer.body), answer.apart))

    def end(self) -> None:
        self.calls.put(None)
        self.thread.join(_BYE_SECONDS)
        self.host.close()


def serve(head_works: bool) -> bool:
    """Be a worker until the head says goodbye; rank 0, which is the head, returns False at once."""
    post = Post()
    _check_ranks(post, head_works)
    if post.rank == 0:
        return False
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the head decides; mpiexec ends those who do not hear it
    _Worker(post).serve()
    return True


class _Worker:
    """A rank at work."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.values: dict[int, Message] = {}
        self.host: Host | None = None

    def serve(self) -> None:
        while True:
            _, tag, data = self.post.wait(0)
            if tag == HELLO:
                self._begin(wire.unpack(data).read(ActorSpec))
            elif tag == CALLS:
                self._answer(unframed(data))
            elif tag == VALUE:
                self.values[_NUMBER.unpack_from(data)[0]] = wire.unpack(data[_NUMBER.size :])
            elif tag == DROP:
                self.values.pop(_NUMBER.unpack(data)[0], None)
            elif tag == EXCHANGE:
                failure = carry_out(wire.unpack(data).read(Exchange), self.post, self.host)
                self.post.send(0, DONE, wire.pack(failure).joined())
            elif tag == BYE:
                break
        if self.host is not None:
            self.host.close()
        self.post.send(0, BYE, b"")
        self.post.flush()

    def _begin(self, actor: ActorSpec) -> None:
        failure = None
        try:
            self.host = Host(actor, self._fetch)
        except Exception as error:  # noqa: BLE001  (whatever a user's actor raises)
            failure = describe(error)
        self.post.send(0, READY, wire.pack(_Ready(socket.gethostname(), failure)).joined())

    def _fetch(self, ref: Ref) -> Message:
        return self.values.get(ref.number) or mapped(ref.where)

    def _answer(self, calls: Iterator[Message]) -> None:
        assert self.host is not None
        answers: list[Message] = []
        since = time.monotonic()
        for call in calls:
            answers.append(self.host.answer(call))
            if time.monotonic() - since > _FLUSH_SECONDS:
                self.post.send(0, ANSWERS, framed(answers))
                answers, since = [], time.monotonic()
        if answers:
            self.post.send(0, ANSWERS, framed(answers))


def _check_ranks(post: Post, head_works: bool) -> None:
    if post.size == 1 and not head_works:
        raise UserError(
            "engine=mpi found no other rank: start it as `mpiexec -n 4 rookery run ...`, with the mpiexec of the "
            "same MPI; engine.head_works=true makes do with this one"
        )
