"""The recipes: a whole vector, or a signed seed on a centre that the workers already hold."""

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


Genome = Vector | SignedSeed


def noise(
    seed: int, generation: int, index: int, size: int, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The standard normal vector that (seed, generation, index) names, drawn into `out` where there is one."""
    return stream(seed, "noise", generation, index).standard_normal(size, dtype=np.float32, out=out)
