"""What searches over seed chains share: generations or a steady flow of candidates, and elites that are validated.

A generation is `population` children, and behind them its finalists: the elite, and the children of the generation
before that scored best there. Finalists play fresh episodes, the same for all of them, and the one with the best
mean is the elite from then on. So nobody waits for a validation, and no elite is kept for one lucky score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeGuard

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.genomes import Child, Genome, Keyframe, Lineage, Link, ParameterSpace, SeedChain, keyframes
from rookery.rollout.results import Candidate, Result
from rookery.streams import stream

Chains = tuple[SeedChain, ...]


class BreedingState(msgspec.Struct, frozen=True, eq=False, tag="breeding"):
    """Everything: whom this generation descends from, who is validated in it, and what was told of it.

    Candidates are numbered through the run, and `first` is the first of this generation. `fitness` is by place,
    NaN where nothing was told. In steady mode the first places of the next generation follow those of this one,
    and the first children of each generation descend from `older` parents, those of the generation before.
    """

    seed: int
    generation: int
    space: ParameterSpace
    start: NDArray[np.float32]
    first: int
    asked: int
    fitness: NDArray[np.float64]
    parents: Chains
    older: Chains
    finalists: Chains
    keyframes: tuple[Keyframe, ...] = ()
    validated: float | None = None

    @property
    def elite(self) -> SeedChain:
        return self.finalists[0]


class Breeding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What the searches have in common; each says who becomes a parent, and how far children are from them."""

    population: Annotated[int, Meta(ge=1, description="candidates per generation, without validations")] = 1000
    elites: Annotated[int, Meta(ge=1, description="the best of a generation that challenge the elite")] = 10
    elite_episodes: Annotated[
        int, Meta(ge=1, description="fresh episodes that each of them and the elite play to see who is better")
    ] = 30
    mode: Annotated[
        Literal["generational", "steady"],
        Meta(description="steady = no worker waits for a generation to end; needs policy.normaliser=null"),
    ] = "generational"
    window: Annotated[
        int, Meta(ge=1, description="candidates that are out at a time in steady mode, a few for each worker")
    ] = 64

    def __post_init__(self) -> None:
        if self.mode == "steady" and self.window > self.population:
            raise ValueError(f"window is at most the population, which is {self.population}; got {self.window}")

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> BreedingState:
        """The search before its first generation, from fresh parameters or from `start`."""
        elite = SeedChain(seed, 0 if start is None else None)
        parents = () if start is None else self._parents(elite, ())
        state = BreedingState(
            seed=seed,
            generation=0,
            space=space,
            start=np.zeros(0, np.float32) if start is None else start.astype(np.float32),
            first=0,
            asked=0,
            fitness=np.zeros(0),
            parents=parents,
            older=parents if self.mode == "steady" else (),
            finalists=(elite,),
        )
        return replace(state, fitness=self._untold(state))

    def ask(self, state: BreedingState) -> tuple[BreedingState, list[Candidate]]:
        """The whole generation at once; in steady mode as many as there is room for in the window."""
        steady = self.mode == "steady"
        end = _told(state) + self.window if steady else self._size(state)
        asked = self._candidates(state, range(state.asked, end))
        return replace(state, asked=max(end, state.asked)), asked

    def out(self, state: BreedingState) -> list[Candidate]:
        """What was asked and not told, the oldest first."""
        return self._candidates(state, np.flatnonzero(np.isnan(state.fitness[: state.asked])).tolist())

    def tell(self, state: BreedingState, results: Sequence[Result]) -> BreedingState:
        """Write down what was earned; the last result of a generation completes it."""
        fitness = state.fitness.copy()
        for result in results:
            place = result.id - state.first
            if 0 <= place < state.asked and np.isnan(fitness[place]):
                fitness[place] = result.fitness
        state = replace(state, fitness=fitness)
        return state if np.isnan(fitness[: self._size(state)]).any() else self._select(state)

    def centre(self, state: BreedingState) -> NDArray[np.float32]:
        """Where the search was told to start; nothing where it was not."""
        return state.start

    def lineage(self, state: BreedingState) -> Lineage:
        """All chains that candidates name: `older`, `parents` and `finalists`, one after the other."""
        return Lineage((*state.older, *state.parents, *state.finalists), state.keyframes)

    def champion(self, state: BreedingState) -> Genome:
        """The elite."""
        return state.elite

    def telemetry(self, state: BreedingState) -> dict[str, float]:
        """What is worth a curve, after a generation was told."""
        measured = {"links": float(len(state.elite.links))}
        if state.validated is None or not np.isfinite(state.validated):
            return measured
        return {**measured, "elite": state.validated}

    def _parents(self, elite: SeedChain, best: Chains) -> Chains:
        """Whose children the next generation will be; it descends from nobody if this is empty."""
        raise NotImplementedError

    def _sigma(self, generation: int) -> float:
        """Standard deviation of a generation's mutations."""
        raise NotImplementedError

    def _best(self) -> int:
        """How many of the best children matter."""
        return self.elites

    def _select(self, state: BreedingState) -> BreedingState:
        """The next generation: its parents, its finalists, and what was told of it already."""
        size = self._size(state)
        children, validated = state.fitness[: self.population], state.fitness[self.population : size]
        order = np.argsort(-children, kind="stable")[: self._best()]
        lineage = self.lineage(state)
        best = tuple(lineage.whole(child) for child in self._children(state, order.tolist()))
        winner = int(np.argmax(validated))  # the elite itself, if nobody is better
        elite = state.finalists[winner]
        parents, older = self._parents(elite, best), state.parents if self.mode == "steady" else ()
        finalists = (elite, *best[: self.elites])
        following = replace(
            state,
            generation=state.generation + 1,
            first=state.first + size,
            asked=state.asked - size,
            parents=parents,
            older=older,
            finalists=finalists,
            keyframes=keyframes((*older, *parents, *finalists), state.keyframes, state.space, state.start),
            validated=float(validated[winner]),
        )
        fitness, early = self._untold(following), state.fitness[size:]
        fitness[: len(early)] = early
        return replace(following, fitness=fitness)

    def _candidates(self, state: BreedingState, places: Sequence[int]) -> list[Candidate]:
        """The candidates at some places of this generation and, behind its end, of the next one."""
        size, known = self._size(state), len(state.older) + len(state.parents)
        finals = range(self.population, size)
        children = iter(self._children(state, [place for place in places if place not in finals]))
        return [
            Candidate(
                id=state.first + place,
                genome=Child(known + place - self.population, None) if place in finals else next(children),
                group=0 if place in finals else place % size,
                generation=state.generation + (place >= size),
                fresh=self.elite_episodes if place in finals else 0,
            )
            for place in places
        ]

    def _children(self, state: BreedingState, places: Sequence[int]) -> list[Child | SeedChain]:
        """The genomes of children at some places: which parent each has follows from its generation and place."""
        size, older = self._size(state), len(state.older)
        draws = [stream(state.seed, "breed", state.generation + ahead).random(self.population) for ahead in (0, 1)]
        sigmas = [self._sigma(state.generation + ahead) for ahead in (0, 1)]
        genomes: list[Child | SeedChain] = []
        for place in places:
            ahead = int(place >= size)
            generation, own = state.generation + ahead, place - ahead * size
            from_older = self.mode == "steady" and not ahead and own < self.window
            start, many = (0, older) if from_older else (older, len(state.parents))
            if many:
                parent = start + int(draws[ahead][own] * many)
                genomes.append(Child(parent, Link(generation, own, sigmas[ahead])))
            else:
                genomes.append(SeedChain(state.seed, 1 + generation * self.population + own))
        return genomes

    def _size(self, state: BreedingState) -> int:
        """Candidates of this generation, validations included."""
        return self.population + len(state.finalists)

    def _untold(self, state: BreedingState) -> NDArray[np.float64]:
        ahead = self.window if self.mode == "steady" else 0
        return np.full(self._size(state) + ahead, np.nan)


def _told(state: BreedingState) -> int:
    """How many were told without a gap."""
    return int(np.isnan(state.fitness).argmax())


def is_steady(strategy: object) -> TypeGuard[Breeding]:
    """Whether a strategy asks for more with each result rather than for whole generations."""
    return isinstance(strategy, Breeding) and strategy.mode == "steady"
