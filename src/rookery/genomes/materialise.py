"""From recipes to parameters: many genomes at once, one row each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.genomes.chains import Chains, mutate
from rookery.genomes.recipes import NO_LINEAGE, Child, Genome, Lineage, Link, SeedChain, SignedSeed, Vector, noise
from rookery.genomes.space import ParameterSpace

_REMEMBERED_BYTES = 256 * 2**20  # of parents


class Materialiser:
    """Makes the parameters of one space. A row depends on its genome, the centre and the lineage alone."""

    def __init__(self, space: ParameterSpace, remembered_bytes: int = _REMEMBERED_BYTES) -> None:
        self.space = space
        self.chains = Chains(space, remembered_bytes)

    def __call__(
        self, genomes: Sequence[Genome], centre: NDArray[np.float32], lineage: Lineage = NO_LINEAGE
    ) -> NDArray[np.float32]:
        """One row for each genome; neighbours that share a noise vector draw it once, siblings their parent."""
        matrix = np.empty((len(genomes), self.space.size), np.float32)
        perturbation = np.empty(self.space.size, np.float32)
        drawn: tuple[int, int, int] | None = None
        siblings: dict[int, list[tuple[int, Link | None]]] = {}  # by parent: rows, and what is added there
        for number, (row, genome) in enumerate(zip(matrix, genomes, strict=True)):
            match genome:
                case SignedSeed():
                    name = (genome.seed, genome.generation, genome.index)
                    if name != drawn:
                        noise(*name, self.space.size, out=perturbation)
                        drawn = name
                    np.multiply(perturbation, np.float32(genome.sign * genome.sigma), out=row)
                    np.add(row, centre, out=row)
                case Vector():
                    row[:] = genome.values
                case SeedChain():
                    row[:] = self.chains.make(genome, centre, lineage.keyframes)
                case Child():
                    siblings.setdefault(genome.parent, []).append((number, genome.link))
        for parent, rows in siblings.items():
            chain = lineage.chains[parent]
            values = self.chains.make(chain, centre, lineage.keyframes)
            for number, link in rows:
                matrix[number] = values
                if link is not None:
                    mutate(matrix[number], chain.seed, link, perturbation)
        return matrix
