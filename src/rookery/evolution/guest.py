"""Guests: what strategies of other libraries have in common. They deal in whole vectors and whole generations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.evolution.gaussian import gathered
from rookery.genomes import NO_LINEAGE, Genome, Lineage, Vector
from rookery.rollout.results import Candidate, Result, worst_for_failed

Vectors = NDArray[np.float32]
Fitness = NDArray[np.float64]

_HUGE = 1e20  # what is beyond is no longer told apart, as the libraries compute with squares of it


class GuestState(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What all guests keep: where they stand, whom they recommend, and what has come back so far."""

    seed: int
    generation: int
    population: int
    best: NDArray[np.float32]
    out: bool = False
    results: tuple[Result, ...] = ()


S = TypeVar("S", bound=GuestState)


class Guest(msgspec.Struct, Generic[S], frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """A strategy whose mathematics is in another library: it proposes a generation, and learns from all of it."""

    def propose(self, state: S) -> Vectors:
        """The candidates of the next generation, a row each; the same whenever it is asked."""
        raise NotImplementedError

    def learn(self, state: S, fitness: Fitness) -> S:
        """The state after a generation, given the fitness of each row that was proposed."""
        raise NotImplementedError

    def ask(self, state: S) -> tuple[S, list[Candidate]]:
        """The candidates of the next generation; none while one is still out."""
        if state.out:
            return state, []
        first = state.generation * state.population
        candidates = [
            Candidate(id=first + number, genome=Vector(row), group=number)
            for number, row in enumerate(self.propose(state))
        ]
        return replace(state, out=True), candidates

    def tell(self, state: S, results: Sequence[Result]) -> S:
        """Collect results; the last one of the generation completes it."""
        if not state.out:
            return state
        collected = gathered(state.results, results, state.generation * state.population, state.population)
        if len(collected) < state.population:
            return replace(state, results=collected)
        ordered = sorted(collected, key=lambda result: result.id)  # bits do not depend on arrival
        fitness = np.clip(worst_for_failed([result.fitness for result in ordered]), -_HUGE, _HUGE)
        return self.learn(replace(state, out=False, results=()), fitness)

    def centre(self, state: S) -> NDArray[np.float32]:
        """Of no use to whole vectors; the champion stands for it."""
        return state.best

    def lineage(self, state: S) -> Lineage:
        """Nothing: whole vectors have no parents."""
        del state
        return NO_LINEAGE

    def champion(self, state: S) -> Genome:
        """What the library recommends."""
        return Vector(state.best)
