"""What searches with Gaussian noise around a centre share: who gets which noise, and the step that follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rookery.evolution.optimisers import SGD, Adam, OptimiserState
from rookery.genomes.low_rank import FullNoise, Noise
from rookery.rollout.results import Result

_CHUNK_BYTES = 64 * 2**20  # of noise held at once for an update


class Step(NamedTuple):
    """Where a centre is after an update, and how it got there."""

    theta: NDArray[np.float32]
    optimiser: OptimiserState
    gradient_norm: float
    update_norm: float


def gathered(known: tuple[Result, ...], results: Sequence[Result], first: int, count: int) -> tuple[Result, ...]:
    """The known results of `count` candidates from `first` on, and those of others among them that have come."""
    ids = {result.id for result in known}
    fresh = {r.id: r for r in results if first <= r.id < first + count and r.id not in ids}
    return (*known, *fresh.values())


class Gaussian(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """Candidate i is theta + sign_i * sigma * noise_i; the update is the sum of noise times weights."""

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
    decay: Annotated[float, Meta(ge=0, description="weight decay")] = 0.0
    decay_mode: Annotated[
        Literal["decoupled", "coupled"],
        Meta(description="decoupled shrinks the weights by lr * decay; coupled adds it to the gradient"),
    ] = "decoupled"

    def ascend(
        self,
        seed: int,
        generation: int,
        theta: NDArray[np.float32],
        optimiser: OptimiserState,
        weights: NDArray[np.float32],
        noises: Noise | None = None,
    ) -> Step:
        """The centre after a generation whose candidates have these weights, and noise of this kind or full."""
        gradient = self._recombine(seed, generation, weights, noises or FullNoise(theta.size))
        if self.decay_mode == "coupled":
            gradient -= np.float32(self.decay) * theta
        lr = max(self.lr * self.lr_decay**generation, self.lr_min)
        update, after = self.optimiser.ascend(optimiser, gradient, lr)
        if self.decay_mode == "decoupled":
            update -= np.float32(lr * self.decay) * theta
        norms = (float(np.linalg.norm(vector)) for vector in (gradient, update))
        return Step(theta + update, after, *norms)

    def next_sigma(self, sigma: float) -> float:
        """Sigma in the generation after one with this sigma."""
        return max(sigma * self.sigma_decay, self.sigma_min)

    def signed_indices(self) -> Iterator[tuple[int, int]]:
        """Noise index and sign of each candidate; an odd mirrored population leaves the last one single."""
        for number in range(self.population):
            yield (number // 2, 1 - 2 * (number % 2)) if self.mirrored else (number, 1)

    def _recombine(
        self, seed: int, generation: int, weights: NDArray[np.float32], noises: Noise
    ) -> NDArray[np.float32]:
        """The sum of weight * sign * noise over the candidates, a bounded piece of the noise at a time."""
        per_index = np.zeros((self.population + 1) // 2 if self.mirrored else self.population, np.float32)
        for weight, (index, sign) in zip(weights, self.signed_indices(), strict=True):
            per_index[index] += sign * weight
        gradient = np.zeros(noises.full, np.float32)
        rows = min(len(per_index), max(1, _CHUNK_BYTES // (4 * noises.size)))
        chunk = np.empty((rows, noises.size), np.float32)
        for start in range(0, len(per_index), rows):
            weighted = per_index[start : start + rows]
            for row in range(len(weighted)):
                noises.draw(seed, generation, start + row, out=chunk[row])
            noises.add_weighted(gradient, weighted, chunk[: len(weighted)])
        return gradient / np.float32(self.population)
