"""The recipes: a whole vector, or a signed seed on a centre that the workers already hold."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from rookery.streams import stream


class Vector(msgspec.Struct, frozen=True, tag="vector", eq=False):
    """The parameters themselves: for what nothing smaller describes."""

    values: NDArray[np.float32]


class SignedSeed(msgspec.Struct, frozen=True, tag="signed_seed"):
    """centre + sign * sigma * noise(seed, generation, index): a few bytes whatever the size of the network."""

    seed: int
    generation: int
    index: int
    sign: int
    sigma: float


Genome = Vector | SignedSeed


def noise(
    seed: int, generation: int, index: int, size: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The standard normal vector that (seed, generation, index) names, drawn into `out` where there is one."""
    return stream(seed, "noise", generation, index).standard_normal(size, dtype=np.float32, out=out)


def materialise(genomes: Sequence[Genome], centre: NDArray[np.float32]) -> NDArray[np.float32]:
    """The parameters of many genomes, one row each; neighbours that share a noise vector draw it once."""
    matrix = np.empty((len(genomes), centre.size), np.float32)
    drawn: tuple[int, int, int] | None = None
    perturbation = np.empty_like(centre)
    for number, genome in enumerate(genomes):
        if isinstance(genome, Vector):
            matrix[number] = genome.values
            continue
        key = (genome.seed, genome.generation, genome.index)
        if key != drawn:
            noise(*key, centre.size, out=perturbation)
            drawn = key
        np.multiply(perturbation, np.float32(genome.sign * genome.sigma), out=matrix[number])
        matrix[number] += centre
    return matrix
