"""A set of workers, each with an actor of its own, and the verbs by which they are put to work.

    fleet = Fleet(ActorSpec("my_pkg.actors:Probe", {"depth": 3}), Process(workers=8))

An actor is any plain class. Annotations of its methods say what is sent: numbers, text, lists, dicts, NumPy arrays
and msgspec structs; what is not annotated arrives as plain data.
"""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from operator import length_hint
from typing import Any, NamedTuple, Self

import msgspec

from rookery.errors import UserError
from rookery.fleet.dispatch import Dispatcher, Task
from rookery.fleet.engine import ActorSpec, Call, FleetError, Move, Ref, WorkerId
from rookery.fleet.host import signature
from rookery.fleet.specs import EngineSpec, Inline

_FOREVER = 1e9
_INLINE = Inline()


class Newest(msgspec.Struct, frozen=True):
    """Stands, as an argument of `gather`, for the newest value published under a name."""

    name: str


class FleetStats(msgspec.Struct, frozen=True):
    """How the workers fare: all counts are since the start, `idle` since the last time it was asked for."""

    workers: int
    joined: int
    lost: int
    reissued: int
    discarded: int
    idle: float


class Fleet:
    """Workers of one engine. Use it in a `with` block, or `close` it: workers end with it."""

    def __init__(
        self,
        actor: ActorSpec,
        engine: EngineSpec = _INLINE,
        *,
        timeout: float | None = None,
        patience: float = 120.0,
    ) -> None:
        """`timeout` is for each call, in seconds; `patience` for a fleet without any worker."""
        self.id = uuid.uuid4().hex
        self.kind = actor.resolve()
        self.engine = engine.make()
        self.timeout = self._allowed(timeout)
        self._numbers = count(1)
        self._published: dict[str, Ref] = {}
        self._stale: set[Ref] = set()
        self._remembered: dict[str, tuple[Any, ...]] = {}
        self._gathers: list[_Gather] = []
        self._dispatcher = Dispatcher(self.engine, self.kind, patience)
        self._dispatcher.on_joined.append(self._brief)
        self._dispatcher.on_free = self._free
        self.engine.start(actor, self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def workers(self) -> list[WorkerId]:
        """The workers that are there now."""
        return sorted(self._dispatcher.seats)

    def ready(self, workers: int = 1, timeout: float = _FOREVER) -> list[WorkerId]:
        """Wait until so many workers are there."""
        self._until(lambda: len(self._dispatcher.seats) >= workers, timeout, f"{workers} workers to join")
        return self.workers

    def assemble(self, seconds: float = 30.0) -> list[WorkerId]:
        """Wait for all workers that there are to be; after so many seconds, be content with some."""
        self.ready()
        with contextlib.suppress(FleetError):
            self.ready(self.engine.expected, seconds)
        return self.workers

    def all(
        self, method: str, *args: Any, remember: bool = True, timeout: float | None = None
    ) -> dict[WorkerId, Any]:
        """Call a method on every worker. Workers that join later get the last call of each method as well."""
        self._check(method)
        if remember:
            self._hold(self._remembered.get(method, ()), args)
            self._remembered[method] = args
        self.ready()
        tasks = {worker: self._one(method, args, timeout, worker) for worker in self.workers}
        self._wait(tasks.values())
        return {worker: task.result() for worker, task in tasks.items() if worker in self._dispatcher.seats}

    def any(self, method: str, *args: Any, timeout: float | None = None) -> Any:
        """Call a method on one worker, the first that is idle."""
        return self.wait([self.submit(method, *args, timeout=timeout)])[0].result()

    def map(
        self, method: str, calls: Iterable[Sequence[Any]], *, timeout: float | None = None
    ) -> Iterator[tuple[int, Any]]:
        """A call for each tuple of arguments; yields (number of the call, result) as they complete.

        Lost calls are issued again, and stragglers twice, so a call must give the same result whoever does it.
        Arguments are taken only a little ahead of the workers.
        """
        self._check(method)
        parts = _Parts(calls)
        numbers: dict[Task, int] = {}  # of the first call of each
        done: deque[Task] = deque()
        out = 0
        try:
            while True:
                together, depth = self._dispatcher.pace(method)
                seats = len(self._dispatcher.seats)
                together = min(together, parts.left // (2 * seats + 1) + 1)  # the last ones are for everybody
                room = 2 + (depth + 1) * seats
                while out < room and (part := parts.take(together)):
                    task = self._task(method, part.args, part.refs, timeout, twice=True, sink=done)
                    numbers[task] = part.number
                    out += len(part.args)
                if not numbers:
                    return
                if not done:
                    self._dispatcher.pump(_FOREVER)
                while done:
                    task = done.popleft()
                    out -= len(task.call.args)
                    yield from enumerate(task.values, numbers.pop(task))
                    if task.error is not None:
                        raise task.error
        finally:
            for task in numbers:
                self._dispatcher.abandon(task)

    def gather(self, method: str, *args: Any, unread: int = 2) -> Iterator[tuple[WorkerId, Any]]:
        """Every worker calls the method again and again, with at most `unread` results that nobody has read.

        An argument `Newest(name)` is the newest value published under that name when a call is issued.
        """
        self._check(method)
        gathering = _Gather(self, method, args, unread)
        self._gathers.append(gathering)
        try:
            for worker in self.workers:
                gathering.begin(worker)
            while True:
                while not gathering.done:
                    self._dispatcher.pump(_FOREVER)
                yield from gathering.read()
        finally:
            self._gathers.remove(gathering)
            gathering.close()

    def submit(
        self, method: str, *args: Any, timeout: float | None = None, worker: WorkerId | None = None
    ) -> Task:
        """Start a call on `worker`, or on whoever is idle first; `wait` for it, then ask for its `result()`."""
        self._check(method)
        return self._one(method, args, timeout, worker)

    def wait(self, tasks: Sequence[Task], at_least: int | None = None, timeout: float = _FOREVER) -> list[Task]:
        """Wait until `at_least` of these calls (or all) are done, and return those that are."""
        wanted = len(tasks) if at_least is None else at_least
        self._until(lambda: sum(task.done for task in tasks) >= wanted, timeout, f"{wanted} calls to return")
        return [task for task in tasks if task.done]

    def publish(self, name: str, value: Any) -> Ref:
        """Make a value known to all workers, in place of the one of that name before; an argument for calls."""
        ref = self.engine.publish(Ref(self.id, name, next(self._numbers)), value)
        before = self._published.get(name)
        self._published[name] = ref
        if before is not None:
            self._stale.add(before)
            if before not in self._dispatcher.holds:
                self._free(before)
        return ref

    def transfer(self, moves: Sequence[Move], give: str = "give", take: str = "take") -> None:
        """Move things between actors, all at once: `give(source_key)` there, `take(target_key, it)` here."""
        self._check(give)
        self._check(take)
        if not moves:
            return
        self._until(lambda: not self._dispatcher.open, _FOREVER, "the workers")
        if self.engine.transfer(moves, give, take):
            return
        sources = dict.fromkeys((move.source, move.source_key) for move in moves)
        given = {source: self._one(give, (source[1],), None, source[0]) for source in sources}
        self._wait(given.values())
        taken = [
            self._one(take, (move.target_key, given[move.source, move.source_key].result()), None, move.target)
            for move in moves
        ]
        self._wait(taken)
        for task in taken:
            task.result()

    def add(self, workers: int) -> None:
        """Bring up more workers."""
        self._elastic("no worker can join")
        self.engine.add(workers)

    def end(self, worker: WorkerId) -> None:
        """End a worker; what it was doing is done by others."""
        self._elastic("no worker can leave")
        self.engine.end(worker)
        self._until(lambda: worker not in self._dispatcher.seats, 60.0, f"worker {worker} to end")

    def news(self) -> list[str]:
        """What has happened to workers since this was last asked, a line each."""
        news, self._dispatcher.news = self._dispatcher.news, []
        return news

    def stats(self) -> FleetStats:
        """How the workers fare."""
        at = self._dispatcher
        return FleetStats(len(at.seats), at.joined, at.lost, at.reissued, at.discarded, at.idle_share())

    def close(self) -> None:
        """End all workers."""
        self.engine.close()

    def _allowed(self, timeout: float | None) -> float | None:
        if timeout is not None and not self.engine.traits.deadlines:
            raise UserError(
                f"engine={self.engine.name} cannot end a call that does not return; give it no timeout"
            )
        return timeout

    def _elastic(self, what: str) -> None:
        if not self.engine.traits.elastic:
            raise UserError(
                f"{what} while engine={self.engine.name} runs: its workers are fixed when it is started"
            )

    def _check(self, method: str) -> None:
        try:
            signature(self.kind, method)
        except AttributeError as error:
            raise UserError(str(error)) from None

    def _one(
        self,
        method: str,
        args: tuple[Any, ...],
        timeout: float | None,
        pinned: WorkerId | None,
        sink: deque[Task] | None = None,
    ) -> Task:
        """A single call, on its way."""
        plain, refs = _apart(args)
        return self._task(method, (plain,), refs, timeout, pinned, sink=sink)

    def _task(
        self,
        method: str,
        args: Sequence[tuple[Any, ...]],
        refs: dict[int, Ref],
        timeout: float | None,
        pinned: WorkerId | None = None,
        twice: bool = False,
        sink: deque[Task] | None = None,
    ) -> Task:
        limit = self.timeout if timeout is None else self._allowed(timeout)
        call = Call(next(self._numbers), method, len(args[0]), args, refs)
        task = Task(call, limit, pinned, twice, sink)
        self._dispatcher.submit(task)
        return task

    def _wait(self, tasks: Iterable[Task]) -> None:
        waited = list(tasks)
        self._until(lambda: all(task.done for task in waited), _FOREVER, "calls to return")

    def _until(self, condition: Any, timeout: float, what: str) -> None:
        ends = time.monotonic() + timeout
        while not condition():
            left = ends - time.monotonic()
            if left <= 0:
                raise FleetError(f"waited {timeout:g} s for {what}")
            self._dispatcher.pump(left)

    def _brief(self, worker: WorkerId) -> None:
        """Tell a worker that joins what all others were told."""
        for method, args in self._remembered.items():
            self._one(method, args, None, worker)
        for gathering in self._gathers:
            gathering.begin(worker)

    def _hold(self, before: Sequence[Any], now: Sequence[Any]) -> None:
        """Remembered arguments keep what is published."""
        for ref in (arg for arg in now if isinstance(arg, Ref)):
            self._dispatcher.hold(ref)
        for ref in (arg for arg in before if isinstance(arg, Ref)):
            self._dispatcher.release(ref)

    def _free(self, ref: Ref) -> None:
        """Nobody uses this value now; nobody will if there is a newer one of its name."""
        if ref in self._stale:
            self._stale.remove(ref)
            self.engine.retract(ref)


class _Part(NamedTuple):
    """Calls of a `map` that travel together: the number of the first, and their arguments."""

    number: int
    args: list[tuple[Any, ...]]
    refs: dict[int, Ref]


class _Parts:
    """The calls of a `map`, taken as they are needed."""

    def __init__(self, calls: Iterable[Sequence[Any]]) -> None:
        self.pending = (_apart(tuple(args)) for args in calls)
        self.count = length_hint(calls, sys.maxsize)
        self.taken = 0
        self.following = next(self.pending, None)

    @property
    def left(self) -> int:
        """How many calls are still to be taken; very many where nobody knows."""
        return self.count - self.taken

    def take(self, most: int) -> _Part | None:
        """So many calls at most, all with as many arguments and the same published ones; None at the end."""
        if self.following is None:
            return None
        first, refs = self.following
        part = _Part(self.taken, [first], refs)
        while (following := next(self.pending, None)) and len(part.args) < most:
            if following[1] != refs or len(following[0]) != len(first):
                break
            part.args.append(following[0])
        self.following = following
        self.taken += len(part.args)
        return part


def _apart(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[int, Ref]]:
    """Arguments without the published ones among them, and those by their place."""
    refs = {place: arg for place, arg in enumerate(args) if isinstance(arg, Ref)}
    return (tuple(None if place in refs else arg for place, arg in enumerate(args)) if refs else args), refs


class _Gather:
    """What is going on for one `gather`."""

    def __init__(self, fleet: Fleet, method: str, args: tuple[Any, ...], unread: int) -> None:
        self.fleet, self.method, self.args, self.unread = fleet, method, args, unread
        self.issued: set[Task] = set()
        self.done: deque[Task] = deque()

    def begin(self, worker: WorkerId) -> None:
        """Have a worker produce."""
        for _ in range(self.unread):
            self._issue(worker)

    def read(self) -> Iterator[tuple[WorkerId, Any]]:
        """What has come in; each result that is read makes room for another."""
        while self.done:
            task = self.done.popleft()
            self.issued.remove(task)
            worker = task.worker
            if worker is None or worker not in self.fleet._dispatcher.seats:
                continue  # its worker is gone; whoever replaces it produces from when it joins
            value = task.result()
            yield worker, value
            self._issue(worker)

    def close(self) -> None:
        for task in self.issued:
            self.fleet._dispatcher.abandon(task)

    def _issue(self, worker: WorkerId) -> None:
        if worker in self.fleet._dispatcher.seats:
            args = tuple(self.fleet._published[arg.name] if isinstance(arg, Newest) else arg for arg in self.args)
            self.issued.add(self.fleet._one(self.method, args, None, worker, self.done))
