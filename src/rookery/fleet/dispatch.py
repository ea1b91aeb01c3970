"""Who does which call: idle workers first, lost calls again, nothing awaited for ever. The verbs stand on this."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from rookery.errors import RookeryError
from rookery.fleet.engine import Call, Engine, Failure, FleetError, Joined, Lost, Ref, Refused, Reply, WorkerId
from rookery.fleet.host import signature
from rookery.fleet.wire import Message, MessageError

_QUEUED_SECONDS = 0.01  # of work that may wait at a worker, so that it need not wait for the head
_AHEAD = 64  # short calls that may wait at a worker
_MESSAGES = 2  # in which short calls travel that wait at a worker: while it does one, the next is there
_CHECK_SECONDS = 0.25  # between looks for overdue calls and stragglers
_ATTEMPTS = 3  # workers that a call may take with it before it counts as the culprit
_STRAGGLER = 3.0  # times the median duration, and at least a second
_REMEMBERED = 101  # durations


class RemoteError(RookeryError):
    """A call failed in a worker; `traceback` is the worker's."""

    def __init__(self, failure: Failure, method: str, worker: WorkerId) -> None:
        what = failure.message.strip() or "no message"
        explained = f"{method} failed on worker {worker}: {failure.kind}: {what}"
        super().__init__(what if failure.explained else explained)
        self.worker, self.traceback, self.exit_code = worker, failure.traceback, failure.exit_code
        self.add_note(f"In worker {worker}:\n{failure.traceback}")


class Pace(NamedTuple):
    """How many calls travel together, and how many a worker may hold before it gets no more."""

    together: int
    depth: int


