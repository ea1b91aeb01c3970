"""Environment steps per second of PPO, all of a run's loop included, against Stable-Baselines3's `learn`.

Same network (64 x 64 each for actor and critic), rollouts of 4,096 steps, epochs and minibatches. Ours includes
compilation; the peer steps its usual 8 environments itself, which is faster here than in processes of their own.
"""

from __future__ import annotations

from typing import Any

from benchmarks.learners import Setting, beside, changes
from rookery.experiment import load_experiment

ENVIRONMENTS = {"cartpole-ppo": 64, "lander-ppo": 64, "pendulum-ppo": 128, "halfcheetah-ppo": 128}  # ours
SETTINGS = (Setting(4096, epochs=10, minibatch=64), Setting(4096, epochs=6, minibatch=256))
STEPS = 400_000
PEER_STEPS = 40_960
ROUNDS = 2


def measure() -> list[dict[str, Any]]:
    """One row per environment and setting."""
    return [_compare(preset, setting) for preset in ENVIRONMENTS for setting in SETTINGS]


def _compare(preset: str, setting: Setting) -> dict[str, Any]:
    env = load_experiment(preset).env.id
    ours = [preset, "hidden=[64,64]", *changes(setting, ENVIRONMENTS[preset], STEPS)]
    found = beside("sb3_ppo", {"env": env, "steps": PEER_STEPS, **setting._asdict()}, ours, ROUNDS)
    return {"env": env, "epochs": setting.epochs, "minibatch": setting.minibatch, **found}
