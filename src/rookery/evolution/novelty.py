"""Novelty search with evolution strategies: follow what has not been done before, alone or together with reward.

There are several centres. Each generation one of them is chosen, the more likely the newer its behaviour is, and
moved like that of an evolution strategy; but candidates are weighted by how far their behaviour is from an archive
of what centres have done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.evolution.gaussian import Gaussian, gathered
from rookery.evolution.optimisers import OptimiserState
from rookery.evolution.shaping import centered_ranks
from rookery.genomes import NO_LINEAGE, Genome, Lineage, ParameterSpace, SignedSeed, Vector
from rookery.rollout.results import WORST, Candidate, Result, worst_for_failed
from rookery.streams import stream

_VALIDATED = 2  # candidates behind the population: the centre without noise, and the best one so far


class NoveltyState(msgspec.Struct, frozen=True, eq=False, tag="novelty"):
    """Everything: the centres with their optimisers and latest behaviours, the archive, and the best centre."""

    seed: int
    generation: int
    centres: NDArray[np.float32]
    optimisers: tuple[OptimiserState, ...]
    behaviours: NDArray[np.float64]
    archive: NDArray[np.float64]
    best: NDArray[np.float32]
    sigma: float
    weight: float
    chosen: int = 0
    stale: int = 0
    out: bool = False
    results: tuple[Result, ...] = ()
    gradient_norm: float = 0.0
    update_norm: float = 0.0
    novelty: float = 0.0


class Novelty(Gaussian, frozen=True, tag="novelty"):
    """Evolution strategies that look for novel behaviour."""

    variant: Annotated[
        Literal["ns", "nsr", "nsra"],
        Meta(
            description="ns = novelty alone; nsr = ranks of reward and novelty, averaged; "
            "nsra = their shares adapt to whether reward grows"
        ),
    ] = "nsra"
    centres: Annotated[int, Meta(ge=1, description="centres, of which each generation moves one")] = 5
    neighbours: Annotated[
        int, Meta(ge=1, description="novelty is the mean distance to so many of the archive")
    ] = 10
    archive: Annotated[int, Meta(ge=1, description="behaviours that are remembered; the oldest give way")] = 1000
    centre_episodes: Annotated[
        int, Meta(ge=1, description="fresh episodes of the centre in each generation, and of the best one so far")
    ] = 10
    weight: Annotated[float, Meta(ge=0, le=1, description="share of reward in nsra at first")] = 1.0
    weight_step: Annotated[float, Meta(gt=0, le=1, description="by how much nsra changes it at a time")] = 0.05
    patience: Annotated[
        int, Meta(ge=1, description="generations without a better centre after which it falls")
    ] = 50

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> NoveltyState:
        """The search before its first generation; the first centre may be given, the others are fresh."""
        centres = np.stack([space.initial(stream(seed, "initial", 0, n)) for n in range(self.centres)])
        if start is not None:
            centres[0] = start
        return NoveltyState(
            seed=seed,
            generation=0,
            centres=centres,
            optimisers=tuple(self.optimiser.init(space.size) for _ in centres),
            behaviours=np.full((self.centres, 0), np.nan),
            archive=np.zeros((0, 0)),
            best=centres[0],
            sigma=self.sigma,
            weight={"ns": 0.0, "nsr": 0.5, "nsra": self.weight}[self.variant],
        )

    def ask(self, state: NoveltyState) -> tuple[NoveltyState, list[Candidate]]:
        """The candidates around the chosen centre, the centre itself, and the best one so far."""
        if state.out:
            return state, []
        first = state.generation * self._asked()
        candidates = [
            Candidate(first + number, SignedSeed(state.seed, state.generation, index, sign, state.sigma), index)
            for number, (index, sign) in enumerate(self.signed_indices())
        ]
        deployed: tuple[Genome, ...] = (SignedSeed(state.seed, state.generation, 0, 1, 0.0), Vector(state.best))
        candidates += [
            Candidate(first + number, genome, fresh=self.centre_episodes)
            for number, genome in enumerate(deployed, self.population)
        ]
        return replace(state, out=True), candidates

    def tell(self, state: NoveltyState, results: Sequence[Result]) -> NoveltyState:
        """Collect results; the last one of the generation completes it."""
        if not state.out:
            return state
        first = state.generation * self._asked()
        state = replace(state, results=gathered(state.results, results, first, self._asked()))
        return state if len(state.results) < self._asked() else self._update(state)

    def centre(self, state: NoveltyState) -> NDArray[np.float32]:
        """The chosen centre, which signed seeds are added to."""
        centre: NDArray[np.float32] = state.centres[state.chosen]
        return centre

    def lineage(self, state: NoveltyState) -> Lineage:
        """Nothing: signed seeds have no parents."""
        del state
        return NO_LINEAGE

    def champion(self, state: NoveltyState) -> Genome:
        """The best centre so far."""
        return Vector(state.best)

    def telemetry(self, state: NoveltyState) -> dict[str, float]:
        """What is worth a curve, after a generation was told."""
        return {
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "sigma": state.sigma,
            "reward_weight": state.weight,
            "novelty": state.novelty,
            "archive": float(len(state.archive)),
        }

    def _asked(self) -> int:
        return self.population + _VALIDATED

    def _update(self, state: NoveltyState) -> NoveltyState:
        results = sorted(state.results, key=lambda result: result.id)  # bits do not depend on arrival
        children, centre, best = results[: self.population], results[-2], results[-1]
        behaviours, archive = self._remember(state, centre.behaviour)
        novelty = worst_for_failed([self._novelty(child.behaviour, archive) for child in children])
        reward = worst_for_failed([child.fitness for child in children])
        share = np.float32(state.weight)
        weights = share * centered_ranks(reward) + (1 - share) * centered_ranks(novelty)
        chosen, old = state.chosen, self.centre(state)
        step = self.ascend(state.seed, state.generation, old, state.optimisers[chosen], weights)
        better = centre.fitness > best.fitness  # on the same fresh episodes
        centres = state.centres.copy()
        centres[chosen] = step.theta
        following = replace(
            state,
            generation=state.generation + 1,
            centres=centres,
            optimisers=(*state.optimisers[:chosen], step.optimiser, *state.optimisers[chosen + 1 :]),
            behaviours=behaviours,
            archive=archive,
            best=old.copy() if better else state.best,
            sigma=self.next_sigma(state.sigma),
            out=False,
            results=(),
            gradient_norm=step.gradient_norm,
            update_norm=step.update_norm,
            novelty=float(novelty.mean()),
        )
        return replace(self._adapt(following, better), chosen=self._choose(following))

    def _remember(
        self, state: NoveltyState, behaviour: NDArray[np.float64] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The centres' behaviours and the archive, after the chosen centre showed this; it may have failed."""
        if behaviour is None:
            return state.behaviours, state.archive
        width = behaviour.size
        behaviours = state.behaviours if state.behaviours.size else np.full((self.centres, width), np.nan)
        behaviours = behaviours.copy()
        behaviours[state.chosen] = behaviour
        return behaviours, np.concatenate([state.archive.reshape(-1, width), behaviour[None]])[-self.archive :]

    def _novelty(self, behaviour: NDArray[np.float64] | None, archive: NDArray[np.float64]) -> float:
        """How far a behaviour is from its nearest neighbours in the archive."""
        if behaviour is None or not len(archive) or not np.isfinite(behaviour).all():
            return WORST
        distances = np.sqrt(np.square(archive - behaviour).sum(axis=1))
        return float(np.sort(distances)[: self.neighbours].mean())

    def _adapt(self, state: NoveltyState, better: bool) -> NoveltyState:
        """More weight for reward where it grows, less after a while in which it does not."""
        if self.variant != "nsra":
            return state
        if better:
            return replace(state, weight=min(1.0, state.weight + self.weight_step), stale=0)
        if state.stale + 1 < self.patience:
            return replace(state, stale=state.stale + 1)
        return replace(state, weight=max(0.0, state.weight - self.weight_step), stale=0)

    def _choose(self, state: NoveltyState) -> int:
        """The centre of the next generation: each one once, then in proportion to their novelty."""
        if state.generation < self.centres:
            return state.generation
        novelty = np.array([max(0.0, self._novelty(shown, state.archive)) for shown in state.behaviours])
        total = novelty.cumsum()
        drawn = stream(state.seed, "centre", state.generation).random()
        if not total.size or total[-1] <= 0:
            return int(drawn * self.centres)
        return int(np.searchsorted(total, drawn * total[-1], side="right"))
