"""The recipes: a whole vector, or seeds from which the workers make one, on what they already hold."""

from __future__ import annotations

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


class LowRank(msgspec.Struct, frozen=True, tag="low_rank"):
    """centre + sign * sigma * noise of this rank: a whole population can share the products with its centre."""

    seed: int
    generation: int
    index: int
    sign: int
    sigma: float
    rank: int


class Link(msgspec.Struct, frozen=True, array_like=True):
    """One mutation: sigma * noise(seed, generation, index), with the seed of the chain that it belongs to."""

    generation: int
    index: int
    sigma: float


class SeedChain(msgspec.Struct, frozen=True, tag="seed_chain"):
    """Fresh parameters number `root` (None: the centre), and every mutation since then, the oldest first."""

    seed: int
    root: int | None
    links: tuple[Link, ...] = ()


class Child(msgspec.Struct, frozen=True, tag="child"):
    """A chain that the workers hold, by its place in the lineage, with one more link; or the chain itself."""

    parent: int
    link: Link | None


class Keyframe(msgspec.Struct, frozen=True, eq=False):
    """What a chain comes to, so that chains which begin with it need not be made from their roots."""

    chain: SeedChain
    values: NDArray[np.float32]


class Lineage(msgspec.Struct, frozen=True, eq=False):
    """What the children of a generation are made from; it travels once, however many they are."""

    chains: tuple[SeedChain, ...] = ()
    keyframes: tuple[Keyframe, ...] = ()

    def whole(self, genome: SeedChain | Child) -> SeedChain:
        """A genome as a chain that stands for itself."""
        if isinstance(genome, SeedChain):
            return genome
        parent = self.chains[genome.parent]
        added = () if genome.link is None else (genome.link,)
        return SeedChain(parent.seed, parent.root, (*parent.links, *added))


Genome = Vector | SignedSeed | LowRank | SeedChain | Child
NO_LINEAGE = Lineage()


def noise(
    seed: int, generation: int, index: int, size: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The standard normal vector that (seed, generation, index) names, drawn into `out` where there is one."""
    return stream(seed, "noise", generation, index).standard_normal(size, dtype=np.float32, out=out)
