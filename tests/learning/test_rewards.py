"""Rewards over the spread of the discounted return, whatever their scale."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.learning.rewards import RewardMoments

GAMMA = 0.9


def rollouts(scale: float = 1.0) -> list[tuple[NDArray[np.float32], NDArray[np.bool_]]]:
    """Rewards (steps, envs) and where episodes were over, for three rollouts that follow each other."""
    rng = np.random.default_rng(1)
    over = rng.random((31, 3)) < 0.2
    rewards = np.where(over[:-1], 0.0, scale * rng.normal(1.0, 2.0, (30, 3))).astype(np.float32)
    return [(rewards[at : at + 10], over[at : at + 11]) for at in (0, 10, 20)]


def test_the_spread_is_that_of_all_returns_so_far() -> None:
    moments, returns, running = RewardMoments.empty(3), [], np.zeros(3)
    for rewards, over in rollouts():
        moments, scaled = moments.normalised(rewards, over, GAMMA)
        for step in range(len(rewards)):
            for env in range(3):
                if over[step, env]:
                    running[env] = 0.0
                    continue
                running[env] = GAMMA * running[env] + rewards[step, env]
                returns.append(running[env])
        np.testing.assert_allclose(scaled, np.clip(rewards / np.std(returns), -10, 10), rtol=1e-5)
    assert moments.count == len(returns)
    assert moments.mean == pytest.approx(np.mean(returns))
    np.testing.assert_allclose(moments.running, running)


def test_the_scale_of_rewards_does_not_matter() -> None:
    small, large = RewardMoments.empty(3), RewardMoments.empty(3)
    for (rewards, over), (greater, _) in zip(rollouts(), rollouts(1e6), strict=True):
        small, one = small.normalised(rewards, over, GAMMA)
        large, other = large.normalised(greater, over, GAMMA)
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_an_episode_ends_its_return_also_in_a_rollout_of_nothing_else() -> None:
    moments, _ = RewardMoments.empty(1).normalised(np.ones((5, 1), np.float32), np.zeros((6, 1), np.bool_), GAMMA)
    assert moments.running[0] > 1
    over = np.array([[True], [False]])
    after, scaled = moments.normalised(np.zeros((1, 1), np.float32), over, GAMMA)
    assert (after.running[0], scaled[0, 0]) == (0, 0)
    assert after.count == moments.count


def test_rewards_that_are_all_the_same_stay_finite() -> None:
    moments, over = RewardMoments.empty(2), np.zeros((5, 2), np.bool_)
    for reward in (0.0, 1e6):
        _, scaled = moments.normalised(np.full((4, 2), reward, np.float32), over, 0.0)
        assert np.isfinite(scaled).all()
        assert np.abs(scaled).max() <= 10
