"""The fleet: a user's plain class as an actor on every worker, whatever the workers are."""

from rookery.fleet.dispatch import RemoteError, Task
from rookery.fleet.engine import ActorSpec, FleetError, Move, Ref, Traits, WorkerId
from rookery.fleet.fleet import Fleet, FleetStats, Newest
from rookery.fleet.specs import MPI, EngineSpec, Inline, Process, Ray

__all__ = [
    "MPI",
    "ActorSpec",
    "EngineSpec",
    "Fleet",
    "FleetError",
    "FleetStats",
    "Inline",
    "Move",
    "Newest",
    "Process",
    "Ray",
    "Ref",
    "RemoteError",
    "Task",
    "Traits",
    "WorkerId",
]
