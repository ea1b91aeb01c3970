"""A run of population-based training: members live on workers, learn there, and are compared here."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from rookery.errors import RookeryError
from rookery.evolution.generation import Progress
from rookery.evolution.pbt import PBT, PBTState, Selection
from rookery.experiment import Experiment
from rookery.fleet import Fleet
from rookery.fleet.dispatch import Task
from rookery.fleet.engine import FleetError, Move, WorkerId
from rookery.learning.member import AnyLearner, AnyMember, Raised
from rookery.learning.ppo import Actor
from rookery.observers import events
from rookery.pursuits import Round
from rookery.rollout.shared import SharedEvaluator
from rookery.streams import seeds

_ATTEMPTS = 5  # times that members may lose their worker in one generation


class Rearing:
    """Generations of a population: members learn for a while, are measured, and some become copies of others."""

    def __init__(self, experiment: Experiment, pbt: PBT) -> None:
        self.experiment, self.pbt = experiment, pbt
        self.genes = pbt.genes(experiment.genes)
        self.evaluator = SharedEvaluator(
            experiment.env,
            experiment.policy,
            experiment.engine,
            experiment.unseen,
            actor=pbt.learner.nursery,
            learner=pbt.learner,
            seed=experiment.seed,
        )
        self.homes = Homes(self.evaluator.fleet, pbt.learners)
        self.flying: dict[Task, int] = {}  # in asynchronous mode: the members that learn now

    def begin(self, start: Actor | None) -> Progress:
        """The population before its first steps."""
        experiment = self.experiment
        learner = self.pbt.learners.found(experiment.env, experiment.policy, experiment.seed, start)
        state = self.pbt.init(learner, self.genes)
        return Progress(0, 0, 0, state, state.best.moments)

    def generation(self, progress: Progress) -> Round:
        """Everybody learns, is measured and compared; then copies are made."""
        began = time.perf_counter()
        state = progress.strategy
        assert isinstance(state, PBTState)
        if self.pbt.mode == "async":
            return self._flowing(state)
        self.homes.settle(state.learner.members)
        raised = self.homes.rear(self.pbt.interval, self._episodes(state.generation))
        reared = time.perf_counter()
        learned = replace(state.learner, members=tuple(entry.member for entry in raised))
        scores = {entry.member.id: entry.earned for entry in raised}
        state, chosen = self.pbt.select(replace(state, learner=learned), scores, self.genes)
        self.homes.copy(chosen, state.learner.members)
        selected = time.perf_counter() - reared
        return self._round(state, raised, chosen, _times(raised, reared - began) | {"select": selected})

    def _flowing(self, state: PBTState) -> Round:
        """As many intervals as there are members, whoever's they are; each is compared when it is done."""
        began = time.perf_counter()
        selecting = 0.0
        self.homes.settle(state.learner.members, busy=self.flying.values())
        raised: list[Raised[Any]] = []
        chosen: list[Selection] = []
        scores = dict(state.scores)
        while len(raised) < len(state.learner.members):
            self._launch(state)
            done = self.evaluator.fleet.wait(list(self.flying), at_least=1)
            selection_began = time.perf_counter()
            for task in done:
                number = self.flying.pop(task)
                if isinstance(task.error, FleetError):
                    self.homes.forget(number)
                    continue
                (entry,) = task.result()
                raised.append(entry)
                scores[number] = entry.earned
                self.homes.members[number] = entry.member
                state = _with(state, entry.member)
                picked = self.pbt.choose(state, scores, [number], self.genes) if len(scores) > 1 else []
                for selection in picked:
                    state = self.pbt.copied(state, selection)
                    scores[number] = scores[selection.parent]
                    self.homes.forget(number)
                chosen += picked
            selecting += time.perf_counter() - selection_began
        state = replace(state, generation=state.generation + 1, scores=scores)
        times = _times(raised, time.perf_counter() - began - selecting) | {"select": selecting}
        return self._round(state, raised, chosen, times)

    def _launch(self, state: PBTState) -> None:
        """Have every member learn that does not already."""
        idle = [member for member in state.learner.members if member.id not in self.flying.values()]
        self.homes.settle(state.learner.members, busy=self.flying.values())
        for member in idle:
            episodes = self._episodes(state.generation)
            task = self.evaluator.fleet.submit(
                "rear", [member.id], self.pbt.interval, episodes, worker=self.homes.home[member.id]
            )
            self.flying[task] = member.id

    def close(self) -> None:
        self.evaluator.close()

    def _episodes(self, generation: int) -> tuple[int, ...]:
        return seeds(self.experiment.seed, "selection", generation, 0, self.pbt.episodes)

    def _round(
        self, state: PBTState, raised: Sequence[Raised[Any]], chosen: Sequence[Selection], times: dict[str, float]
    ) -> Round:
        earned = np.array([np.mean(entry.earned) for entry in raised])
        steps = sum(entry.steps for entry in raised)
        members = [entry.member for entry in raised]
        lengths = [length for member in members for length in member.lengths]

        def after(progress: Progress) -> Progress:
            return replace(
                progress,
                generation=progress.generation + 1,
                steps=progress.steps + steps,
                episodes=sum(member.episodes for member in members),
                strategy=state,
                moments=state.best.moments,
            )

        return Round(
            steps=steps,
            episodes=sum(len(entry.earned) for entry in raised),
            earned=earned,
            score=float(earned.max()),
            episode_length=float(np.mean(lengths)) if lengths else np.nan,
            failures=(),
            failed=0,
            hopeless=False,
            times=times,
            after=after,
            told=(_population(raised), *map(_copied, chosen)),
        )


