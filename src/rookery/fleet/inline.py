"""Workers in this process, called one after the other: no copies, no start-up, and a debugger sees everything."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from rookery.fleet.engine import (
    ActorSpec,
    Call,
    Event,
    Joined,
    Lost,
    Move,
    Ref,
    Refused,
    Reply,
    Traits,
    WorkerId,
)
from rookery.fleet.host import close_actor, describe, make_actor


class InlineEngine:
    """Each worker is an actor here; a call is done when its reply is waited for."""

    name = "inline"
    traits = Traits(deadlines=False)

    def __init__(self, workers: int = 1) -> None:
        self.expected = workers
        self.actors: dict[WorkerId, Any] = {}
        self.values: dict[Ref, Any] = {}
        self.calls: deque[tuple[WorkerId, Call]] = deque()
        self.events: deque[Event] = deque()
        self.made = 0

    def start(self, actor: ActorSpec, fleet: str) -> None:
        del fleet
        self.spec = actor
        self.add(self.expected)

    def add(self, workers: int) -> None:
        for worker in range(self.made, self.made + workers):
            try:
                self.actors[worker] = make_actor(self.spec)
                self.events.append(Joined(worker))
            except Exception as error:  # noqa: BLE001  (whatever a user's actor raises)
                self.events.append(Refused(worker, describe(error)))
        self.made += workers

    def send(self, worker: WorkerId, call: Call) -> None:
        self.calls.append((worker, call))

    def receive(self, timeout: float) -> Sequence[Event]:
        if not self.events and self.calls:
            worker, call = self.calls.popleft()
            self.events.append(self._perform(worker, call))
        elif not self.events:
            time.sleep(min(timeout, 0.01))
        events, self.events = self.events, deque()
        return events

    def _perform(self, worker: WorkerId, call: Call) -> Event:
        started = time.perf_counter()
        values: list[Any] = []
        failure = None
        try:
            method = getattr(self.actors[worker], call.method)
            published = {place: self.values[ref] for place, ref in call.refs.items()}
            for args in call.args:
                given = (published.get(place, arg) for place, arg in enumerate(args)) if published else args
                values.append(method(*given))
        except Exception as error:  # noqa: BLE001  (whatever an actor raises is for its caller)
            failure = describe(error)
        return Reply(worker, call.id, time.perf_counter() - started, failure, values)

    def publish(self, ref: Ref, value: Any) -> Ref:
        self.values[ref] = value
        return ref

    def retract(self, ref: Ref) -> None:
        self.values.pop(ref, None)

    def end(self, worker: WorkerId) -> None:
        close_actor(self.actors.pop(worker))
        self.calls = deque(pair for pair in self.calls if pair[0] != worker)
        self.events.append(Lost(worker, "it was ended"))

    def transfer(self, moves: Sequence[Move], give: str, take: str) -> bool:
        del moves, give, take
        return False

    def close(self) -> None:
        for actor in self.actors.values():
            close_actor(actor)
        self.actors = {}
