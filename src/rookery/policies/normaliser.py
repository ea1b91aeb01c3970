"""Observation normalisation: running moments that merge in any grouping, and their use in a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class Moments(msgspec.Struct, frozen=True, eq=False):
    """Count, sum and sum of squares of observations, per component, in float64."""

    count: int
    total: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> Moments:
        return cls(0, np.zeros(size), np.zeros(size))

    def merge(self, others: Iterable[Moments]) -> Moments:
        """Add what others saw; the bits depend on their order, so callers give them in candidate order."""
        count, total, squares = self.count, self.total.copy(), self.squares.copy()
        for other in others:
            count += other.count
            total += other.total
            squares += other.squares
        return Moments(count, total, squares)

    def widen(self, size: int) -> Moments:
        """The same for a larger observation; the components behind the known ones count as never normalised."""
        more = size - self.total.size
        squares = np.append(self.squares, np.full(more, float(self.count)))  # mean 0, standard deviation 1
        return Moments(self.count, np.append(self.total, np.zeros(more)), squares)

    def statistics(self, floor: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and standard deviation (not below `floor`); zero and one before anything was seen."""
        if self.count == 0:
            return np.zeros(self.total.shape, np.float32), np.ones(self.total.shape, np.float32)
        mean = self.total / self.count
        variance = np.maximum(self.squares / self.count - mean**2, 0.0)
        return mean.astype(np.float32), np.maximum(np.sqrt(variance), floor).astype(np.float32)


class Scaling(msgspec.Struct, frozen=True, eq=False):
    """What a policy does to an observation before it looks: (x - mean) / std, clipped to +-clip."""

    mean: Any
    std: Any
    clip: float

    def apply(self, observation: Any) -> Any:
        xp = observation.__array_namespace__()
        return xp.minimum(xp.maximum((observation - self.mean) / self.std, -self.clip), self.clip)
