"""Hands each event to every observer; one that fails is dropped, and the run goes on without it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from rookery.observers.events import Boundary, Event, Notice, Observer


class Bus:
    """Observers in order. One with `essential = True` may fail the run; any other that raises is dropped."""

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers = list(observers)
        self._seconds = 0.0

    def add(self, observer: Observer) -> None:
        """One more observer, after those that are there."""
        self._observers.append(observer)

    def publish(self, event: Event | Boundary) -> None:
        """Give `event` to every observer, and then tell those that are left which ones it cost."""
        self._seconds = event.seconds
        pending: list[Event | Boundary] = [event]
        while pending:
            current = pending.pop(0)
            for observer in tuple(self._observers):
                try:
                    observer.on(current)
                except Exception as error:
                    if _essential(observer):
                        raise
                    self._observers.remove(observer)
                    _abandon(observer)
                    pending.append(self._notice(observer, error))

    def close(self) -> None:
        """Close every observer, whatever the others do, and only then raise what an essential one raised."""
        failure: Exception | None = None
        while self._observers:
            # The first goes first and the screen, by convention last, can still show what the others say.
            observer = self._observers.pop(0)
            try:
                observer.close()
            except Exception as error:  # noqa: BLE001 - what an observer does wrong is its own affair
                if _essential(observer):
                    failure = failure or error
                else:
                    self.publish(self._notice(observer, error))
        if failure is not None:
            raise failure

    def _notice(self, observer: Observer, error: Exception) -> Notice:
        """What the remaining observers are told about a lost one."""
        cause = " ".join(str(error).split()) or "no message"
        message = (
            f"{type(observer).__name__} failed and is switched off; the run goes on without it "
            f"({type(error).__name__}: {cause})."
        )
        return Notice(time=time.time(), seconds=self._seconds, message=message)


def _essential(observer: Observer) -> bool:
    """Whether the run must not go on without this observer."""
    return bool(getattr(observer, "essential", False))


def _abandon(observer: Observer) -> None:
    """Close an observer that has already failed; a second failure says nothing new."""
    with contextlib.suppress(Exception):
        observer.close()
