"""Rollouts by a fleet: which worker has whose environments, and what happens when one of them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from rookery.fleet import Fleet
from rookery.fleet.dispatch import Task
from rookery.fleet.engine import FleetError, WorkerId
from rookery.rollout.collect import Stint, Trajectory, joined, shares

_ATTEMPTS = 5  # workers that may be lost with one and the same stint
_TURNS = 4  # for a worker that is alone: while some members learn, others collect


class Rollouts:
    """Shares stints out among the workers; each keeps its environments from one rollout to the next."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.homes: dict[int, WorkerId] = {}  # by part: who has its environments

    def collect(self, stints: Sequence[Stint]) -> Iterator[tuple[int, Trajectory]]:
        """A trajectory for each stint with the stint's place, as they come."""
        workers = self.fleet.ready()
        parts = _parts(stints, len(workers))
        found: dict[int, list[list[Trajectory]]] = {}
        out: dict[Task, int] = {}
        self.homes = _homes(len(parts), workers, self.homes)
        for number, part in enumerate(parts):
            out[self._send(part.stints, self.homes[number], whole=False)] = number
        attempts = dict.fromkeys(range(len(parts)), 0)
        while out:
            for task in self.fleet.wait(list(out), at_least=1):
                number = out.pop(task)
                part = parts[number]
                trajectories = self._taken(task)
                if not trajectories:
                    attempts[number] += 1
                    if attempts[number] > _ATTEMPTS:
                        task.result()
                        raise FleetError(f"{_ATTEMPTS} workers in a row could not collect")
                    home = self._another(number)
                    out[self._send(part.stints, home, whole=True)] = number
                    continue
                for place, trajectory in zip(part.places, trajectories, strict=True):
                    found.setdefault(place, [[] for _ in range(part.of)])[part.share] = [trajectory]
                    if all(found[place]):
                        yield place, joined([piece for each in found.pop(place) for piece in each])

    def _send(self, stints: Sequence[Stint], worker: WorkerId, whole: bool) -> Task:
        sent = list(stints) if whole else [replace(stint, done=()) for stint in stints]
        return self.fleet.submit("collect", sent, worker=worker)

    def _taken(self, task: Task) -> list[Trajectory]:
        """What came back; nothing where the worker is lost, or lacks the environments."""
        if isinstance(task.error, FleetError):
            return []
        result: list[Trajectory] = task.result()
        return result

    def _another(self, number: int) -> WorkerId:
        """Who does a part whose worker was lost; the same one, if it only lacked something."""
        workers = self.fleet.ready()
        home = self.homes[number]
        if home not in workers:
            home = self.homes[number] = workers[number % len(workers)]
        return home


class _Part:
    """Stints that are collected together, with their places, and which share of their environments it is."""

    def __init__(self, stints: Sequence[Stint], places: Sequence[int], share: int, of: int) -> None:
        self.stints, self.places, self.share, self.of = stints, places, share, of


def _homes(parts: int, workers: Sequence[WorkerId], before: Mapping[int, WorkerId]) -> dict[int, WorkerId]:
    """Who does which part: whoever did it before, unless others would have nothing to do meanwhile."""
    most = -(-parts // len(workers))
    homes: dict[int, WorkerId] = {}
    load = dict.fromkeys(workers, 0)
    for number, home in sorted(before.items()):
        if number < parts and load.get(home, most) < most:
            homes[number] = home
            load[home] += 1
    for number in range(parts):
        if number not in homes:
            homes[number] = min(workers, key=lambda worker: load[worker])
            load[homes[number]] += 1
    return homes


def _parts(stints: Sequence[Stint], workers: int) -> list[_Part]:
    """Whole members for each worker, or a share of their environments where members are fewer than workers."""
    count = len(stints)
    groups = max(workers, _TURNS)
    if count >= groups:
        cuts = [round(number * count / groups) for number in range(groups + 1)]
        return [_Part(stints[a:b], range(a, b), 0, 1) for a, b in pairwise(cuts) if b > a]
    found = []
    for place, stint in enumerate(stints):
        spans = shares(stint.envs, max(1, workers // count))
        for share, (first, last) in enumerate(spans):
            carry = tuple(part[first:last] for part in stint.carry)
            found.append(_Part([replace(stint, first=first, last=last, carry=carry)], [place], share, len(spans)))
    return found