class Task:
    """A call on its way, or a few that travel together: waiting, out at one worker or two, or done."""

    def __init__(
        self,
        call: Call,
        timeout: float | None,
        pinned: WorkerId | None = None,
        twice: bool = False,
        sink: deque[Task] | None = None,
    ) -> None:
        """`twice`: may be issued to two workers at once; `sink`: where it puts itself when it is done."""
        self.call = call
        self.timeout, self.pinned, self.twice, self.sink = timeout, pinned, twice, sink
        self.at: list[WorkerId] = []
        self.issued = 0.0
        self.attempts = 0
        self.done = False
        self.worker: WorkerId | None = None
        self.values: list[Any] = []
        self.error: RookeryError | None = None

    @property
    def method(self) -> str:
        return self.call.method

    def finish(self, worker: WorkerId | None, values: list[Any], error: RookeryError | None = None) -> None:
        self.done, self.worker, self.values, self.error = True, worker, values, error
        if self.sink is not None:
            self.sink.append(self)

    def result(self) -> Any:
        """What the method returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.values[0] if self.values else None


class _Seat:
    """What the head knows of one worker."""

    def __init__(self, worker: WorkerId) -> None:
        self.worker = worker
        self.pinned: deque[Task] = deque()
        self.out: deque[Task] = deque()
        self.calls = 0  # in what is out
        self.since = 0.0


class Dispatcher:
    """Sends calls to the workers of an engine and takes in what they answer."""

    def __init__(self, engine: Engine, kind: type, patience: float) -> None:
        self.engine, self.kind, self.patience = engine, kind, patience
        self.seats: dict[WorkerId, _Seat] = {}
        self.waiting: deque[Task] = deque()
        self.open: dict[int, Task] = {}
        self.holds: dict[Ref, int] = {}
        self.joined = self.lost = self.reissued = self.discarded = 0
        self.busy = self.present = 0.0
        self.news: list[str] = []
        self.on_joined: list[Callable[[WorkerId], None]] = []
        self.on_free: Callable[[Ref], object] = id
        self._loads: list[dict[WorkerId, _Seat]] = [{} for _ in range(_AHEAD + 1)]
        self._pinned: dict[WorkerId, _Seat] = {}
        self._seconds: dict[str, float] = {}  # of a call, by method, smoothed
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)
        self._checked = self._counted = time.monotonic()
        self._alone_since: float | None = self._counted

    def submit(self, task: Task) -> None:
        """Take a call on; it is sent as soon as its worker, or any, has room."""
        self.open[task.call.id] = task
        for ref in task.call.refs.values():
            self.hold(ref)
        if task.pinned is None:
            self.waiting.append(task)
        elif seat := self.seats.get(task.pinned):
            seat.pinned.append(task)
            self._pinned[seat.worker] = seat
        else:
            self._finish(task, None, [], FleetError(f"worker {task.pinned} is gone"))

    def abandon(self, task: Task) -> None:
        """Nobody waits for this call any more; if it is out already, its result is thrown away."""
        if not task.done:
            self._finish(task, None, [])

    def hold(self, ref: Ref) -> None:
        """A published value is needed once more."""
        self.holds[ref] = self.holds.get(ref, 0) + 1

    def release(self, ref: Ref) -> None:
        """A published value is needed once less."""
        self.holds[ref] -= 1
        if not self.holds[ref]:
            del self.holds[ref]
            self.on_free(ref)

    def pace(self, method: str) -> Pace:
        """One call at a time, or as many as fill a moment if they are short, some of them travelling together."""
        seconds = self._seconds.get(method, _QUEUED_SECONDS)
        if seconds >= _QUEUED_SECONDS:
            return Pace(1, 1)
        calls = max(2, min(_AHEAD, int(_QUEUED_SECONDS / max(seconds, 1e-6))))
        return Pace(max(1, calls // _MESSAGES), calls)

    def pump(self, timeout: float) -> None:
        """Send what can be sent, then wait up to `timeout` for something to happen and take it in."""
        self._dispatch()
        for event in self.engine.receive(max(0.0, min(timeout, _CHECK_SECONDS))):
            if isinstance(event, Reply):
                self._on_reply(event)
            elif isinstance(event, Joined):
                self._on_joined(event.worker)
            elif isinstance(event, Lost):
                self._on_lost(event)
            else:
                self._on_refused(event)
        now = time.monotonic()
        if now - self._checked >= _CHECK_SECONDS:
            self._checked = now
            self._count(now)
            self._end_overdue(now)
            self._issue_stragglers_twice(now)
            if not self.seats and self._alone_since is not None and now - self._alone_since > self.patience:
                since = "since the start" if not self.joined else "any more"
                raise FleetError(f"for {self.patience:.0f} s there has been no worker {since}")
        self._dispatch()

    def idle_share(self) -> float:
        """The share of the workers' time, since this was last asked, in which they had nothing to do."""
        self._count(time.monotonic())
        share = 1 - self.busy / self.present if self.present > 0 else 0.0
        self.busy = self.present = 0.0
        return min(1.0, max(0.0, share))

    def _count(self, now: float) -> None:
        self.present += (now - self._counted) * len(self.seats)
        self._counted = now

    def _dispatch(self) -> None:
        for seat in list(self._pinned.values()):
            while seat.pinned and seat.calls < self.pace(seat.pinned[0].method).depth:
                self._send(seat.pinned.popleft(), seat)
            if not seat.pinned:
                del self._pinned[seat.worker]
        while self.waiting:
            depth = self.pace(self.waiting[0].method).depth
            room = next((seats for seats in self._loads[:depth] if seats), None)
            if room is None:
                return
            self._send(self.waiting.popleft(), next(iter(room.values())))

    def _send(self, task: Task, seat: _Seat) -> None:
        if task.done:  # abandoned while it waited
            return
        now = time.monotonic()
        if not seat.out:
            seat.since = now
        task.at.append(seat.worker)
        task.issued = now
        self._shift(seat, task, None)
        self.engine.send(seat.worker, task.call)

    def _shift(self, seat: _Seat, more: Task | None, less: Task | None) -> None:
        """Change what is out at a worker, and with it the worker's place among the idle and the loaded."""
        self._loads[min(seat.calls, len(self._loads) - 1)].pop(seat.worker, None)
        if more is not None:
            seat.out.append(more)
            seat.calls += len(more.call.args)
        if less is not None:
            seat.out.remove(less)
            seat.calls -= len(less.call.args)
        self._loads[min(seat.calls, len(self._loads) - 1)][seat.worker] = seat

    def _on_reply(self, reply: Reply) -> None:
        seat = self.seats.get(reply.worker)
        task = next((task for task in seat.out if task.call.id == reply.call), None) if seat else None
        if seat is None or task is None:
            self.discarded += 1
            return
        self._shift(seat, None, task)
        seat.since = time.monotonic()
        self.busy += reply.seconds
        seconds = reply.seconds / len(task.call.args)
        self._seconds[task.method] = 0.9 * self._seconds.get(task.method, seconds) + 0.1 * seconds
        self._durations.append(reply.seconds)
        if task.done:
            self.discarded += 1
            return
        failed = RemoteError(reply.failure, task.method, reply.worker) if reply.failure is not None else None
        values, misread = self._read(reply.values, task)
        self._finish(task, reply.worker, values, failed or misread)

    def _read(self, values: Message | list[Any], task: Task) -> tuple[list[Any], RookeryError | None]:
        """What a method returned, as the type that it says it returns."""
        if not isinstance(values, Message):
            return values, None
        try:
            return values.read(signature(self.kind, task.method).results), None
        except MessageError as error:
            return [], FleetError(f"{task.method} returned something else than its annotation says: {error}")

    def _finish(
        self, task: Task, worker: WorkerId | None, values: list[Any], error: RookeryError | None = None
    ) -> None:
        task.finish(worker, values, error)
        self.open.pop(task.call.id, None)
        for ref in task.call.refs.values():
            self.release(ref)

    def _on_joined(self, worker: WorkerId) -> None:
        self._count(time.monotonic())
        self.joined += 1
        self._alone_since = None
        self.seats[worker] = self._loads[0][worker] = _Seat(worker)
        for listener in self.on_joined:
            listener(worker)

    def _on_refused(self, event: Refused) -> None:
        """An actor that cannot be made on one worker cannot be made on another."""
        raise RemoteError(event.failure, "making the actor", event.worker)

    def _on_lost(self, event: Lost) -> None:
        seat = self.seats.pop(event.worker, None)
        if seat is None:
            return
        self._pinned.pop(event.worker, None)
        self._count(time.monotonic())
        self.lost += 1
        for seats in self._loads:
            seats.pop(event.worker, None)
        if not self.engine.traits.survives:
            raise FleetError(
                f"worker {event.worker} is lost ({event.reason}), and with it {self.engine.name}'s whole job"
            )
        if not self.seats:
            self._alone_since = time.monotonic()
        again = f"; its {len(seat.out)} calls are issued again" if seat.out else ""
        self.news.append(f"worker {event.worker} is lost: {event.reason}{again}")
        culprit = seat.out[0] if seat.out else None
        for task in reversed(seat.out):
            self._recover(task, event, task is culprit)
        for task in seat.pinned:
            self._finish(task, event.worker, [], FleetError(f"worker {event.worker} is lost: {event.reason}"))

    def _recover(self, task: Task, event: Lost, culprit: bool) -> None:
        """A call that was out at a worker which is no more."""
        task.at.remove(event.worker)
        if task.done or task.at:
            return
        task.attempts += culprit
        if task.pinned is not None:
            self._finish(task, event.worker, [], FleetError(f"worker {event.worker} is lost: {event.reason}"))
        elif task.attempts >= _ATTEMPTS:
            reason = (
                f"{task.attempts} workers were lost while they did {task.method}; the last one: {event.reason}"
            )
            self._finish(task, event.worker, [], FleetError(reason))
        else:
            self.reissued += 1
            self.waiting.appendleft(task)

    def _end_overdue(self, now: float) -> None:
        """End workers whose call takes longer than it may."""
        for seat in list(self.seats.values()):
            task = seat.out[0] if seat.out else None
            if task is None or task.timeout is None or now - seat.since <= task.timeout:
                continue
            what = f"{task.method} did not return within {task.timeout:g} s on worker {seat.worker}"
            if not self.engine.traits.survives:
                raise FleetError(f"{what}, and with it {self.engine.name}'s whole job is lost")
            if not task.done and (task.attempts + 1 >= _ATTEMPTS or task.pinned is not None):
                self._finish(task, seat.worker, [], FleetError(what))
            self.engine.end(seat.worker)
            if self.engine.traits.elastic:
                self.engine.add(1)
            self._on_lost(Lost(seat.worker, what))

    def _issue_stragglers_twice(self, now: float) -> None:
        """Give calls that take far longer than the others to workers with nothing to do as well."""
        if self.waiting or not self._loads[0] or len(self._durations) < 2:
            return
        limit = max(1.0, _STRAGGLER * statistics.median(self._durations))
        late = sorted((t for t in self.open.values() if t.twice and len(t.at) == 1), key=lambda task: task.issued)
        for task in late:
            idle = next((seat for seat in self._loads[0].values() if not seat.pinned), None)
            if idle is None or now - task.issued <= limit:
                return
            self.reissued += 1
            self._send(task, idle)
