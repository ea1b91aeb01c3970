"""What a worker of population-based training holds: members that live here, and all that they need to learn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from rookery.envs import Env, arena
from rookery.errors import RookeryError
from rookery.genomes import Vector
from rookery.learning.cohort import Cohort
from rookery.learning.member import Raised
from rookery.learning.ppo import PPO, Member, PPOState, Worlds, apply_hyperparameters, varied
from rookery.learning.trainer import Trainer
from rookery.policies import PolicySpec
from rookery.rollout.collect import Collector, Stint, Trajectory
from rookery.rollout.results import Candidate, Context, Trial
from rookery.rollout.worker import Worker

_TURNS = 4
_Variant = tuple[tuple[str, float], ...]  # genes of the environment


class Nursery(Worker):
    """Members live here between calls. Each can be had whole at any time, and be put into another nursery."""

    def __init__(
        self, env: Env, network: PolicySpec, threads: int, unseen: Env | None, learner: PPO, seed: int
    ) -> None:
        super().__init__(env, network, threads, unseen, learner.critic)
        self.learner, self.seed = learner, seed
        self.trainer = Trainer(learner, self.collector.model, threads)
        self.cohorts: dict[_Variant, Cohort] = {}
        self.members: dict[int, Member] = {}

    def adopt(self, members: Sequence[Member]) -> None:
        """Have these members live here, in place of those of the same names."""
        self.members |= {member.id: member for member in members}

    def rear(self, ids: Sequence[int], generations: int, seeds: Sequence[int]) -> list[Raised[Member]]:
        """These members after some generations, measured on episodes of these seeds."""
        size = self.policy.space.size
        groups: dict[_Variant, list[Member]] = {}
        for number in ids:
            groups.setdefault(_variant(self.members[number]), []).append(self.members[number])
        found: dict[int, Raised[Member]] = {}
        for variant, members in groups.items():
            cohort = self._cohort(variant)
            state = PPOState(self.seed, size, tuple(members))
            times = dict.fromkeys(("act", "environment", "update"), 0.0)
            for _ in range(generations):
                state, _, spent = cohort.learn(state)
                times = {name: times[name] + spent[name] / len(members) for name in times}
            self.adopt(state.members)
            for before, member in zip(members, state.members, strict=True):
                found[member.id] = self._measured(member, before.steps, seeds, times)
        return [found[number] for number in ids]

    def give(self, member: int) -> Member:
        """A member, for another one to inherit from: all but its own environments."""
        return replace(self.members[member], worlds=Worlds(0))

    def take(self, member: int, parent: Member) -> None:
        """Let a member inherit from another."""
        self.members[member] = self.members[member].inherit(parent)

    def tune(self, member: int, values: Mapping[str, float]) -> dict[str, float]:
        """Change a member's hyperparameters; what comes back is what its next update will use."""
        self.members[member] = apply_hyperparameters(self.members[member], values)
        return self.learner.settings(self.members[member])

    def close(self) -> None:
        self.trainer.close()
        super().close()

    def _cohort(self, variant: _Variant) -> Cohort:
        """Those who learn in an environment that genes have changed like this."""
        if variant not in self.cohorts:
            env = varied(self.env, dict(variant))
            collector = Collector(arena(env), self.collector.model, self.threads) if variant else self.collector
            here = _Here(collector, _TURNS if self.threads > 1 else 1)
            self.cohorts[variant] = Cohort(self.learner, self.trainer, here, env.reward_scale)
        return self.cohorts[variant]

    def _measured(
        self, member: Member, before: int, seeds: Sequence[int], times: Mapping[str, float]
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
            times={**times, "measure": measuring},
        )


def _variant(member: Member) -> _Variant:
    """The genes that change a member's environment."""
    return tuple(sorted((name, value) for name, value in member.hyperparameters.items() if name in PPO.VARIES))


class _Here:
    """Rollouts from the environments of this worker, in turns: while some members collect, others may learn."""

    def __init__(self, collector: Collector, turns: int) -> None:
        self.collector, self.turns = collector, turns

    def collect(self, stints: Sequence[Stint]) -> Iterator[tuple[int, Trajectory]]:
        turns = min(self.turns, len(stints))
        cuts = [round(turn * len(stints) / turns) for turn in range(turns + 1)]
        for first, last in pairwise(cuts):
            yield from enumerate(self.collector.collect(stints[first:last]), first)
