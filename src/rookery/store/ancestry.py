"""Who descends from whom in a population, read off the event log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rookery.errors import UserError
from rookery.observers.events import Copied
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
    """A member became a copy of another, each at so many of its own steps."""

    child: int
    parent: int
    generation: int
    at: int
    parent_at: int


class Families(NamedTuple):
    """A population over its whole life: the stretches of each member, the oldest first, and all copies."""

    stretches: dict[int, list[Stretch]]
    copies: list[Copy]

    @property
    def best(self) -> int:
        """The member that earned most when it was last measured; of equals the first."""
        return max(self.stretches, key=lambda member: (self.stretches[member][-1].score, -member))

    def line(self, member: int) -> list[Stretch]:
        """What made a member what it is: the stretches of its ancestors and its own, the oldest first."""
        found: list[Stretch] = []
        until = self.stretches[member][-1].generation
        while own := [stretch for stretch in self.stretches[member] if stretch.generation <= until]:
            origin = self._origin(member, own[-1].generation)
            since = origin.generation if origin else -1
            found += reversed([stretch for stretch in own if stretch.generation > since])
            if origin is None:
                break
            member, until = origin.parent, origin.generation
        return found[::-1]

    def _origin(self, member: int, until: int) -> Copy | None:
        """How a member came to what it did in the stretch that ended with this generation."""
        made = [copy for copy in self.copies if copy.child == member and copy.generation < until]
        return made[-1] if made else None


def families(name: str, history: History) -> Families:
    """The population of a run; a run that has none is an error."""
    if not history.populations:
        unless = "no generation of it is finished" if not history.generations else "its algorithm is not pbt"
        raise UserError(f"there is no population to see in run '{name}': {unless}")
    stretches: dict[int, list[Stretch]] = {}
    for event in history.populations:
        for row in event.members:
            own = stretches.setdefault(row.id, [])
            first = own[-1].last if own else 0
            if row.steps > first or not own:  # otherwise it was not measured again
                values = row.hyperparameters
                own.append(Stretch(row.id, event.generation, first, row.steps, row.score, values))
    return Families(stretches, [_copy(event, stretches) for event in history.copied])


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


def _copy(event: Copied, stretches: Mapping[int, Sequence[Stretch]]) -> Copy:
    at, parent_at = (
        max((s.last for s in stretches.get(member, ()) if s.generation <= event.generation), default=0)
        for member in (event.child, event.parent)
    )
    return Copy(event.child, event.parent, event.generation, at, parent_at)
