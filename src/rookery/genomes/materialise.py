"""From recipes to parameters: many genomes at once, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.genomes.chains import Chains, mutate
from rookery.genomes.low_rank import LowRankNoise, perturbed
from rookery.genomes.recipes import (
    NO_LINEAGE,
    Child,
    Genome,
    Lineage,
    Link,
    LowRank,
    SeedChain,
    SignedSeed,
    Vector,
    noise,
)
from rookery.genomes.space import ParameterSpace

_REMEMBERED_BYTES = 256 * 2**20  # of parents


class Materialiser:
    """Makes the parameters of one space. A member's depend on its genome, the centre and the lineage alone."""

    def __init__(self, space: ParameterSpace, remembered_bytes: int = _REMEMBERED_BYTES) -> None:
        self.space = space
        self.chains = Chains(space, remembered_bytes)
        self._noises: dict[int, LowRankNoise] = {}
        self._latest: tuple[tuple[int, ...], NDArray[np.float32]] | None = None  # noise, with its name

    def __call__(
        self, genomes: Sequence[Genome], centre: NDArray[np.float32], lineage: Lineage = NO_LINEAGE
    ) -> NDArray[np.float32]:
        """One row for each genome; neighbours that share a noise vector draw it once, siblings their parent."""
        matrix = np.empty((len(genomes), self.space.size), np.float32)
        siblings: dict[int, list[tuple[int, Link | None]]] = {}  # by parent: rows, and what is added there
        for number, (row, genome) in enumerate(zip(matrix, genomes, strict=True)):
            match genome:
                case SignedSeed() | LowRank():
                    self._perturb(row, genome, centre)
                case Vector():
                    row[:] = genome.values
                case SeedChain():
                    row[:] = self.chains.make(genome, centre, lineage.keyframes)
                case Child():
                    siblings.setdefault(genome.parent, []).append((number, genome.link))
        scratch = np.empty(self.space.size if siblings else 0, np.float32)
        for parent, rows in siblings.items():
            chain = lineage.chains[parent]
            matrix[[number for number, _ in rows]] = self.chains.make(chain, centre, lineage.keyframes)
            for number, link in rows:
                if link is not None:
                    mutate(matrix[number], chain.seed, link, scratch)
        return matrix

    def parameters(
        self, genomes: Sequence[Genome], centre: NDArray[np.float32], lineage: Lineage = NO_LINEAGE
    ) -> dict[str, Any]:
        """Named parameters with the axes (members, 1, *shape): one set for all episodes of a member.

        Genomes of low rank come among their like; their matrices share the centre's, and are for products only.
        """
        low = [genome for genome in genomes if isinstance(genome, LowRank)]
        if not low:
            return self.space.split(self(genomes, centre, lineage)[:, None])
        noises = self._low_rank(low[0].rank)
        drawn = np.zeros((len(genomes), noises.size), np.float32)
        for row, genome in zip(drawn, low, strict=True):
            if genome.sigma:
                noises.draw(genome.seed, genome.generation, genome.index, row)
        scales = np.array([genome.sign * genome.sigma for genome in low], np.float32)
        return perturbed(self.space, noises, centre, drawn, scales)

    def numbers(self, genome: Genome) -> int:
        """How many numbers a member takes whose genome is like this one."""
        return self._low_rank(genome.rank).size if isinstance(genome, LowRank) else self.space.size

    def _perturb(
        self, row: NDArray[np.float32], genome: SignedSeed | LowRank, centre: NDArray[np.float32]
    ) -> None:
        row[:] = centre
        if not genome.sigma:
            return
        name = (genome.seed, genome.generation, genome.index, rank_of(genome))
        if self._latest is None or self._latest[0] != name:
            self._latest = name, self._draw(genome)
        row += self._latest[1] * np.float32(genome.sign * genome.sigma)

    def _draw(self, genome: SignedSeed | LowRank) -> NDArray[np.float32]:
        name = genome.seed, genome.generation, genome.index
        if isinstance(genome, LowRank):
            noises = self._low_rank(genome.rank)
            return noises.dense(noises.draw(*name))
        return noise(*name, self.space.size)

    def _low_rank(self, rank: int) -> LowRankNoise:
        if rank not in self._noises:
            self._noises[rank] = LowRankNoise(self.space.matrices, rank)
        return self._noises[rank]


def rank_of(genome: Genome) -> int:
    """The rank of a genome's noise; 0 for one that is no matrix of low rank."""
    return genome.rank if isinstance(genome, LowRank) else 0
