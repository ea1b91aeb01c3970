"""Bytes between MPI ranks. Nobody spins: a rank that waits looks often at first, then naps between its looks."""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rookery.errors import UserError
from rookery.fleet import wire
from rookery.fleet.wire import Buffer, Message

try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:  # mpi4py without an MPI to load is a RuntimeError
    raise UserError(
        "engine=mpi needs MPI: pip install 'rookery[mpi]', or mpi4py and an MPI of your own"
    ) from error

ANY = MPI.ANY_SOURCE

_LENGTH = struct.Struct("<Q")
_SPIN_SECONDS = 0.0002
_NAP_SECONDS = 0.001


class Post:
    """Sending and receiving at one rank."""

    def __init__(self) -> None:
        self.comm = MPI.COMM_WORLD
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.leaving: deque[tuple[Any, Buffer]] = deque()
        self.status = MPI.Status()
        self.byte = MPI.BYTE

    def send(self, rank: int, tag: int, data: Buffer) -> None:
        """Start sending; the buffer is kept until it has left."""
        while self.leaving and self.leaving[0][0].Test():
            self.leaving.popleft()
        self.leaving.append((self.comm.Isend([data, MPI.BYTE], rank, tag), data))

    def next(self, source: int = ANY, tag: int = MPI.ANY_TAG) -> tuple[int, int, memoryview] | None:
        """Source, tag and bytes of a message that has come in."""
        message = self.comm.Improbe(source, tag, self.status)
        if message is None:
            return None
        data = np.empty(self.status.Get_count(MPI.BYTE), np.uint8)
        found = self.status.Get_source(), self.status.Get_tag(), data.data
        message.Recv([data, MPI.BYTE])
        return found

    def wait(self, source: int = ANY, tag: int = MPI.ANY_TAG) -> tuple[int, int, memoryview]:
        """The same, however long it takes."""
        for _ in patiently(None):
            if (found := self.next(source, tag)) is not None:
                return found
        raise AssertionError

    def flush(self) -> None:
        """Wait until everything has left."""
        while self.leaving:
            self.leaving.popleft()[0].Wait()


def patiently(timeout: float | None) -> Iterator[None]:
    """Turns of a loop that looks for something: many at first, then with naps, until the time is over."""
    started = time.monotonic()
    while True:
        yield
        waited = time.monotonic() - started
        if timeout is not None and waited >= timeout:
            return
        if waited < _SPIN_SECONDS:
            os.sched_yield()
        else:
            time.sleep(min(_NAP_SECONDS, waited / 10))


def framed(messages: Sequence[Message]) -> Buffer:
    """Messages as bytes, one behind the other, each after its length."""
    pieces: list[Buffer] = []
    for message in messages:
        parts = message.pieces()
        pieces += [_LENGTH.pack(wire.size(parts)), *parts]
    return b"".join(pieces)


def unframed(data: memoryview) -> Iterator[Message]:
    """The messages that lie in some bytes."""
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield wire.unpack(data[at : at + length])
        at += length
