"""Wall time of PPO with eight members over that with one, at equal steps for each member.

The seconds are those of a run's loop, compilation included; eight runs in turn would take eight times one.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.commands import looped

STEPS = {"cartpole-ppo": 100_000, "lander-ppo": 200_000}  # of each member
MEMBERS = 8
ROUNDS = 3


def measure() -> list[dict[str, Any]]:
    """One row per preset; one member and eight take turns."""
    return [_compare(preset, steps) for preset, steps in STEPS.items()]


def _compare(preset: str, steps: int) -> dict[str, Any]:
    pairs = [(_seconds(preset, steps, 1), _seconds(preset, steps, MEMBERS)) for _ in range(ROUNDS)]
    return {
        "preset": preset,
        "steps_of_each": steps,
        "members": MEMBERS,
        "alone_seconds": round(statistics.median(alone for alone, _ in pairs), 1),
        "together_seconds": round(statistics.median(together for _, together in pairs), 1),
        "ratio": round(statistics.median(together / alone for alone, together in pairs), 2),
    }


def _seconds(preset: str, steps: int, members: int) -> float:
    """A limit of steps counts those of all members."""
    return looped(preset, f"population={members}", f"stop.steps={steps * members}").seconds
