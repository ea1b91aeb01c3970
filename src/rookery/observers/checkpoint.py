"""Writes checkpoints: every so many generations or seconds, for a new best, and when the run stops."""

from __future__ import annotations

import time
from collections.abc import Callable

from rookery.errors import RookeryError
from rookery.observers.events import Boundary, Checkpointed, Event, Notice
from rookery.store.codec import encode
from rookery.store.directory import RunDirectory


class CheckpointWriter:
    """Keeps the last boundary at hand, and writes it when it is due."""

    essential = True  # a run whose last state cannot be written must not end as if it could

    def __init__(
        self, run: RunDirectory, every: int, seconds: float, keep: int, publish: Callable[[Event], None]
    ) -> None:
        self.run, self.every, self.seconds, self.keep = run, every, seconds, keep
        self.publish = publish
        self.written_at = time.monotonic()
        self.last: int | None = max(run.checkpoints(), default=None)

    def on(self, event: Event | Boundary) -> None:
        if not isinstance(event, Boundary):
            return
        generation = event.progress.generation
        due = generation % self.every == 0 or time.monotonic() - self.written_at >= self.seconds
        if not (due or event.final or event.best or self.last is None):
            return
        try:
            path = self.run.save(generation, encode(event.progress), event.best, self.keep)
        except OSError as error:
            message = f"the checkpoint of generation {generation} could not be written: {error.strerror}"
            if event.final:
                kept = f"; the one of generation {self.last} is whole" if self.last is not None else ""
                raise RookeryError(message + kept) from error
            self.publish(Notice(time=time.time(), seconds=event.seconds, message=message))
            return
        self.written_at, self.last = time.monotonic(), generation
        self.publish(
            Checkpointed(
                time=time.time(),
                seconds=event.seconds,
                generation=generation,
                path=str(path),
                best=event.best,
            )
        )

    def close(self) -> None:
        """Nothing is held open."""
