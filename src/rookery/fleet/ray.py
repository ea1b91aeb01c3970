"""Ray actors, on this machine or a cluster: Ray places them, carries the calls and keeps what is published.

Calls sent at the same moment to the same worker travel as one. What is published lies in Ray's object
store, where all workers of a machine share it. A worker that dies with its process or its node is replaced where
Ray finds room; with `workers=null` there is one for every core of the cluster, also for machines that join later.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rookery.errors import UserError
from rookery.fleet import wire
from rookery.fleet.engine import (
    ActorSpec,
    Call,
    Event,
    Failure,
    FleetError,
    Joined,
    Lost,
    Move,
    Ref,
    Refused,
    Traits,
    WorkerId,
)
from rookery.fleet.host import Host, RawAnswer, describe
from rookery.fleet.specs import cores
from rookery.fleet.wire import Message

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # keeps Ray from warning about its default
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")  # it is read when Ray is imported
try:
    import ray
    from ray.exceptions import RayActorError, RayError
except ImportError as error:
    raise UserError("engine=ray needs Ray: pip install 'rookery[ray]'") from error

LOOPBACK = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
"""Where a Ray of our own lives: Ray would turn 127.0.0.1 into an address that others can reach."""

_CONNECT_SECONDS = 5.0
_GROWTH_SECONDS = 2.0  # between looks for machines that have joined
_Sent = list[Any]  # a message as Ray carries it: its body, and an array for each of its arrays


class _Worker:
    """What the head holds of one Ray actor."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.ready = False
        self.leaving: list[tuple[_Sent, dict[int, Any]]] = []


class RayEngine:
    """Ray actors, each with a share of the cluster's cores."""

    name = "ray"
    traits = Traits()

    def __init__(self, workers: int | None, address: str | None, cpus: float) -> None:
        self.wanted, self.address, self.cpus = workers, address, cpus
        self.workers: dict[WorkerId, _Worker] = {}
        self.made = 0
        self.expected = workers or 1
        self.values: dict[int, Any] = {}
        self.arrived: queue.SimpleQueue[tuple[WorkerId, Any, BaseException | None]] = queue.SimpleQueue()
        self.events: list[Event] = []
        self.looked = time.monotonic()
        self.elsewhere = ray.is_initialized()

    def start(self, actor: ActorSpec, fleet: str) -> None:
        del fleet
        if not self.elsewhere:
            _connect(self.address, self.wanted, self.cpus)
        self.spec = _sent(wire.pack(actor))
        self.expected = self._room() if self.wanted is None else self.wanted
        self.add(self.expected)

    def _room(self) -> int:
        """How many workers the whole cluster has cores for."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return max(1, int(resources.get("CPU", 1) / self.cpus))

    def add(self, workers: int) -> None:
        for worker in range(self.made, self.made + workers):
            handle = _RemoteHost.options(num_cpus=self.cpus).remote()
            self.workers[worker] = _Worker(handle)
            self._await(worker, handle.ready.remote(self.spec, sys.path))
        self.made += workers

    def _await(self, worker: WorkerId, promised: Any) -> None:
        """Have Ray's own thread queue what comes of a remote call."""

        def done(future: Any) -> None:
            error = future.exception()
            self.arrived.put((worker, None if error else future.result(), error))

        promised.future().add_done_callback(done)

    def send(self, worker: WorkerId, call: Call) -> None:
        held = self.workers.get(worker)
        if held is not None:
            fetched = {ref.number: self.values[ref.number] for ref in call.refs.values()}
            held.leaving.append((_sent(wire.pack(call)), fetched))

    def receive(self, timeout: float) -> Sequence[Event]:
        for worker, held in self.workers.items():
            if held.leaving:
                self._await(worker, held.handle.answer.remote(held.leaving))
                held.leaving = []
        self._grow()
        events, self.events = self.events, []
        try:
            arrived = self.arrived.get(timeout=0 if events else timeout)
            while True:
                events += self._hear(*arrived)
                arrived = self.arrived.get_nowait()
        except queue.Empty:
            return events

    def _hear(self, worker: WorkerId, value: Any, error: BaseException | None) -> list[Event]:
        held = self.workers.get(worker)
        if held is None:
            return []
        if isinstance(error, RayActorError):
            del self.workers[worker]
            self.add(1)
            return [Lost(worker, _one_line(error))]
        if error is not None:
            raise FleetError(f"Ray failed: {_one_line(error)}") from error
        if held.ready:
            return [RawAnswer.to_reply(worker, _received(sent)) for sent in value]
        held.ready = True
        if value is None:
            return [Joined(worker)]
        return [Refused(worker, msgspec.msgpack.decode(value, type=Failure))]

    def _grow(self) -> None:
        if self.wanted is None and time.monotonic() - self.looked > _GROWTH_SECONDS:
            self.looked = time.monotonic()
            with contextlib.suppress(RayError):
                if (more := self._room() - len(self.workers)) > 0:
                    self.add(more)

    def end(self, worker: WorkerId) -> None:
        held = self.workers.pop(worker, None)
        if held is not None:
            ray.kill(held.handle)
            self.events.append(Lost(worker, "it was ended"))

    def publish(self, ref: Ref, value: Any) -> Ref:
        message = wire.pack(value)
        self.values[ref.number] = [ray.put(_sent(message))]  # in a list, Ray passes it on as it is
        return msgspec.structs.replace(ref, size=wire.size(message.pieces()))

    def retract(self, ref: Ref) -> None:
        del self.values[ref.number]

    def transfer(self, moves: Sequence[Move], give: str, take: str) -> bool:
        """From object store to object store: the head only says who gives to whom."""
        given = {}
        for move in moves:
            source = move.source, move.source_key
            if source not in given:
                given[source] = self.workers[move.source].handle.give.remote(give, move.source_key)
        taken = [
            self.workers[move.target].handle.take.remote(
                take, move.target_key, given[move.source, move.source_key]
            )
            for move in moves
        ]
        try:
            for failure in ray.get(taken):
                if failure is not None:
                    told = msgspec.msgpack.decode(failure, type=Failure)
                    raise FleetError(f"a transfer failed: {told.kind}: {told.message}\n{told.traceback}")
        except RayError as error:
            raise FleetError(f"a transfer failed: {_one_line(error)}") from error
        return True

    def close(self) -> None:
        for held in self.workers.values():
            with contextlib.suppress(RayError):
                ray.kill(held.handle)
        self.workers, self.values = {}, {}
        if not self.elsewhere:
            ray.shutdown()


