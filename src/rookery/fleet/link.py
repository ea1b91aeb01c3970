"""Messages over a stream socket: each is preceded by its length."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence

from rookery.fleet.wire import Buffer, size

_LENGTH = struct.Struct("<Q")
_READ_BYTES = 65536
_PIECES_AT_ONCE = 64  # the system takes a limited number of pieces in a call


class ClosedError(Exception):
    """The other side has hung up."""


class Link:
    """One end. One that does not block keeps what the socket would not take, and sends it with the next call."""

    def __init__(self, end: socket.socket, blocking: bool = False) -> None:
        self.socket = end
        self.blocking = blocking
        end.setblocking(blocking)
        self._leaving: deque[memoryview] = deque()
        self._read = bytearray()
        self._large: tuple[bytearray, int] | None = (
            None  # a message that is too long for one read, and how far it is
        )

    def send(self, message: Sequence[Buffer] = ()) -> bool:
        """Send a message behind those that wait; returns whether anything still waits."""
        if message:
            self._leaving.append(memoryview(_LENGTH.pack(size(message))))
            self._leaving.extend(memoryview(piece) for piece in message)
        try:
            while self._leaving:
                batch = [self._leaving[n] for n in range(min(len(self._leaving), _PIECES_AT_ONCE))]
                sent = self.socket.sendmsg(batch)
                while self._leaving and sent >= len(self._leaving[0]):
                    sent -= len(self._leaving.popleft())
                if sent:
                    self._leaving[0] = self._leaving[0][sent:]
        except BlockingIOError:
            return True
        except OSError as error:
            raise ClosedError from error
        return False

    def receive(self) -> list[Buffer]:
        """The messages that have come in whole; waits for bytes only on a link that blocks."""
        found: list[Buffer] = []
        try:
            while True:
                self._take_in()
                self._cut(found)
                if found or self.blocking:
                    return found
        except BlockingIOError:
            return found
        except OSError as error:
            raise ClosedError from error

    def messages(self) -> Iterator[Buffer]:
        """All messages, as they come, until the other side hangs up."""
        while True:
            yield from self.receive()

    def close(self) -> None:
        self.socket.close()

    def _take_in(self) -> None:
        if self._large is not None:
            whole, filled = self._large
            count = self.socket.recv_into(memoryview(whole)[filled:])
            self._large = whole, filled + count
        else:
            data = self.socket.recv(_READ_BYTES)
            count = len(data)
            self._read += data
        if not count:
            raise ConnectionResetError

    def _cut(self, found: list[Buffer]) -> None:
        """Take whole messages off what was read, and make room for one that is longer than that."""
        if self._large is not None:
            whole, filled = self._large
            if filled == len(whole):
                found.append(whole)
                self._large = None
            return
        at = 0
        while len(self._read) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._read, at)
            start = at + _LENGTH.size
            if len(self._read) - start < length:
                if length > _READ_BYTES:
                    whole = bytearray(length)
                    filled = len(self._read) - start
                    whole[:filled] = memoryview(self._read)[start:]
                    self._large = whole, filled
                    at = len(self._read)
                break
            found.append(bytes(memoryview(self._read)[start : start + length]))
            at = start + length
        if at:
            self._read = self._read[at:]
