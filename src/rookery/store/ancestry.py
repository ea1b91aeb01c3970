"""Who descends from whom in a population, read off the event log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rookery.errors import UserError
from rookery.store.events import History


class Stretch(NamedTuple):
    """What a member did from one measurement to the next, in its own steps, and what it earned at the end."""

    member: int
    generation: int
    first: int
    last: int
    score: float
    hyperparameters: dict[str, float]


class Copy(NamedTuple):
    """A member became a copy of another, each at so many of its own steps.

    `source` is who had learned what was copied: the parent, or whom that one had just become a copy of.
    """

    child: int
    at: int
    parent: int
    parent_at: int
    source: int
    source_at: int


class Families(NamedTuple):
    """A population over its whole life: the stretches of each member, the oldest first, and all copies."""

    stretches: dict[int, list[Stretch]]
    copies: list[Copy]

    @property
    def everything(self) -> list[Stretch]:
        """The stretches of all members."""
        return [stretch for own in self.stretches.values() for stretch in own]

    @property
    def best(self) -> int:
        """The member that earned most when it was last measured; of equals the first."""
        return max(self.stretches, key=lambda member: (self.stretches[member][-1].score, -member))

    def line(self, member: int, until: int | None = None) -> tuple[list[Stretch], list[Copy]]:
        """What made a member what it was when it was last measured, or after so many of its own steps.

        That is stretches of its ancestors and its own, and the copies between them.
        """
        found: list[Stretch] = []
        copies: list[Copy] = []
        until = self.stretches[member][-1].last if until is None else until
        while own := [stretch for stretch in self.stretches[member] if stretch.last <= until]:
            origin = self._origin(member, own[-1])
            since = origin.at if origin else 0
            found += reversed([stretch for stretch in own if stretch.first >= since])
            if origin is None:
                break
            copies.append(origin)
            member, until = origin.source, origin.source_at
        return found[::-1], copies[::-1]

    def _origin(self, member: int, stretch: Stretch) -> Copy | None:
        """How a member came to where a stretch of it began."""
        made = [copy for copy in self.copies if copy.child == member and copy.at <= stretch.first]
        return made[-1] if made else None


def families(name: str, history: History, together: bool) -> Families:
    """The population of a run; a run that has none is an error. `together`: selections are made all at once."""
    if not history.populations:
        unless = "no generation of it is finished" if not history.generations else "its algorithm is not pbt"
        raise UserError(f"there is no population to see in run '{name}': {unless}")
    stretches: dict[int, list[Stretch]] = {}
    for event in history.populations:
        for row in event.members:
            own = stretches.setdefault(row.id, [])
            first = own[-1].last if own else 0
            own.append(Stretch(row.id, event.generation, first, row.steps, row.score, row.hyperparameters))
    return Families(stretches, _copies(history, together))


def schedule(line: Sequence[Stretch], names: Sequence[str]) -> list[tuple[int, dict[str, float]]]:
    """From which step on a line of ancestors learned with which values; steps count along the line."""
    found: list[tuple[int, dict[str, float]]] = []
    steps = 0
    for stretch in line:
        values = {name: stretch.hyperparameters[name] for name in names}
        if not found or values != found[-1][1]:
            found.append((steps, values))
        steps += stretch.last - stretch.first
    return found


def _copies(history: History, together: bool) -> list[Copy]:
    """All copies in their order. One after the other, a copy of a fresh copy is one of whom that one copied."""
    found: list[Copy] = []
    for event in history.copied:
        source, source_at = event.parent, event.parent_at
        if not together:
            fresh = [copy for copy in found if (copy.child, copy.at) == (source, source_at)]
            source, source_at = (fresh[-1].source, fresh[-1].source_at) if fresh else (source, source_at)
        found.append(Copy(event.child, event.at, event.parent, event.parent_at, source, source_at))
    return found