class _Host:
    """What Ray runs for each worker."""

    def ready(self, spec: _Sent, path: list[str]) -> bytes | None:
        """Make the actor; returns why that is not possible."""
        sys.path += [entry for entry in path if entry not in sys.path]
        self.fetched: dict[int, Any] = {}
        try:
            self.host = Host(_received(spec).read(ActorSpec), self._fetch)
        except Exception as error:  # noqa: BLE001  (whatever a user's actor raises)
            return msgspec.msgpack.encode(describe(error))
        return None

    def _fetch(self, ref: Ref) -> Message:
        return _received(ray.get(self.fetched[ref.number][0]))

    def answer(self, calls: list[tuple[_Sent, dict[int, Any]]]) -> list[_Sent]:
        """The replies to calls, in their order."""
        answers = []
        for sent, fetched in calls:
            self.fetched = fetched
            answers.append(_sent(self.host.answer(_received(sent))))
        return answers

    def give(self, method: str, key: int) -> _Sent:
        """What the actor gives, or the failure to do so, on its way to another actor."""
        return _sent(self.host.answer(wire.pack(Call(0, method, 1, ((key,),)))))

    def take(self, method: str, key: int, given: _Sent) -> bytes | None:
        """Hand over what another actor gave; returns what went wrong."""
        failure = self.host.take_over(method, key, _received(given))
        return None if failure is None else msgspec.msgpack.encode(failure)


_RemoteHost: Any = ray.remote(_Host)


def _sent(message: Message) -> _Sent:
    return [bytes(message.body), *(np.frombuffer(array, np.uint8) for array in message.apart)]


def _received(sent: _Sent) -> Message:
    return Message(sent[0], [memoryview(array) for array in sent[1:]])


def _connect(address: str | None, workers: int | None, cpus: float) -> None:
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        needed = math.ceil((workers or 0) * cpus)
        options |= {"address": "local", "_node_ip_address": LOOPBACK}
        options |= {"num_cpus": max(cores(), needed), "include_dashboard": False}
    else:
        _check_listening(address)
        options["address"] = address
    try:
        with _silent_errors():
            ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        where = "Ray cannot be started" if address is None else f"ray.address={address}: no connection"
        raise UserError(f"{where}: {_one_line(error)}{_hint(address, error)}") from error


def _hint(address: str | None, error: BaseException) -> str:
    """What helps against an error while connecting."""
    causes = f"{error} {error.__cause__}"
    if "InvalidAuthToken" in causes or "AuthenticationError" in causes:
        return "; the cluster asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"
    return "; `ray start --head` starts a cluster" if address == "auto" else ""


@contextlib.contextmanager
def _silent_errors() -> Iterator[None]:
    """Ray's core writes every attempt to connect to the error stream; what matters it raises in the end."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check_listening(address: str) -> None:
    """Ray itself would try an address where nothing listens for more than a minute."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(f"ray.address={address}: no connection: {error.strerror or error}") from error


def _one_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
