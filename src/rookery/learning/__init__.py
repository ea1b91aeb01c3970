"""Learners: members that get better by gradients. A new one is named here, once."""

from rookery.learning.ppo import PPO, PPOState

__all__ = ["PPO", "PPOState"]
