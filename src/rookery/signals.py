"""Ctrl-C and SIGTERM stop a run at once where that is safe, and otherwise as soon as it is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopRequestedError(BaseException):  # a user's environment must not be able to catch it as its own failure
    """Somebody wants the run to stop; `exit_code` is what a shell expects of a process that a signal ended."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class StopSignals:
    """While open, the two signals no longer kill; `interruptible` marks work that may be cut off anywhere."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._interruptible = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise if a signal has come."""
        if self.received is not None:
            raise StopRequestedError(self.received)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Work without lasting effects: a signal ends it at once."""
        self._interruptible = True
        try:
            self.check()
            yield
        finally:
            self._interruptible = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        first = self.received is None
        self.received = self.received or number
        if first and self._interruptible:
            raise StopRequestedError(number)
