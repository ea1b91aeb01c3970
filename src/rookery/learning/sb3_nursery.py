"""What a worker holds where Stable-Baselines3 learns: members that live here, each with its model.

A member learns in environments that are made anew for each interval, and all that is random follows from its name
and age. So what it learns is the same wherever it lives, but for off-policy algorithms: what they replay is left
behind where a member moves, and it plays a little before it learns again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from rookery.envs import Arena, Env, arena
from rookery.errors import RookeryError
from rookery.genomes import Vector
from rookery.learning.member import ENV_GENES, Raised
from rookery.learning.ppo import apply_hyperparameters, varied
from rookery.learning.sb3 import SB3, SB3Member, deployed
from rookery.learning.sb3_evaluator import SB3Evaluator
from rookery.learning.sb3_model import Model, apart
from rookery.policies import PolicySpec
from rookery.rollout.results import Candidate, Context, Trial
from rookery.streams import seeds as environment_seeds

_RECENT = 100  # episodes that a member's score is the mean of
_Variant = tuple[tuple[str, float], ...]  # genes of the environment


class SB3Nursery(SB3Evaluator):
    """Members live here between calls. Each can be had whole at any time, and be put into another nursery."""

    def __init__(
        self, env: Env, network: PolicySpec, threads: int, unseen: Env | None, learner: SB3, seed: int
    ) -> None:
        super().__init__(env, network, threads, unseen, learner, seed)
        self.members: dict[int, SB3Member] = {}
        self.models: dict[int, Model] = {}
        self.arenas: dict[_Variant, Arena] = {(): self.arena}

    def adopt(self, members: Sequence[SB3Member]) -> None:
        """Have these members live here, in place of those of the same names; who is not born yet is born."""
        for member in members:
            self.members[member.id] = member if member.arrays else self.birth(member.id).read(member)

    def rear(self, ids: Sequence[int], generations: int, seeds: Sequence[int]) -> list[Raised[SB3Member]]:
        """These members after some generations, measured on episodes of these seeds."""
        return [self._raised(self.members[number], generations, seeds) for number in ids]

    def give(self, member: int) -> SB3Member:
        """A member, for another one to inherit from."""
        return self.members[member]

    def take(self, member: int, parent: SB3Member) -> None:
        """Let a member inherit from another."""
        self.members[member] = self.members[member].inherit(parent)

    def tune(self, member: int, values: Mapping[str, float]) -> dict[str, float]:
        """Change a member's hyperparameters; what comes back is what its next update will use."""
        tuned = self.members[member] = apply_hyperparameters(self.members[member], values)
        model = self._model(member)
        model.restore(tuned)
        return model.effective(tuned.hyperparameters)

    def close(self) -> None:
        for model in self.models.values():
            model.worlds.close()
        for variant, place in self.arenas.items():
            if variant:
                place.close()
        super().close()

    def _model(self, member: int) -> Model:
        if member not in self.models:
            self.models[member] = self.birth(member)
        return self.models[member]

    def _raised(self, member: SB3Member, generations: int, seeds: Sequence[int]) -> Raised[SB3Member]:
        began = time.perf_counter()
        model = self._model(member.id)
        learned = self.members[member.id] = self._learned(model, member, generations)
        seconds = time.perf_counter() - began
        times = {
            "act": seconds - model.worlds.waiting - model.updating,
            "environment": model.worlds.waiting,
            "update": model.updating,
        }
        candidate = Candidate(member.id, Vector(deployed(learned)))
        trial = Trial(candidate, tuple(seeds), unseen=self.unseen is not None)
        (result,) = self.evaluate(Context(np.zeros(0, np.float32)), [trial])
        if result.error:
            raise RookeryError(result.error)
        return Raised(
            member=learned,
            earned=tuple(earned / self.env.reward_scale for earned in result.returns),
            steps=learned.steps - member.steps,
            times={**times, "measure": time.perf_counter() - began - seconds},
        )

    def _learned(self, model: Model, member: SB3Member, generations: int) -> SB3Member:
        """The member after so many updates, in environments of its own."""
        env, place = self._place(member)
        worlds = model.worlds
        model.restore(member)
        worlds.begin(place, environment_seeds(self.seed, "environments", member.age, member.id, self.learner.envs))
        with apart(self.seed, "act", member.age, member.id) as number:
            try:
                metrics = model.learn(generations, number)
            except (
                FloatingPointError,
                ValueError,
            ) as error:  # distributions without numbers raise it
                raise RookeryError(_diagnosis(member, " ".join(str(error).split()))) from error
        returns = tuple(earned / env.reward_scale for earned in worlds.returns)
        worlds.end()
        learned = model.read(member)
        if not all(np.isfinite(array).all() for array in learned.arrays.values()):
            raise RookeryError(_diagnosis(member, "the update is not a number"))
        return replace(
            learned,
            age=member.age + generations,
            steps=int(model.algorithm.num_timesteps),
            episodes=member.episodes + len(returns),
            recent=(*member.recent, *returns)[-_RECENT:],
            lengths=(*member.lengths, *worlds.lengths)[-_RECENT:],
            metrics=metrics,
        )

    def _place(self, member: SB3Member) -> tuple[Env, Arena]:
        """The environment that a member learns in, as its genes have changed it."""
        genes = {name: value for name, value in member.hyperparameters.items() if name in ENV_GENES}
        variant = tuple(sorted(genes.items()))
        env = varied(self.env, genes)
        if variant not in self.arenas:
            self.arenas[variant] = arena(env)
        return env, self.arenas[variant]


def _diagnosis(member: SB3Member, what: str) -> str:
    """What went wrong with whom."""
    used = ", ".join(f"{name} {value:g}" for name, value in member.hyperparameters.items())
    return f"member {member.id}: {what}; hyperparameters: {used}"
