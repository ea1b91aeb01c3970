"""OpenAI's evolution strategies: follow the gradient of the expected fitness of a Gaussian around a centre.

The population is noise: candidate i is theta + sign_i * sigma * noise_i, and the update is the sum of the noise
weighted by what it earned. A candidate is sent as a signed seed, and its noise is made again for the update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.evolution.gaussian import Gaussian, gathered
from rookery.evolution.optimisers import OptimiserState
from rookery.evolution.shaping import Shaping, shape
from rookery.genomes import NO_LINEAGE, Genome, Lineage, LowRank, ParameterSpace, SignedSeed
from rookery.genomes.low_rank import LowRankNoise
from rookery.rollout.results import Candidate, Result
from rookery.streams import stream


class StepLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adaptive limit on the steps of an episode: short at first, longer once enough episodes reach it."""

    start: Annotated[int, Meta(ge=1, description="steps at first")]
    share: Annotated[float, Meta(gt=0, le=1, description="share of episodes at the limit that makes it grow")] = (
        0.5
    )
    growth: Annotated[float, Meta(gt=1, description="by how much it grows then")] = 1.5


class ESState(msgspec.Struct, frozen=True, eq=False, tag="es"):
    """Everything: where the search stands, and what has come back for the generation that is out."""

    seed: int
    generation: int
    theta: NDArray[np.float32]
    optimiser: OptimiserState
    sigma: float
    step_limit: int | None = None
    out: bool = False
    results: tuple[Result, ...] = ()
    gradient_norm: float = 0.0
    update_norm: float = 0.0
    matrices: tuple[tuple[int, int], ...] = ()  # rows and columns of the parameters, where noise depends on them


class ES(Gaussian, frozen=True, tag="es"):
    """Evolution strategies with mirrored noise and rank-shaped fitness."""

    shaping: Annotated[
        Shaping,
        Meta(description="weights from fitness ranks, or from the sum of reward signs, plain or ranked"),
    ] = "centered_rank"
    rank: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="rank of each matrix's noise; null = full"),
    ] = None
    step_limit: Annotated[StepLimit | None, Meta(description="adaptive limit on episode steps; null = none")] = (
        None
    )

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> ESState:
        """The search before its first generation, around fresh parameters or around `start`."""
        theta = space.initial(stream(seed, "initial")) if start is None else start.astype(np.float32)
        limit = self.step_limit.start if self.step_limit else None
        matrices = space.matrices if self.rank else ()
        return ESState(seed, 0, theta, self.optimiser.init(theta.size), self.sigma, limit, matrices=matrices)

    def ask(self, state: ESState) -> tuple[ESState, list[Candidate]]:
        """The candidates of the next generation; none while one is still out."""
        if state.out:
            return state, []
        candidates = [
            Candidate(
                id=state.generation * self.population + number,
                genome=self._genome(state, index, sign, state.sigma),
                group=index,
                max_steps=state.step_limit,
            )
            for number, (index, sign) in enumerate(self.signed_indices())
        ]
        return replace(state, out=True), candidates

    def tell(self, state: ESState, results: Sequence[Result]) -> ESState:
        """Collect results; the last one of the generation completes it."""
        if not state.out:
            return state
        first = state.generation * self.population
        state = replace(state, results=gathered(state.results, results, first, self.population))
        return state if len(state.results) < self.population else self._update(state)

    def centre(self, state: ESState) -> NDArray[np.float32]:
        """What signed seeds are added to."""
        return state.theta

    def lineage(self, state: ESState) -> Lineage:
        """Nothing: signed seeds have no parents."""
        del state
        return NO_LINEAGE

    def champion(self, state: ESState) -> Genome:
        """The centre, without noise."""
        return self._genome(state, 0, 1, 0.0)

    def telemetry(self, state: ESState) -> dict[str, float]:
        """What is worth a curve, after a generation was told."""
        measured = {
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "sigma": state.sigma,
        }
        return measured if state.step_limit is None else {**measured, "step_limit": state.step_limit}

    def _genome(self, state: ESState, index: int, sign: int, sigma: float) -> Genome:
        if self.rank:
            return LowRank(state.seed, state.generation, index, sign, sigma, self.rank)
        return SignedSeed(state.seed, state.generation, index, sign, sigma)

    def _update(self, state: ESState) -> ESState:
        results = sorted(state.results, key=lambda result: result.id)  # bits do not depend on arrival
        weights = shape(results, self.shaping)
        noises = LowRankNoise(state.matrices, self.rank) if self.rank else None
        step = self.ascend(state.seed, state.generation, state.theta, state.optimiser, weights, noises)
        return replace(
            state,
            **step._asdict(),
            generation=state.generation + 1,
            sigma=self.next_sigma(state.sigma),
            step_limit=self._next_limit(state.step_limit, results),
            out=False,
            results=(),
        )

    def _next_limit(self, limit: int | None, results: Sequence[Result]) -> int | None:
        if self.step_limit is None or limit is None:
            return None
        episodes = sum(len(result.lengths) for result in results)
        cut = sum(result.limited for result in results)
        longer = max(limit + 1, int(limit * self.step_limit.growth))
        return longer if cut >= self.step_limit.share * max(1, episodes) else limit