class Homes:
    """Which worker each member lives on; the head has the members as they were at the last boundary."""

    def __init__(self, fleet: Fleet, learner: AnyLearner) -> None:
        self.fleet, self.learner = fleet, learner
        self.members: dict[int, AnyMember] = {}
        self.home: dict[int, WorkerId] = {}

    def settle(self, members: Sequence[AnyMember], busy: Collection[int] = ()) -> None:
        """Have these members live on the workers that there are, about equally many on each; busy ones stay."""
        workers = self.fleet.ready()
        known = self.members
        self.members = {member.id: member for member in members}
        places = [workers[place * len(workers) // len(members)] for place in range(len(members))]
        moving = [
            (member, worker)
            for member, worker in zip(members, places, strict=True)
            if member.id not in busy and (self.home.get(member.id) != worker or known.get(member.id) is not member)
        ]
        self._adopt(moving)

    def forget(self, member: int) -> None:
        """Where a member lives it is not as it should be: it is put somewhere anew when it is needed."""
        self.home.pop(member, None)

    def rear(self, generations: int, episodes: Sequence[int]) -> list[Raised[Any]]:
        """Every member after so many generations, in their order; a lost worker's members live on elsewhere."""
        out: dict[Task, list[int]] = {}
        for worker in dict.fromkeys(self.home.values()):
            ids = [number for number, home in self.home.items() if home == worker]
            out[self.fleet.submit("rear", ids, generations, episodes, worker=worker)] = ids
        found: dict[int, Raised[Any]] = {}
        attempts = 0
        while out:
            for task in self.fleet.wait(list(out), at_least=1):
                ids = out.pop(task)
                if isinstance(task.error, FleetError):
                    attempts += 1
                    if attempts > _ATTEMPTS:
                        task.result()
                    workers = self.fleet.ready()
                    worker = workers[attempts % len(workers)]
                    self._adopt([(self.members[number], worker) for number in ids])
                    out[self.fleet.submit("rear", ids, generations, episodes, worker=worker)] = ids
                    continue
                found |= {raised.member.id: raised for raised in task.result()}
        return [found[number] for number in self.members]

    def copy(self, chosen: Sequence[Selection], members: Sequence[AnyMember]) -> None:
        """Let members inherit where they live, all at once; `members` are all of them as they will be then."""
        self.members = {member.id: member for member in members}
        home = self.home
        self.fleet.transfer([Move(home[s.parent], s.parent, home[s.child], s.child) for s in chosen])
        tuned = {s.child: self.fleet.submit("tune", s.child, s.after, worker=home[s.child]) for s in chosen}
        self.fleet.wait(list(tuned.values()))
        for number, task in tuned.items():
            wanted, effective = self.learner.settings(self.members[number]), task.result()
            for name, value in wanted.items():
                if effective[name] != value:
                    raise RookeryError(f"member {number} was given {name}={value:g}, and uses {effective[name]:g}")

    def _adopt(self, moving: Sequence[tuple[AnyMember, WorkerId]]) -> None:
        """Put members where they are to live."""
        by_worker: dict[WorkerId, list[AnyMember]] = {}
        for member, worker in moving:
            by_worker.setdefault(worker, []).append(member)
            self.home[member.id] = worker
        tasks = [self.fleet.submit("adopt", members, worker=worker) for worker, members in by_worker.items()]
        self.fleet.wait(tasks)


def _with(state: PBTState, member: AnyMember) -> PBTState:
    """The state with one of its members as it is now."""
    members = tuple(member if other.id == member.id else other for other in state.learner.members)
    return replace(state, learner=replace(state.learner, members=members))


def _times(raised: Sequence[Raised[Any]], seconds: float) -> dict[str, float]:
    """Where the time went in which members learned and were measured, divided as they say."""
    parts = {
        name: sum(entry.times[name] for entry in raised) for name in ("act", "environment", "update", "measure")
    }
    whole = sum(parts.values()) or 1.0
    return {name: seconds * part / whole for name, part in parts.items()}


def _population(raised: Sequence[Raised[Any]]) -> events.Told:
    rows = tuple(
        events.MemberRow(
            id=entry.member.id,
            score=float(np.mean(entry.earned)),
            steps=entry.member.steps,
            hyperparameters=entry.member.hyperparameters,
        )
        for entry in raised
    )
    return events.Population, {"members": rows}


def _copied(selection: Selection) -> events.Told:
    return events.Copied, msgspec.structs.asdict(selection)
