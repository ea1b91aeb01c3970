"""Reward normalisation: rewards over the running standard deviation of the discounted return."""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

_CLIP = 10.0  # normalised rewards stay within +- this


class RewardMoments(msgspec.Struct, frozen=True, eq=False):
    """Count, mean and squared deviations of discounted returns, and the return so far of each environment."""

    count: float
    mean: float
    deviations: float
    running: NDArray[np.float64]

    @classmethod
    def empty(cls, envs: int) -> RewardMoments:
        return cls(0.0, 0.0, 0.0, np.zeros(envs))

    def interrupted(self) -> RewardMoments:
        """The same with environments that begin again."""
        return replace(self, running=np.zeros_like(self.running))

    def normalised(
        self, rewards: NDArray[np.float32], over: NDArray[np.bool_], gamma: float
    ) -> tuple[RewardMoments, NDArray[np.float32]]:
        """The moments with a rollout (steps, envs) added, and its rewards by them; `over` as in a trajectory."""
        running = self.running.copy()
        returns = np.empty(rewards.shape)
        for step, reward in enumerate(rewards):
            running *= gamma
            running[over[step]] = 0.0
            running += reward
            returns[step] = running
        counted = returns[~over[:-1]]
        new = replace(self, running=running)
        if counted.size:
            mean, count = float(counted.mean()), self.count + counted.size
            apart = mean - self.mean
            spread = float(((counted - mean) ** 2).sum()) + apart**2 * self.count * counted.size / count
            new = RewardMoments(count, self.mean + apart * counted.size / count, self.deviations + spread, running)
        std = np.sqrt(new.deviations / max(new.count, 1.0)) + 1e-8
        return new, np.clip(rewards / std, -_CLIP, _CLIP).astype(np.float32)
