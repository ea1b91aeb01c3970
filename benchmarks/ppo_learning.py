"""Wall time of PPO from a cold process to a solved problem, compilation included: `solve` for its presets."""

from __future__ import annotations

from typing import Any

from benchmarks.solve import solve

SEEDS = {"cartpole-ppo": 5, "lander-ppo": 5, "pendulum-ppo": 3, "halfcheetah-ppo": 1}


def measure() -> list[dict[str, Any]]:
    """One row per preset, over several seeds."""
    return [solve(preset, seeds) for preset, seeds in SEEDS.items()]
