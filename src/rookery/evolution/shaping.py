"""Fitness shaping: from what candidates earned to the weights of their noise in the update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rookery.rollout.results import Result, worst_for_failed

Shaping = Literal["centered_rank", "sign", "centered_sign_rank"]


def centered_ranks(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Ranks scaled to [-0.5, 0.5]; equals share the mean of their ranks, so ties pull nowhere."""
    if len(values) < 2:
        return np.zeros(len(values), np.float32)
    ordered = np.sort(values)
    ranks = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - 1) / 2
    return (ranks / (len(values) - 1) - 0.5).astype(np.float32)


def shape(results: Sequence[Result], shaping: Shaping) -> NDArray[np.float32]:
    """One weight per result. A failed candidate counts as the worst of the others."""
    if shaping == "centered_rank":
        return centered_ranks(worst_for_failed([result.fitness for result in results]))
    signs = worst_for_failed([result.signs for result in results])
    return signs.astype(np.float32) if shaping == "sign" else centered_ranks(signs)
