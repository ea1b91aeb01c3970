"""Wall time to 200 on LunarLander by other strategies than evolution strategies: `solve` for their presets."""

from __future__ import annotations

from typing import Any

from benchmarks.solve import solve

PRESETS = ("lander-nevergrad", "lander-ga")
SEEDS = 3


def measure() -> list[dict[str, Any]]:
    """One row per preset."""
    return [solve(preset, SEEDS) for preset in PRESETS]
