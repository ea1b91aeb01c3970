"""Environment steps per second of PPO on BigFish against Stable-Baselines3's, both with the Nature network.

Both step 64 of EnvPool's environments with two threads: what differs is how the network acts and learns.
"""

from __future__ import annotations

from typing import Any

from benchmarks.learners import Setting, beside, changes
from rookery.experiment import load_experiment

PRESET = "bigfish-ppo"
ENVIRONMENTS = 64
SETTING = Setting(ENVIRONMENTS * 256, epochs=3, minibatch=2048)
STEPS = 3 * SETTING.rollout
PEER_STEPS = 2 * SETTING.rollout
ROUNDS = 2


def measure() -> list[dict[str, Any]]:
    """One row."""
    env = load_experiment(PRESET).env.by_id.id
    options = {"env": env, "policy": "CnnPolicy", "envs": ENVIRONMENTS, "steps": PEER_STEPS, **SETTING._asdict()}
    ours = [PRESET, "policy.type=nature", *changes(SETTING, ENVIRONMENTS, STEPS)]
    common = {"env": env, "epochs": SETTING.epochs, "minibatch": SETTING.minibatch}
    return [{**common, **beside("sb3_ppo", options, ours, ROUNDS)}]
