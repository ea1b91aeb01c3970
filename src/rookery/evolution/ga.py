"""Deep GA: truncation selection and Gaussian mutation, with genomes that are chains of seeds."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from rookery.evolution.breeding import Breeding, BreedingState, Chains
from rookery.genomes import SeedChain


class GA(Breeding, frozen=True, tag="ga"):
    """A genetic algorithm without crossover: the best of a generation are the parents of the next."""

    truncation: Annotated[
        int, Meta(ge=1, description="parents: the elite, and the best children of the last generation")
    ] = 20
    sigma: Annotated[float, Meta(gt=0, description="standard deviation of the mutations")] = 0.002
    sigma_decay: Annotated[
        float, Meta(gt=0, le=1, description="sigma is multiplied by this after each generation")
    ] = 1.0
    sigma_min: Annotated[float, Meta(ge=0, description="sigma does not decay below this")] = 0.0

    def telemetry(self, state: BreedingState) -> dict[str, float]:
        return {**super().telemetry(state), "sigma": self._sigma(state.generation)}

    def _parents(self, elite: SeedChain, best: Chains) -> Chains:
        return (elite, *best)[: self.truncation]

    def _best(self) -> int:
        return max(self.truncation, self.elites)

    def _sigma(self, generation: int) -> float:
        # As float32, which is how it is used: the text of a genome then has it exactly, in four bytes.
        return float(np.float32(max(self.sigma * self.sigma_decay**generation, self.sigma_min)))
