"""The engines as an experiment names them: settings with their defaults and help, and how each is made."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rookery.fleet.engine import Engine

_Positive = Annotated[int, Meta(gt=0)]
Workers = Annotated[_Positive | None, Meta(description="how many workers; null = one for each core")]
Deadline = Annotated[
    Annotated[float, Meta(gt=0)] | None,
    Meta(description="seconds after which a call that has not returned counts as lost; null = never"),
]


class _Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What engines have in common."""

    @property
    def name(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def worker_threads(self) -> int:
        """Environment threads of each worker."""
        raise NotImplementedError

    def make(self) -> Engine:
        """The engine that these settings describe."""
        raise NotImplementedError

    def serve(self) -> bool:
        """Whether this process was a worker of another one's fleet, and has done its work."""
        return False


class Inline(_Spec, frozen=True, tag="inline"):
    """Everything in this process."""

    workers: Annotated[int, Meta(gt=0, description="actors that take turns")] = 1
    threads: Annotated[_Positive | None, Meta(description="environment threads; null = all cores")] = None

    @property
    def worker_threads(self) -> int:
        return self.threads or cores()

    def make(self) -> Engine:
        from rookery.fleet.inline import InlineEngine

        return InlineEngine(self.workers)


class Process(_Spec, frozen=True, tag="process"):
    """Processes of this machine."""

    workers: Workers = None
    threads: Annotated[
        _Positive | None, Meta(description="environment threads of each worker; null = its share of the cores")
    ] = None
    pin: Annotated[bool, Meta(description="keep each worker on one core")] = True
    deadline: Deadline = 3600.0

    @property
    def worker_threads(self) -> int:
        return self.threads or max(1, cores() // (self.workers or cores()))

    def make(self) -> Engine:
        from rookery.fleet.process import ProcessEngine

        return ProcessEngine(self.workers or cores(), pin=self.pin and self.worker_threads == 1)


class Ray(_Spec, frozen=True, tag="ray"):
    """Ray actors, on this machine or a cluster."""

    workers: Annotated[
        _Positive | None,
        Meta(description="how many workers; null = as many as the cluster has room for, also when it grows"),
    ] = None
    threads: Annotated[_Positive, Meta(description="environment threads of each worker")] = 1
    cpus: Annotated[float, Meta(gt=0, description="cores that Ray sets aside for each worker")] = 1.0
    address: Annotated[
        str | None, Meta(description="auto or host:port of a running cluster; null = one of its own, here")
    ] = None
    deadline: Deadline = 3600.0

    @property
    def worker_threads(self) -> int:
        return self.threads

    def make(self) -> Engine:
        from rookery.fleet.ray import RayEngine

        return RayEngine(self.workers, self.address, self.cpus)


class MPI(_Spec, frozen=True, tag="mpi"):
    """The ranks that mpiexec starts."""

    threads: Annotated[_Positive, Meta(description="environment threads of each rank")] = 1
    head_works: Annotated[bool, Meta(description="rank 0 is a worker too, besides being the head")] = False
    exchange: Annotated[
        Literal["p2p", "collective", "head"],
        Meta(description="how members move: between two ranks, in one exchange of all, or through rank 0"),
    ] = "p2p"
    deadline: Deadline = 3600.0

    @property
    def worker_threads(self) -> int:
        return self.threads

    def make(self) -> Engine:
        from rookery.fleet.mpi import MPIEngine

        return MPIEngine(self.head_works, self.exchange)

    def serve(self) -> bool:
        from rookery.fleet.mpi import serve

        return serve(self.head_works)


EngineSpec = Inline | Process | Ray | MPI


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
