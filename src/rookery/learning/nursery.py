"""What a worker of population-based training holds: members that live here, and all that they need to learn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from rookery.envs import Env
from rookery.errors import RookeryError
from rookery.genomes import Vector
from rookery.learning.cohort import Cohort
from rookery.learning.member import Raised
from rookery.learning.ppo import PPO, Member, PPOState, apply_hyperparameters
from rookery.policies import PolicySpec
from rookery.rollout.collect import Collector, Stint, Trajectory
from rookery.rollout.results import Candidate, Context, Trial
from rookery.rollout.worker import Worker

_TURNS = 2


class Nursery(Worker):
    """Members live here between calls. Each can be had whole at any time, and be put into another nursery."""

    def __init__(
        self, env: Env, network: PolicySpec, threads: int, unseen: Env | None, learner: PPO, seed: int
    ) -> None:
        super().__init__(env, network, threads, unseen, learner.critic)
        self.learner, self.seed = learner, seed
        here = _Here(self.collector, min(threads, _TURNS))
        self.cohort = Cohort(learner, self.collector.model, here, env.reward_scale, threads)
        self.members: dict[int, Member] = {}

    def adopt(self, members: Sequence[Member]) -> None:
        """Have these members live here, in place of those of the same names."""
        self.members |= {member.id: member for member in members}

    def rear(self, ids: Sequence[int], generations: int, seeds: Sequence[int]) -> list[Raised[Member]]:
        """These members after some generations, measured on episodes of these seeds."""
        size = self.policy.space.size
        state = PPOState(self.seed, size, tuple(self.members[number] for number in ids))
        times = dict.fromkeys(("act", "environment", "update"), 0.0)
        before = {member.id: member.steps for member in state.members}
        for _ in range(generations):
            state, _, spent = self.cohort.learn(state)
            times = {name: times[name] + spent[name] for name in times}
        self.adopt(state.members)
        return [self._measured(member, before[member.id], seeds, times, len(ids)) for member in state.members]

    def give(self, member: int) -> Member:
        """A member, for another one to inherit from."""
        return self.members[member]

    def take(self, member: int, parent: Member) -> None:
        """Let a member inherit from another."""
        self.members[member] = self.members[member].inherit(parent)

    def tune(self, member: int, values: Mapping[str, float]) -> dict[str, float]:
        """Change a member's hyperparameters; what comes back is what its next update will use."""
        self.members[member] = apply_hyperparameters(self.members[member], values)
        return self.learner.settings(self.members[member])

    def close(self) -> None:
        self.cohort.close()
        super().close()

    def _measured(
        self, member: Member, before: int, seeds: Sequence[int], times: Mapping[str, float], share: int
    ) -> Raised[Member]:
        context = Context(np.zeros(0, np.float32), member.moments)
        genome = Vector(self.collector.model.deployed(member.parameters))
        began = time.perf_counter()
        trial = Trial(Candidate(member.id, genome), tuple(seeds), unseen=self.unseen is not None)
        (result,) = self.evaluate(context, [trial])
        measuring = time.perf_counter() - began
        if result.error:
            raise RookeryError(result.error)
        return Raised(
            member=member,
            earned=tuple(earned / self.env.reward_scale for earned in result.returns),
            steps=member.steps - before,
            measured=result.steps,
            times={name: seconds / share for name, seconds in times.items()} | {"measure": measuring},
        )


class _Here:
    """Rollouts from the environments of this worker, in turns: while some members collect, others may learn."""

    def __init__(self, collector: Collector, turns: int) -> None:
        self.collector, self.turns = collector, turns

    def collect(self, stints: Sequence[Stint]) -> Iterator[tuple[int, Trajectory]]:
        turns = min(self.turns, len(stints))
        cuts = [round(turn * len(stints) / turns) for turn in range(turns + 1)]
        for first, last in pairwise(cuts):
            yield from enumerate(self.collector.collect(stints[first:last]), first)
