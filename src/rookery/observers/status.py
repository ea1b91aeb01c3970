"""What a screen has to know of a run: the latest numbers, the score curve and the time that is left."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from rookery.observers.events import (
    Boundary,
    Checkpointed,
    Copied,
    Ended,
    Event,
    Generation,
    Notice,
    Population,
    Started,
    Validated,
)
from rookery.observers.text import duration
from rookery.store.events import History

_WINDOW = 32


class Stop(Protocol):
    """When a run ends: whichever of these comes first, None where it never does."""

    @property
    def score(self) -> float | None: ...

    @property
    def generations(self) -> int | None: ...

    @property
    def steps(self) -> int | None: ...

    @property
    def seconds(self) -> float | None: ...


class Series:
    """A curve of any length in bounded memory: when it is full, neighbours are averaged."""

    def __init__(self, capacity: int = 2048) -> None:
        self.values: list[float] = []
        self.low = math.inf
        self.high = -math.inf
        self._capacity = capacity
        self._stride = 1
        self._pending: list[float] = []

    def add(self, value: float) -> None:
        """Append one value; one that is not finite cannot be drawn and is left out."""
        if not math.isfinite(value):
            return
        self.low, self.high = min(self.low, value), max(self.high, value)
        self._pending.append(value)
        if len(self._pending) < self._stride:
            return
        self.values.append(sum(self._pending) / len(self._pending))
        self._pending.clear()
        if len(self.values) >= self._capacity:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [(left + right) / 2 for left, right in pairs]
            self._stride *= 2

    def resampled(self, width: int) -> list[float]:
        """Exactly `width` values: means where there are more, straight lines where there are fewer."""
        values = list(self.values)
        count = len(values)
        if count == 0 or width <= 0:
            return []
        if count >= width:
            edges = [column * count // width for column in range(width + 1)]
            return [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
        drawn = []
        for column in range(width):
            position = column * (count - 1) / max(1, width - 1)
            left = min(int(position), count - 1)
            right = min(left + 1, count - 1)
            drawn.append(values[left] + (values[right] - values[left]) * (position - left))
        return drawn


@dataclass(frozen=True)
class _Mark:
    """A point of the run that rates are measured from."""

    seconds: float
    generation: int
    steps: int


@dataclass
class Status:
    """Everything that the screen shows, kept up to date by `see`."""

    name: str
    env: str
    algorithm: str
    stop: Stop
    past: History | None = None
    started: Started | None = None
    last: Generation | None = None
    validated: Validated | None = None
    best: Validated | None = None
    ended: Ended | None = None
    message: tuple[str, float] | None = None
    failed: int = 0
    population: Population | None = None
    copies: int = 0
    closed: bool = False
    scores: Series = field(default_factory=Series)
    fitness: Series = field(default_factory=Series)
    _window: deque[Generation] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    _start: _Mark | None = None
    _seconds: float = 0.0
    _seen: float = field(default_factory=time.monotonic)

    def see(self, event: Event | Boundary) -> None:
        """Take in one event."""
        self._seconds, self._seen = event.seconds, time.monotonic()
        match event:
            case Started():
                self.started = event
                self._start = _Mark(event.seconds, event.generation, event.steps)
                self._recall(event.generation)
            case Generation():
                self.last = event
                self.failed += event.failed
                self._window.append(event)
                self._add_curves(event)
            case Validated():
                self.validated = event
                if event.best or self.best is None:
                    self.best = event
            case Population():
                self.population = event
            case Copied():
                self.copies += 1
            case Checkpointed():
                kind = "best agent" if event.best else "checkpoint"
                self.message = (f"{kind} of generation {event.generation} saved", time.monotonic())
            case Notice():
                self.message = (event.message, time.monotonic())
            case Ended():
                self.ended = event
            case _:
                pass

    def _recall(self, generation: int) -> None:
        """Take over what the earlier sittings of a resumed run have shown, up to where it goes on."""
        if self.past is None:
            return
        for entry in self.past.generations:
            if entry.generation <= generation:
                self._add_curves(entry)
        kept = [entry for entry in self.past.validated if entry.generation <= generation]
        self.validated = kept[-1] if kept else None
        self.best = next((entry for entry in reversed(kept) if entry.best), None)
        self.copies = sum(entry.generation <= generation for entry in self.past.copied)

    def _add_curves(self, event: Generation) -> None:
        """Continue the score curve, and the one of fitness for algorithms whose champion earns no score."""
        if event.score is not None:
            self.scores.add(event.score)
        self.fitness.add(event.fitness_mean)

    @property
    def generation(self) -> int:
        """Generations that are done."""
        found = self.last or self.started
        return found.generation if found else 0

    @property
    def steps(self) -> int:
        """Environment steps that are done."""
        found = self.last or self.started
        return found.steps if found else 0

    @property
    def elapsed(self) -> float:
        """Seconds that the run has been running, counted on between events."""
        if self.ended is not None:
            return self.ended.seconds
        return self._seconds + (time.monotonic() - self._seen if self.started else 0.0)

    @property
    def ranks(self) -> tuple[float, float, float] | None:
        """What the worst, the median and the best member earned, where there is a population."""
        if self.population is None:
            return None
        scores = [row.score for row in self.population.members]
        return min(scores), statistics.median(scores), max(scores)

    def _rates(self) -> tuple[float, float]:
        """Generations and steps per second over the last generations."""
        window = list(self._window)
        if not window:
            return 0.0, 0.0
        first = window[0] if len(window) == _WINDOW or self._start is None else self._start
        seconds = window[-1].seconds - first.seconds
        if seconds <= 0:
            return 0.0, 0.0
        return (
            (window[-1].generation - first.generation) / seconds,
            (window[-1].steps - first.steps) / seconds,
        )

    def remaining(self) -> float | None:
        """Seconds until the first stop condition that time brings about; None where there is none."""
        if self.ended is not None:
            return None
        since = time.monotonic() - self._seen
        generations_rate, steps_rate = self._rates()
        left: list[float] = []
        if self.stop.generations is not None and generations_rate > 0:
            left.append((self.stop.generations - self.generation) / generations_rate - since)
        if self.stop.steps is not None and steps_rate > 0:
            left.append((self.stop.steps - self.steps) / steps_rate - since)
        if self.stop.seconds is not None:
            left.append(self.stop.seconds - self.elapsed)
        return max(0.0, min(left)) if left else None

    def fraction(self) -> float | None:
        """How much of the nearest stop condition is done, from 0 to 1; None where there is only a score."""
        done: list[float] = []
        if self.stop.generations:
            done.append(self.generation / self.stop.generations)
        if self.stop.steps:
            done.append(self.steps / self.stop.steps)
        if self.stop.seconds:
            done.append(self.elapsed / self.stop.seconds)
        return min(1.0, max(done)) if done else None

    def shares(self) -> dict[str, float]:
        """Where the time of the last generations went, as fractions of one."""
        window = list(self._window)
        if not window:
            return {}
        names = list(dict.fromkeys(name for entry in window for name in entry.times))
        parts = {name: sum(entry.times.get(name, 0.0) for entry in window) for name in names}
        inside = sum(parts.values())
        span = inside
        if len(window) > 1:
            # The window opens when its first generation ends, so that one's own parts lie before it.
            head = window[0]
            inner = inside - sum(head.times.values())
            span += max(0.0, window[-1].seconds - head.seconds - inner)
        elif self._start is not None:
            span = max(inside, window[-1].seconds - self._start.seconds)
        if span <= 0:
            return {}
        return {name: value / span for name, value in parts.items()} | {"other": (span - inside) / span}

    def age(self) -> str:
        """How long ago the last message came."""
        return duration(time.monotonic() - self.message[1]) if self.message else ""
