"""EnvPool's Procgen as a vector environment of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from rookery.envs.envpool import library


class ProcgenEnvs(VecEnv):
    """A pool that begins an episode anew as soon as one ends, which Stable-Baselines3 expects."""

    def __init__(self, env: str, envs: int, threads: int, seed: int) -> None:
        seeds = list(range(seed, seed + envs))
        self.pool = library().make(env, "gymnasium", num_envs=envs, num_threads=threads, seed=seeds)
        super().__init__(envs, self.pool.observation_space, self.pool.action_space)

    def reset(self) -> VecEnvObs:
        frames: NDArray[np.uint8] = self.pool.reset()[0]
        return frames

    def step_async(self, actions: NDArray[Any]) -> None:
        self.pool.send(actions.astype(np.int32), self.pool.all_env_ids)

    def step_wait(self) -> VecEnvStepReturn:
        frames, rewards, terminated, truncated, _ = self.pool.recv()
        ended = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            ids = np.flatnonzero(ended).astype(np.int32)
            for index in ids:
                infos[index] = {"terminal_observation": frames[index], "TimeLimit.truncated": truncated[index]}
            fresh, info = self.pool.reset(ids)
            frames = frames.copy()
            frames[info["env_id"]] = fresh
        return frames, rewards, ended, infos

    def close(self) -> None:
        self.pool.close()

    def get_attr(self, *_: Any, **_named: Any) -> list[Any]:
        """What Stable-Baselines3 asks for is how an environment renders: not at all."""
        return [None] * self.num_envs

    def set_attr(self, name: str, *_: Any, **_named: Any) -> None:
        raise AttributeError(f"an environment in a pool has no attribute {name}")

    def env_method(self, name: str, *_: Any, **_named: Any) -> list[Any]:
        raise AttributeError(f"an environment in a pool has no method {name}")

    def env_is_wrapped(self, *_: Any, **_named: Any) -> list[bool]:
        return [False] * self.num_envs
