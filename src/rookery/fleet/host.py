"""A worker's side of the fleet, the same on every engine: an actor, and calls that become replies."""

from __future__ import annotations

import inspect
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec

from rookery.errors import RookeryError
from rookery.fleet import wire
from rookery.fleet.engine import ActorSpec, Failure, Ref, Reply, WorkerId
from rookery.fleet.wire import Message

_KEPT = 2  # published values of one name that a worker remembers: the newest, and the one before


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """A reply as it travels: to which call, after how many seconds of work; what raised gave no value."""

    call: int
    seconds: float
    failure: Failure | None
    values: list[Any]


class RawAnswer(msgspec.Struct, frozen=True, array_like=True):
    """A reply as it is read: the values wait until their type is known."""

    call: int
    seconds: float
    failure: Failure | None
    values: msgspec.Raw

    @classmethod
    def to_reply(cls, worker: WorkerId, message: Message) -> Reply:
        """A reply that has come in from a worker."""
        answer: RawAnswer = message.read(cls)
        return Reply(worker, answer.call, answer.seconds, answer.failure, message._replace(body=answer.values))


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """A call as it is read: the arguments wait until their types are known."""

    id: int
    method: str
    width: int
    args: msgspec.Raw
    refs: dict[int, Ref]


class Host:
    """Holds the actor. `fetch` gets the message of a published value."""

    def __init__(self, spec: ActorSpec, fetch: Callable[[Ref], Message]) -> None:
        self.kind = spec.resolve()
        self.actor = make_actor(spec)
        self.fetch = fetch
        self.published: OrderedDict[tuple[Ref, Any], Any] = OrderedDict()

    def answer(self, message: Message) -> Message:
        """The reply to a call, both as messages."""
        asked: _Asked = message.read(_Asked)
        return pack_answer(self._perform(asked, message))

    def _perform(self, asked: _Asked, message: Message) -> Answer:
        values: list[Any] = []
        failure = None
        started = time.perf_counter()
        try:
            calls = self._arguments(asked, message)
            method = getattr(self.actor, asked.method)
            values.extend(method(*args) for args in calls)  # keeps what came before one that raises
        except Exception as error:  # noqa: BLE001  (whatever an actor raises is for its caller)
            failure = describe(error)
        return Answer(asked.id, time.perf_counter() - started, failure, values)

    def _arguments(self, asked: _Asked, message: Message) -> Sequence[Sequence[Any]]:
        """The arguments of each call, as the types that the method says it takes."""
        kinds = signature(self.kind, asked.method).at(asked.width)
        sent = tuple(None if place in asked.refs else kind for place, kind in enumerate(kinds))
        calls: list[tuple[Any, ...]] = wire.read(asked.args, _calls_of(sent), message.apart)
        if not asked.refs:
            return calls
        published = {place: self._published(ref, kinds[place]) for place, ref in asked.refs.items()}
        return [[published.get(place, arg) for place, arg in enumerate(args)] for args in calls]

    def take_over(self, method: str, key: int, given: Message) -> Failure | None:
        """Call `method(key, value)` with what another host answered; returns what went wrong, here or there."""
        answer: RawAnswer = given.read(RawAnswer)
        if answer.failure is not None:
            return answer.failure
        try:
            kind = signature(self.kind, method).at(2)[1]
            (value,) = wire.read(answer.values, tuple[kind], given.apart)  # type: ignore[valid-type]
            getattr(self.actor, method)(key, value)
        except Exception as error:  # noqa: BLE001  (whatever an actor raises is for its caller)
            return describe(error)
        return None

    def close(self) -> None:
        close_actor(self.actor)

    def _published(self, ref: Ref, kind: Any) -> Any:
        key = (ref, kind)
        if key not in self.published:
            older = [k for k in self.published if k[0].name == ref.name and k[0] != ref]
            for forgotten in older[: len(older) - _KEPT + 1]:
                del self.published[forgotten]
            self.published[key] = self.fetch(ref).read(kind)
        return self.published[key]


def make_actor(spec: ActorSpec) -> Any:
    """The actor itself; arguments that came as plain data become what its constructor says."""
    kind = spec.resolve()
    hints = _hints(getattr(kind, "__init__"))  # noqa: B009  (mypy does not like the attribute)
    arguments = {
        name: value
        if name not in hints or not isinstance(value, dict | list)
        else msgspec.convert(value, hints[name])
        for name, value in spec.arguments.items()
    }
    return kind(**arguments)


def close_actor(actor: Any) -> None:
    """Let an actor that has a `close` put its things away."""
    if callable(close := getattr(actor, "close", None)):
        close()


def pack_answer(answer: Answer) -> Message:
    """An answer as a message; a value that cannot travel is the actor's failure, and takes the others with it."""
    try:
        return wire.pack(answer)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        return wire.pack(Answer(answer.call, answer.seconds, describe(error), []))


class Signature(msgspec.Struct, frozen=True):
    """The types of a method's arguments, one after the other; Any where none is said."""

    arguments: tuple[Any, ...]
    results: Any
    """The type of what several calls return."""

    def at(self, width: int) -> tuple[Any, ...]:
        """The types of so many arguments; what a method takes beyond its named ones may be anything."""
        return (*self.arguments, *[Any] * (width - len(self.arguments)))[:width]


@cache
def signature(kind: type, method: str) -> Signature:
    """What a method of an actor takes and returns, from its annotations."""
    function = getattr(kind, method, None)
    if function is None or method.startswith("__"):
        raise AttributeError(f"{kind.__name__} has no method '{method}'")
    hints = _hints(function)
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return Signature(tuple(hints.get(name, Any) for name in names), list[hints.get("return", Any)])  # type: ignore[misc]


def _hints(function: Any) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):  # annotations of names that exist only for a type checker
        return {}
    return {name: Any if hint is type(None) else hint for name, hint in hints.items()}


@cache
def _calls_of(kinds: tuple[Any, ...]) -> Any:
    """The type of the arguments of several calls."""
    return list[tuple[kinds]]  # type: ignore[valid-type]


def describe(error: BaseException) -> Failure:
    """An exception as it is told to whoever asked."""
    lines = traceback.format_exception(error)
    explained = isinstance(error, RookeryError)
    exit_code = error.exit_code if isinstance(error, RookeryError) else 1
    return Failure(type(error).__name__, str(error), "".join(lines).rstrip(), explained, exit_code)
