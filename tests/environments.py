"""Environments as a user may write them: spaces of every kind, and some that fail."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Start = tuple[Any, dict[str, Any]]
Outcome = tuple[Any, float, bool, bool, dict[str, Any]]


class Maze(gymnasium.Env[Any, Any]):
    """A corridor whose cells count from 10 and whose moves count from 3; its far end is the exit."""

    def __init__(self, length: int = 12) -> None:
        self.length = length
        self.observation_space = spaces.Discrete(length, start=10)
        self.action_space = spaces.Discrete(2, start=3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(1, self.length - 2))
        return self.cell + 10, {}

    def step(self, action: int) -> Outcome:
        assert action in (3, 4), f"no such move: {action}"
        self.cell = min(max(self.cell + (1 if action == 4 else -1), 0), self.length - 1)
        return self.cell + 10, -1.0, self.cell == self.length - 1, False, {}


class Snow(gymnasium.Env[Any, Any]):
    """Pictures of noise, whose brightness the actions move; it pays for what was chosen among three."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (2, 36, 40), np.uint8)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.level, self.clock = 128, 0
        return self._show(), {}

    def step(self, action: int) -> Outcome:
        self.level, self.clock = 40 + (3 * self.level + 50 * int(action)) % 200, self.clock + 1
        over = self.clock >= 6 or self.level > 200
        return self._show(), float(action) + self.level / 100, over, False, {}

    def _show(self) -> NDArray[np.uint8]:
        return self.np_random.integers(0, self.level, (2, 36, 40), dtype=np.uint8)


class Tripwire(Maze):
    """A corridor whose process gets a signal in the middle of the step that TRIPWIRE=step:signal names."""

    steps = 0  # of all corridors in this process

    def step(self, action: int) -> Outcome:
        Tripwire.steps += 1
        step, _, number = os.environ.get("TRIPWIRE", "0:0").partition(":")
        if Tripwire.steps == int(step):
            os.kill(os.getpid(), int(number))
        return super().step(action)


class Levers(gymnasium.Env[Any, Any]):
    """Three levers with 2, 3 and 4 positions: a point for each that stands where the lamps say."""

    sizes = (2, 3, 4)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 4.0, (3,), np.float32)
        self.action_space = spaces.MultiDiscrete(self.sizes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action: NDArray[Any]) -> Outcome:
        assert self.action_space.contains(action), f"no such position: {action}"
        right = float((action == self.lamps).sum())
        return self._show(), right, False, False, {}

    def _show(self) -> NDArray[np.float32]:
        self.lamps = self.np_random.integers(self.sizes)
        return self.lamps.astype(np.float32)


class Rooms(gymnasium.Env[Any, Any]):
    """A dictionary observation, and a continuous action with bounds that are not symmetric."""

    def __init__(self) -> None:
        position = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.observation_space = spaces.Dict({"position": position, "room": spaces.Discrete(3)})
        self.action_space = spaces.Box(np.array([-1.0, 0.1]), np.array([1.0, 1.0]), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.position = self.np_random.normal(size=2)
        return self._show(), {}

    def step(self, action: NDArray[Any]) -> Outcome:
        assert self.action_space.contains(action), f"out of bounds: {action}"
        self.position = self.position + action
        return self._show(), -float(np.abs(self.position).sum()), False, False, {}

    def _show(self) -> dict[str, Any]:
        return {"position": self.position, "room": int(abs(self.position[0])) % 3}


class Echo(gymnasium.Env[Any, Any]):
    """Shows numbers at first and nothing afterwards, and pays what it is told: it makes memory visible."""

    def __init__(self, steps: int = 6) -> None:
        self.steps = steps
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.clock = 0
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action: NDArray[Any]) -> Outcome:
        self.clock += 1
        return np.zeros(2, np.float32), float(action[0]), self.clock == self.steps, False, {}


class Faulty(gymnasium.Env[Any, Any]):
    """Fails as `fault` says, at step `at` (0 is the reset), where the seed is a multiple of `every`."""

    def __init__(self, fault: str = "raise", at: int = 2, every: int = 2) -> None:
        self.fault, self.at, self.every = fault, at, every
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.clock, self.bad = 0, seed is not None and seed % self.every == 0
        return self._show(), {}

    def step(self, action: int) -> Outcome:
        self.clock += 1
        reward = float("nan") if self.fault == "reward" and self._now() else float(action)
        return self._show(), reward, self.clock == 8, False, {}

    def _now(self) -> bool:
        return self.bad and self.clock == self.at

    def _show(self) -> NDArray[np.float32]:
        seen = self.np_random.normal(size=3).astype(np.float32)
        if not self._now():
            return seen
        match self.fault:
            case "raise":
                raise RuntimeError("the wheel\ncame off")
            case "observation":
                seen[1] = np.nan
            case "infinite":
                seen[:2] = np.inf, -np.inf
            case "shape":
                return seen[:2]
        return seen


class Trap(gymnasium.Env[Any, Any]):
    """A point in a U of walls that is closed towards the goal: the way there begins with going away from it."""

    walls = ((-0.9, 0.9, 0.7, 1.0), (-0.9, -0.6, -0.2, 1.0), (0.6, 0.9, -0.2, 1.0))  # from x to x, from y to y
    goal = np.array([0.0, 3.0])

    def __init__(self, steps: int = 50) -> None:
        self.steps = steps
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Start:
        super().reset(seed=seed)
        self.clock, self.position = 0, np.zeros(2)
        return self._show(), {"position": self.position}

    def step(self, action: NDArray[Any]) -> Outcome:
        self.clock += 1
        for axis in (0, 1):
            moved = self.position.copy()
            moved[axis] += 0.2 * float(action[axis])
            if not any(w <= moved[0] <= e and s <= moved[1] <= n for w, e, s, n in self.walls):
                self.position = moved
        over = self.clock == self.steps
        reward = -float(np.linalg.norm(self.position - self.goal)) if over else 0.0
        return self._show(), reward, over, False, {"position": self.position}

    def _show(self) -> NDArray[np.float32]:
        return np.array([*self.position, 2 * self.clock / self.steps - 1], np.float32)
