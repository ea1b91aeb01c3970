"""From recipes to parameters: many genomes at once, one row each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.genomes.recipes import Genome, Vector, noise
from rookery.genomes.space import ParameterSpace


class Materialiser:
    """Makes the parameters of one space. A row depends on its genome and the centre alone."""

    def __init__(self, space: ParameterSpace) -> None:
        self.space = space

    def __call__(self, genomes: Sequence[Genome], centre: NDArray[np.float32]) -> NDArray[np.float32]:
        """One row for each genome; neighbours that share a noise vector draw it once."""
        matrix = np.empty((len(genomes), self.space.size), np.float32)
        perturbation = np.empty(self.space.size, np.float32)
        drawn: tuple[int, int, int] | None = None
        for row, genome in zip(matrix, genomes, strict=True):
            if isinstance(genome, Vector):
                row[:] = genome.values
                continue
            name = (genome.seed, genome.generation, genome.index)
            if name != drawn:
                noise(*name, self.space.size, out=perturbation)
                drawn = name
            np.multiply(perturbation, np.float32(genome.sign * genome.sigma), out=row)
            np.add(row, centre, out=row)
        return matrix
