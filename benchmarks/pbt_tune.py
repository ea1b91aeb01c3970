"""Wall time of population-based training, against Ray Tune's over Stable-Baselines3's PPO.

Eight members on CartPole: the same steps, epochs, minibatches and occasions to be replaced for both. Ours is the
whole command from a cold process, imports and compilation included; the peer's time begins after its imports.
"""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

from benchmarks.commands import peer, rookery

MEMBERS, SELECTIONS, ROLLOUT = 8, 4, 4096
RANGES = ("lr={low: 1e-4, high: 1e-2, scale: log}", "gamma={low: 0.95, high: 0.999}", "entropy=0")


class Setting(NamedTuple):
    """Epochs and minibatch of an update, and steps of each member."""

    epochs: int
    minibatch: int
    steps: int


SETTINGS = (Setting(10, 64, 102_400), Setting(6, 256, 40_960))  # the first has the peer's defaults


def measure() -> list[dict[str, Any]]:
    """One row per setting."""
    return [_compare(setting) for setting in SETTINGS]


def _compare(setting: Setting) -> dict[str, Any]:
    ours, theirs = _ours(setting), _peer(setting)
    return {
        "epochs": setting.epochs,
        "minibatch": setting.minibatch,
        "members": MEMBERS,
        "steps_of_each": setting.steps,
        "selections": SELECTIONS,
        "rookery_seconds": round(ours, 1),
        "ray_tune_seconds": round(theirs, 1),
        "ratio": round(theirs / ours, 1),
    }


def _ours(setting: Setting) -> float:
    limits = ["stop.score=null", f"stop.steps={MEMBERS * setting.steps}"]
    unseen = ["validate_every=0", "validation_episodes=2"]
    learner = ["envs=64", f"rollout={ROLLOUT // 64}", f"epochs={setting.epochs}", f"minibatch={setting.minibatch}"]
    often = [f"population={MEMBERS}", f"interval={setting.steps // (ROLLOUT * (SELECTIONS + 1))}"]
    with tempfile.TemporaryDirectory() as runs:
        what = ["cartpole-pbt", *often, *learner, *RANGES, *limits, *unseen]
        return rookery("run", *what, "--runs", runs, "--quiet")[1]


def _peer(setting: Setting) -> float:
    found = peer("ray_pbt", members=MEMBERS, exploits=SELECTIONS, rollout=ROLLOUT, **setting._asdict())
    return float(found["seconds"])
