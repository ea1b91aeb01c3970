"""Wall time of population-based training, against Ray Tune's over Stable-Baselines3's PPO, from cold processes.

Eight members on CartPole, the same steps, epochs, minibatches and occasions to be replaced for both.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from benchmarks.commands import peer, rookery

MEMBERS, STEPS, INTERVALS = 8, 40_960, 5
ROUNDS = 2
RANGES = ("lr={low: 1e-4, high: 1e-2, scale: log}", "gamma={low: 0.95, high: 0.999}")
LEARNER = ("entropy=0", "envs=64", "rollout=64", "epochs=6", "minibatch=256")


def measure() -> list[dict[str, Any]]:
    """One row; ours and the peer take turns."""
    pairs = [(_ours(), _peer()) for _ in range(ROUNDS)]
    return [
        {
            "members": MEMBERS,
            "steps_of_each": STEPS,
            "selections": INTERVALS - 1,
            "rookery_seconds": round(statistics.median(ours for ours, _ in pairs), 1),
            "ray_tune_seconds": round(statistics.median(theirs for _, theirs in pairs), 1),
            "ratio": round(statistics.median(theirs / ours for ours, theirs in pairs), 1),
        }
    ]


def _ours() -> float:
    """All of the command, imports and compilation included."""
    limits = [f"stop.steps={MEMBERS * STEPS}", "stop.score=null", "validate_every=0", "validation_episodes=2"]
    interval = STEPS // (64 * 64 * INTERVALS)
    with tempfile.TemporaryDirectory() as runs:
        what = ["cartpole-pbt", f"population={MEMBERS}", f"interval={interval}", *LEARNER, *RANGES, *limits]
        return rookery("run", *what, "--runs", runs, "--quiet")[1]


def _peer() -> float:
    found = peer("ray_pbt", members=MEMBERS, steps=STEPS, exploits=INTERVALS - 1)
    return float(found["seconds"])
