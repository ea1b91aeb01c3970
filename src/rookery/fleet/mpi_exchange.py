"""What actors hold goes from rank to rank: between two at a time, or in one exchange of all."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from rookery.fleet import wire
from rookery.fleet.engine import Call, Failure, Move
from rookery.fleet.host import Host
from rookery.fleet.mpi_post import Post, framed, unframed
from rookery.fleet.wire import Buffer

_FIRST_TAG = 100  # of what is given; the moves of a plan count on from here


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """Everything that is about to move; every rank is told all of it."""

    moves: tuple[Move, ...]
    give: str
    take: str
    collective: bool


def carry_out(plan: Exchange, post: Post, host: Host | None) -> Failure | None:
    """This rank's part of a plan; returns the first thing that went wrong."""
    given = {
        number: _given(plan, move, host) for number, move in enumerate(plan.moves) if move.source == post.rank
    }
    arrived = (_collectively if plan.collective else _point_to_point)(plan, post, given)
    failures = []
    for number, move in enumerate(plan.moves):
        if move.target == post.rank:
            for message in unframed(memoryview(arrived[number])):
                assert host is not None
                failures.append(host.take_over(plan.take, move.target_key, message))
    return next((failure for failure in failures if failure is not None), None)


def _given(plan: Exchange, move: Move, host: Host | None) -> Buffer:
    """What this rank gives for a move: the answer to its `give`, be it a failure."""
    assert host is not None
    return framed([host.answer(wire.pack(Call(0, plan.give, 1, ((move.source_key,),))))])


def _point_to_point(plan: Exchange, post: Post, given: dict[int, Buffer]) -> dict[int, Buffer]:
    for number, data in given.items():
        post.send(plan.moves[number].target, _FIRST_TAG + number, data)
    arrived: dict[int, Buffer] = {}
    for number, move in enumerate(plan.moves):
        if move.target == post.rank:
            arrived[number] = post.wait(move.source, _FIRST_TAG + number)[2]
    post.flush()
    return arrived


def _collectively(plan: Exchange, post: Post, given: dict[int, Buffer]) -> dict[int, Buffer]:
    """All that goes from one rank to another lies together, in the order of the plan."""
    leaving = [
        [data for number, data in given.items() if plan.moves[number].target == rank] for rank in range(post.size)
    ]
    lengths = np.array([sum(map(len, parts)) for parts in leaving], np.int64)
    incoming = np.empty_like(lengths)
    post.comm.Alltoall(lengths, incoming)
    sent = np.frombuffer(b"".join(_flat(leaving)), np.uint8)
    received = np.empty(incoming.sum(), np.uint8)
    post.comm.Alltoallv(
        [sent, lengths, _starts(lengths), post.byte], [received, incoming, _starts(incoming), post.byte]
    )
    arrived: dict[int, Buffer] = {}
    at = dict(enumerate(_starts(incoming).tolist()))
    for number, move in enumerate(plan.moves):
        if move.target == post.rank:
            data = received.data[at[move.source] :]
            arrived[number] = data[: 8 + int.from_bytes(data[:8], "little")]
            at[move.source] += len(arrived[number])
    return arrived


def _flat(parts: Iterable[Iterable[Buffer]]) -> list[Buffer]:
    return [data for inner in parts for data in inner]


def _starts(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]])
