"""OpenAI's evolution strategies: follow the gradient of the expected fitness of a Gaussian around a centre.

The population is noise: candidate i is theta + sign_i * sigma * noise_i, and the update is the sum of the noise
weighted by what it earned. A candidate is sent as a signed seed, and its noise is made again for the update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.evolution.optimisers import SGD, Adam, OptimiserState
from rookery.evolution.shaping import Shaping, shape
from rookery.genomes import NO_LINEAGE, Genome, Lineage, ParameterSpace, SignedSeed, Vector
from rookery.genomes.recipes import noise
from rookery.rollout.results import Candidate, Result
from rookery.streams import stream

_CHUNK_BYTES = 64 * 2**20  # of noise held at once for an update


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


class ES(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="es"):
    """Evolution strategies with mirrored noise and rank-shaped fitness."""

    population: Annotated[int, Meta(ge=1, description="candidates per generation")] = 128
    sigma: Annotated[float, Meta(gt=0, description="standard deviation of the noise")] = 0.1
    sigma_decay: Annotated[
        float, Meta(gt=0, le=1, description="sigma is multiplied by this after each generation")
    ] = 1.0
    sigma_min: Annotated[float, Meta(ge=0, description="sigma does not decay below this")] = 0.0
    lr: Annotated[float, Meta(gt=0, description="learning rate of the optimiser")] = 0.05
    lr_decay: Annotated[float, Meta(gt=0, le=1, description="lr is multiplied by this after each generation")] = (
        1.0
    )
    lr_min: Annotated[float, Meta(ge=0, description="lr does not decay below this")] = 0.0
    optimiser: Annotated[Adam | SGD, Meta(description="what turns gradients into steps")] = Adam()
    mirrored: Annotated[bool, Meta(description="evaluate each noise vector with both signs")] = True
    shaping: Annotated[
        Shaping,
        Meta(description="weights from fitness ranks, or from the sum of reward signs, plain or ranked"),
    ] = "centered_rank"
    decay: Annotated[float, Meta(ge=0, description="weight decay")] = 0.0
    decay_mode: Annotated[
        Literal["decoupled", "coupled"],
        Meta(description="decoupled shrinks the weights by lr * decay; coupled adds it to the gradient"),
    ] = "decoupled"
    step_limit: Annotated[StepLimit | None, Meta(description="adaptive limit on episode steps; null = none")] = (
        None
    )

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> ESState:
        """The search before its first generation, around fresh parameters or around `start`."""
        theta = space.initial(stream(seed, "initial")) if start is None else start.astype(np.float32)
        limit = self.step_limit.start if self.step_limit else None
        return ESState(seed, 0, theta, self.optimiser.init(theta.size), self.sigma, limit)

    def ask(self, state: ESState) -> tuple[ESState, list[Candidate]]:
        """The candidates of the next generation; none while one is still out."""
        if state.out:
            return state, []
        candidates = [
            Candidate(
                id=state.generation * self.population + number,
                genome=SignedSeed(state.seed, state.generation, index, sign, state.sigma),
                group=index,
                max_steps=state.step_limit,
            )
            for number, (index, sign) in enumerate(self._signed_indices())
        ]
        return replace(state, out=True), candidates

    def tell(self, state: ESState, results: Sequence[Result]) -> ESState:
        """Collect results; the last one of the generation completes it."""
        first = state.generation * self.population
        known = {result.id for result in state.results}
        fresh = {r.id: r for r in results if first <= r.id < first + self.population and r.id not in known}
        if not state.out or not fresh:
            return state
        state = replace(state, results=(*state.results, *fresh.values()))
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
        return Vector(state.theta)

    def telemetry(self, state: ESState) -> dict[str, float]:
        """What is worth a curve, after a generation was told."""
        measured = {
            "gradient_norm": state.gradient_norm,
            "update_norm": state.update_norm,
            "sigma": state.sigma,
        }
        return measured if state.step_limit is None else {**measured, "step_limit": state.step_limit}

    def _update(self, state: ESState) -> ESState:
        results = sorted(state.results, key=lambda result: result.id)  # bits do not depend on arrival
        gradient = self._recombine(state, shape(results, self.shaping))
        if self.decay_mode == "coupled":
            gradient -= np.float32(self.decay) * state.theta
        lr = max(self.lr * self.lr_decay**state.generation, self.lr_min)
        update, optimiser = self.optimiser.ascend(state.optimiser, gradient, lr)
        if self.decay_mode == "decoupled":
            update -= np.float32(lr * self.decay) * state.theta
        return replace(
            state,
            generation=state.generation + 1,
            theta=state.theta + update,
            optimiser=optimiser,
            sigma=max(state.sigma * self.sigma_decay, self.sigma_min),
            step_limit=self._next_limit(state.step_limit, results),
            out=False,
            results=(),
            gradient_norm=float(np.linalg.norm(gradient)),
            update_norm=float(np.linalg.norm(update)),
        )

    def _recombine(self, state: ESState, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """The sum of weight * sign * noise over the candidates, a bounded piece of the noise at a time."""
        per_index = np.zeros(self._indices(), np.float32)
        for weight, (index, sign) in zip(weights, self._signed_indices(), strict=True):
            per_index[index] += sign * weight
        gradient = np.zeros_like(state.theta)
        rows = min(len(per_index), max(1, _CHUNK_BYTES // state.theta.nbytes))
        chunk = np.empty((rows, gradient.size), np.float32)
        for start in range(0, len(per_index), rows):
            weighted = per_index[start : start + rows]
            for row in range(len(weighted)):
                noise(state.seed, state.generation, start + row, gradient.size, out=chunk[row])
            gradient += weighted @ chunk[: len(weighted)]
        return gradient / np.float32(self.population)

    def _indices(self) -> int:
        return (self.population + 1) // 2 if self.mirrored else self.population

    def _signed_indices(self) -> Iterator[tuple[int, int]]:
        """Noise index and sign of each candidate; an odd mirrored population leaves the last one single."""
        for number in range(self.population):
            yield (number // 2, 1 - 2 * (number % 2)) if self.mirrored else (number, 1)

    def _next_limit(self, limit: int | None, results: Sequence[Result]) -> int | None:
        if self.step_limit is None or limit is None:
            return None
        episodes = sum(len(result.lengths) for result in results)
        cut = sum(result.limited for result in results)
        longer = max(limit + 1, int(limit * self.step_limit.growth))
        return longer if cut >= self.step_limit.share * max(1, episodes) else limit
