"""Wall time to 200 on BipedalWalker, which takes minutes: `solve` for that one preset."""

from __future__ import annotations

from typing import Any

from benchmarks.solve import solve

SEEDS = 1


def measure() -> list[dict[str, Any]]:
    """One row."""
    return [solve("bipedal", SEEDS)]
