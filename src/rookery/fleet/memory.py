"""Values that all processes of a machine share: written once, mapped by whoever wants them."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rookery.fleet.wire import Buffer, Message, unpack


class SharedMemory:
    """Files in memory that have no name, reached through this process; nothing is left when it dies."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}

    def put(self, pieces: Sequence[Buffer]) -> str:
        """Write a message, and return the path by which other processes of the same user can map it."""
        descriptor, path = _file()
        self.files[path] = descriptor
        for piece in pieces:
            rest = memoryview(piece)
            while rest.nbytes:
                rest = rest[os.write(descriptor, rest) :]
        return path

    def drop(self, path: str) -> None:
        """Forget a message; those who have mapped it keep it."""
        os.close(self.files.pop(path))
        if not path.startswith("/proc/"):
            Path(path).unlink()

    def close(self) -> None:
        for path in list(self.files):
            self.drop(path)


def mapped(path: str) -> Message:
    """The message at a path, without a copy."""
    with Path(path).open("rb") as file:
        return unpack(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))


def _file() -> tuple[int, str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rookery")
        return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}"
    return tempfile.mkstemp(prefix="rookery-")
