"""Environment steps per second of PPO against RLlib's with two runners of 8 environments.

Ours has its own best number of environments and includes compilation; the peer's rate leaves out its start and its
first iteration.
"""

from __future__ import annotations

from typing import Any

from benchmarks.learners import Setting, beside, changes
from benchmarks.ppo import ENVIRONMENTS
from rookery.experiment import load_experiment

PRESETS = ("pendulum-ppo", "cartpole-ppo")
SETTING = Setting(4096, epochs=6, minibatch=256)
STEPS = 400_000
PEER_STEPS = 40_960
ROUNDS = 2


def measure() -> list[dict[str, Any]]:
    """One row per environment."""
    return [_compare(preset) for preset in PRESETS]


def _compare(preset: str) -> dict[str, Any]:
    env = load_experiment(preset).env.id
    ours = [preset, "hidden=[64,64]", *changes(SETTING, ENVIRONMENTS[preset], STEPS)]
    found = beside("rllib_ppo", {"env": env, "steps": PEER_STEPS, **SETTING._asdict()}, ours, ROUNDS)
    return {"env": env, **found}
