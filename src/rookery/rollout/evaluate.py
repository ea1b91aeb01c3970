"""Many genomes, one batch of environments: episodes in, results out.

Each (candidate, episode) has an environment of its own, seeded, and leaves the active set when its episode ends.
An episode's bits depend on its candidate and its seed alone: never on the batch, its order or its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.envs import Arena, Env, Spaces, arena
from rookery.errors import UserError
from rookery.genomes import NO_LINEAGE, Genome, Lineage, Materialiser, rank_of
from rookery.policies import Policy, PolicySpec
from rookery.rollout.behaviour import Recording
from rookery.rollout.lane import Lane
from rookery.rollout.reference import reference_images
from rookery.rollout.results import Context, Result, Trial

_PARAMETER_BYTES = 512 * 2**20  # materialised at once
_EPISODES_AT_ONCE = 1024


class Evaluator:
    """Evaluates trials of one experiment, their behaviour too if told so; a plain object for a worker to hold."""

    def __init__(
        self,
        env: Env,
        network: PolicySpec,
        threads: int = 1,
        behaviour: str | None = None,
        unseen: Env | None = None,
    ) -> None:
        self.env, self.unseen = env, unseen
        self.recording = None if behaviour is None else Recording(behaviour)
        self.arena = self._arena(env)
        self.arena_unseen: Arena | None = None
        self.policy = self._policy(network)
        self.materialise = Materialiser(self.policy.space)
        self.threads = threads

    def evaluate(self, context: Context, trials: Sequence[Trial]) -> list[Result]:
        """Results in the order of the trials."""
        results: list[Result] = []
        # What is not finite fails its episode by name; NumPy need not warn about it as well.
        with np.errstate(over="ignore", invalid="ignore"):
            for batch in self._batches(trials):
                results += self._evaluate_batch(context, batch)
        return results

    def parameters(
        self, genomes: Sequence[Genome], centre: NDArray[np.float32], lineage: Lineage = NO_LINEAGE
    ) -> dict[str, Any]:
        """All that policies need to act, by name, with the axes (members, 1, ...)."""
        parameters = self.materialise.parameters(genomes, centre, lineage)
        if self.reference is not None:
            parameters |= self.policy.calibrate(parameters, self.reference)
        return parameters

    @cached_property
    def reference(self) -> NDArray[Any] | None:
        """The reference images of virtual batch normalisation, if the policy has it."""
        wanted = self.policy.network.reference()
        return None if wanted is None else reference_images(self.arena, wanted)

    def place(self, unseen: bool) -> Arena:
        """Where trials are played. Most evaluators never need the unseen one, so it is made when one does."""
        if not unseen:
            return self.arena
        if self.arena_unseen is None:
            if self.unseen is None:
                raise UserError(f"{self.env.name} has nothing that training does not show: set evaluation.unseen")
            self.arena_unseen = self._arena(self.unseen)
            check_alike(self.arena.spaces, self.arena_unseen.spaces)
        return self.arena_unseen

    def close(self) -> None:
        self.arena.close()
        if self.arena_unseen is not None:
            self.arena_unseen.close()

    def _policy(self, network: PolicySpec) -> Policy:
        return Policy(network, self.arena.spaces)

    def _arena(self, env: Env) -> Arena:
        return arena(env, self.recording.info if self.recording else None)

    def _batches(self, trials: Sequence[Trial]) -> Iterator[list[Trial]]:
        """Trials in one place with equally many episodes and a kind of genome, in pieces that fit into memory."""
        for (episodes, *_), group in groupby(
            trials, key=lambda trial: (len(trial.seeds), rank_of(trial.candidate.genome), trial.unseen)
        ):
            members = list(group)
            room = max(1, _PARAMETER_BYTES // (4 * self.materialise.numbers(members[0].candidate.genome)))
            size = max(1, min(room, _EPISODES_AT_ONCE // episodes))
            pieces = -(-len(members) // size)
            for piece in np.array_split(np.arange(len(members)), pieces):
                yield [members[index] for index in piece]

    def _evaluate_batch(self, context: Context, trials: list[Trial]) -> list[Result]:
        recorder = self.recording.start(sum(len(t.seeds) for t in trials)) if self.recording else None
        scaling = self.policy.scaling(context.moments)
        place = self.place(trials[0].unseen)
        lane = Lane(place, self.policy, scaling, trials, self.threads, recorder=recorder)
        try:
            genomes = [trial.candidate.genome for trial in trials]
            lane.start(self.parameters(genomes, context.centre, context.lineage))
            while len(lane.alive):
                lane.finish_step()
                if len(lane.alive):
                    lane.begin_step()
            return lane.results()
        finally:
            lane.close()


def check_alike(usual: Spaces, unseen: Spaces) -> None:
    """Refuse an unseen environment that the policy does not fit."""
    for what in ("observation", "action"):
        one, other = getattr(usual, what), getattr(unseen, what)
        if one != other:
            raise UserError(f"evaluation.unseen: the {what} must stay as it is, {one}, and would be {other}")
