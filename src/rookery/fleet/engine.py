"""What an engine is: the few things that the fleet asks of a way to have workers."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from rookery.errors import RookeryError, UserError, did_you_mean
from rookery.fleet.wire import Message

WorkerId = int


class FleetError(RookeryError):
    """The fleet cannot do its work: nobody joins, workers die as fast as they are made, or an engine is lost."""


class ActorSpec(msgspec.Struct, frozen=True):
    """The plain class that every worker makes one object of, as `module:Class`, and its keyword arguments."""

    target: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def resolve(self) -> type:
        """The class itself."""
        module_name, _, name = self.target.partition(":")
        if module_name == "__main__":
            raise UserError(
                f"{self.target}: workers cannot import a script that is run; move '{name}' to a module"
            )
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise UserError(f"{self.target}: cannot import '{module_name}': {error}") from error
        found = getattr(module, name, None)
        if not isinstance(found, type):
            classes = [known for known, value in vars(module).items() if isinstance(value, type)]
            raise UserError(f"{self.target}: '{module_name}' has no class '{name}'.{did_you_mean(name, classes)}")
        return found


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A published value. `fleet` and `number` are its identity, `where` tells a worker how to fetch it."""

    fleet: str
    name: str
    number: int
    size: int = 0
    where: str = ""


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A method to be called once for each tuple of arguments, one after the other, up to the first that raises.

    All tuples are `width` long; at the positions in `refs`, all have the same published value.
    """

    id: int
    method: str
    width: int = 0
    args: Sequence[tuple[Any, ...]] = ((),)
    refs: dict[int, Ref] = {}


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An exception in a worker. `explained` says that its message was written for the user."""

    kind: str
    message: str
    traceback: str
    explained: bool = False
    exit_code: int = 1


class Joined(NamedTuple):
    """A worker is there, and its actor is made."""

    worker: WorkerId


class Refused(NamedTuple):
    """A worker is there, and its actor cannot be made."""

    worker: WorkerId
    failure: Failure


class Reply(NamedTuple):
    """What became of a call; `values` are a list, or a message with one where the engine sends messages."""

    worker: WorkerId
    call: int
    seconds: float
    failure: Failure | None
    values: Message | list[Any]


class Lost(NamedTuple):
    """A worker is gone, with all that it was asked."""

    worker: WorkerId
    reason: str


Event = Joined | Refused | Reply | Lost


class Move(NamedTuple):
    """Something that an actor holds goes to another actor: what `give(source_key)` returns is given to `take`."""

    source: WorkerId
    source_key: int
    target: WorkerId
    target_key: int


class Traits(NamedTuple):
    """What a way to have workers can do. Where it cannot, the fleet says so at once in one line."""

    elastic: bool = True
    """Workers may join and leave while it runs."""
    survives: bool = True
    """The others go on when a worker dies."""
    deadlines: bool = True
    """A call that does not return is noticed."""


class Engine(Protocol):
    """A way to have workers. They are numbered; a number is never used again."""

    name: str
    traits: Traits
    expected: int
    """How many workers there are to be, so far as that is known."""

    def start(self, actor: ActorSpec, fleet: str) -> None:
        """Bring up workers; each tells by a Joined or Refused event when it is ready."""

    def send(self, worker: WorkerId, call: Call) -> None:
        """Hand over a call. A worker does its calls in order. This never waits for the worker."""

    def receive(self, timeout: float) -> Sequence[Event]:
        """What has happened, waiting up to `timeout` seconds for something to happen."""

    def publish(self, ref: Ref, value: Any) -> Ref:
        """Make a value available to all workers, now and later; a worker's machine fetches it once."""

    def retract(self, ref: Ref) -> None:
        """Nobody will ask for this value any more."""

    def add(self, workers: int) -> None:
        """Bring up more workers."""

    def end(self, worker: WorkerId) -> None:
        """End a worker, whatever it does, and do not replace it; what it was asked is lost with a Lost event."""

    def transfer(self, moves: Sequence[Move], give: str, take: str) -> bool:
        """Carry out the moves from worker to worker, all at once; False to have them go through the head."""

    def close(self) -> None:
        """End all workers."""
