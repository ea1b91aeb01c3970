"""Actors for the benchmarks of the fleet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Nothing:
    """Does as little as an actor can."""

    def nothing(self) -> None:
        """Do nothing."""

    def first(self, values: NDArray[np.uint8]) -> int:
        """Look at a value that was published."""
        return int(values[0]) + int(values[-1])
