"""Random search: fresh parameters again and again, and the best of them, if they are as good when validated."""

from __future__ import annotations

from rookery.evolution.breeding import Breeding, Chains
from rookery.genomes import SeedChain


class RandomSearch(Breeding, frozen=True, tag="random_search"):
    """What selection has to beat: the initial distribution of the network, and nothing learned."""

    def _parents(self, elite: SeedChain, best: Chains) -> Chains:
        del elite, best
        return ()

    def _sigma(self, generation: int) -> float:
        del generation
        return 0.0
