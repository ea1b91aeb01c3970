"""Environments as Stable-Baselines3 steps them: all at once, and an episode that ends is followed by the next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from rookery.envs import Arena, BatchedEnv, Continuous, Discrete, Observation, Spaces, Step
from rookery.errors import RookeryError


class Worlds(VecEnv):
    """The environments of one member. `begin` names those that the next reset makes."""

    def __init__(self, arena: Arena, count: int, threads: int) -> None:
        super().__init__(count, _observations(arena.spaces.observation), _actions(arena.spaces))
        self.arena, self.threads = arena, threads
        self.seeds: Sequence[int] = range(count)
        self.batch: BatchedEnv | None = None
        self.sent: NDArray[Any] = np.zeros(0)
        self.begin(arena, self.seeds)

    def begin(self, arena: Arena, seeds: Sequence[int]) -> None:
        """Forget the environments that there are; others are made from these seeds."""
        self.end()
        self.arena, self.seeds = arena, seeds
        self.waiting = 0.0
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def reset(self) -> NDArray[Any]:
        self.end()
        self.batch = self.arena.batch(self.seeds, self.threads)
        self.batch.reset()
        self.earned, self.clock = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        step = self._received(self.batch)
        return step.observations

    def step_async(self, actions: NDArray[Any]) -> None:
        assert self.batch is not None
        self.sent = actions
        self.batch.send(actions, np.arange(self.num_envs, dtype=np.int32))

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """What the environments show: the first observation of the next episode where one has ended."""
        assert self.batch is not None
        step = self._received(self.batch)
        over = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self.earned += step.rewards
        self.clock += 1
        if over.any():
            ended = np.flatnonzero(over).astype(np.int32)
            for env in ended.tolist():
                cut = bool(step.truncated[env]) and not step.terminated[env]
                infos[env] = {"terminal_observation": step.observations[env].copy(), "TimeLimit.truncated": cut}
                self.returns.append(float(self.earned[env]))
                self.lengths.append(int(self.clock[env]))
            self.earned[ended], self.clock[ended] = 0.0, 0
            self.batch.send(self.sent[ended], ended)
            step.observations[ended] = self._received(self.batch).observations
        return step.observations, step.rewards, over, infos

    def end(self) -> None:
        """Put away what there is."""
        if self.batch is not None:
            self.batch.close()
            self.batch = None

    def close(self) -> None:
        self.end()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name != "render_mode":
            raise AttributeError(f"these environments have no {attr_name}")
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        del value, indices
        raise AttributeError(f"these environments have no {attr_name}")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        del args, indices, kwargs
        raise AttributeError(f"these environments have no {method_name}")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        del wrapper_class
        return [False for _ in self._get_indices(indices)]

    def _received(self, batch: BatchedEnv) -> Step:
        """A step whose arrays are its own, its rows in the order of the ids; an environment that broke ends it."""
        began = time.perf_counter()
        step = batch.receive()
        self.waiting += time.perf_counter() - began
        if step.failures:
            env, reason = next(iter(step.failures.items()))
            raise RookeryError(f"environment seed {self.seeds[env]}: {reason}")
        order = np.argsort(step.ids)
        shown, rewards, over = step.observations[order], step.rewards[order], step.terminated[order]
        return Step(step.ids[order], shown, rewards, over, step.truncated[order])


def _observations(shown: Observation) -> Any:
    if shown.is_image and shown.dtype == "uint8":
        return spaces.Box(0, 255, shown.shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, shown.shape, np.float32)


def _actions(these: Spaces) -> Any:
    action = these.action
    if isinstance(action, Discrete):
        return spaces.Discrete(action.choices[0]) if action.scalar else spaces.MultiDiscrete(list(action.choices))
    assert isinstance(action, Continuous)
    low, high = action.bounds
    return spaces.Box(low, high, dtype=np.float32)
