"""Gymnasium: any registered id, or a user's own environment class, stepped one after the other in this process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rookery.envs.batch import BatchedEnv, Ids, Step
from rookery.envs.spec import Env, Spaces
from rookery.envs.view import View, action_space
from rookery.errors import RookeryError, UserError, did_you_mean

Maker = Callable[..., Any]
Outcome = tuple[Any, float, bool, bool]  # observation, reward, terminated, truncated


def known_ids() -> frozenset[str]:
    """Every id in Gymnasium's registry."""
    return frozenset(str(name) for name in gymnasium.registry)


class GymnasiumArena:
    """Gymnasium seeds at reset, so instances are used again from batch to batch."""

    def __init__(self, spec: Env, info: str | None = None) -> None:
        self.spec = spec
        self.info = info
        self.make, self.registered = _maker(spec)
        probe = self._instance()
        self.view = View(spec, probe.observation_space)
        self.raw_actions = probe.action_space
        self.spaces = Spaces(self.view.observation, action_space(spec, probe.action_space))
        self.idle = [probe]

    def _instance(self, **options: Any) -> Any:
        limit = None if self.spec.max_steps is None else self.spec.max_steps * self.spec.action_repeat
        if limit is not None and self.registered:
            options["max_episode_steps"] = limit  # in place of the registered limit, which may be shorter
        try:
            env = self.make(**self.spec.options, **options)
        except Exception as error:
            raise UserError(f"cannot make {self.spec.name}: {type(error).__name__}: {_line(error)}") from error
        if limit is not None and not self.registered:
            env = gymnasium.wrappers.TimeLimit(env, limit)
        return env

    def batch(self, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv:
        del threads  # Python environments share one interpreter
        if render:
            instances = [self._instance(render_mode="rgb_array") for _ in seeds]
            return GymnasiumBatch(instances, seeds, self.view, self.raw_actions, None, self.info)
        while len(self.idle) < len(seeds):
            self.idle.append(self._instance())
        taken, self.idle = self.idle[: len(seeds)], self.idle[len(seeds) :]
        return GymnasiumBatch(taken, seeds, self.view, self.raw_actions, self.idle, self.info)

    def close(self) -> None:
        for env in self.idle:
            env.close()
        self.idle = []


class GymnasiumBatch:
    """Instances with their seeds. One that raises is reported as failed and the others go on."""

    def __init__(
        self,
        instances: list[Any],
        seeds: Sequence[int],
        view: View,
        space: Any,
        give_back: list[Any] | None,
        info: str | None = None,
    ) -> None:
        self.instances = instances
        self.seeds = list(seeds)
        self.shown = instances[0].observation_space
        self.view = view
        self.space = space
        self.give_back = give_back
        self.info = info
        self.told: dict[int, NDArray[Any]] = {}  # the field of the info, by environment
        self.sent: tuple[NDArray[Any] | None, Ids] | None = None
        self.last: dict[int, Any] = {}
        self.broken: set[int] = set()
        self.unseeded = set(range(len(instances)))
        self.ended: set[int] = set()  # whose next step starts an episode

    def reset(self) -> None:
        self.sent = None, np.arange(len(self.instances), dtype=np.int32)

    def _reset(self, env: int) -> Outcome:
        """Start an episode: the first from the seed, others from the random state that the last one left."""
        observation, _ = self.instances[env].reset(seed=self.seeds[env] if env in self.unseeded else None)
        _check(self.shown, observation)
        self.unseeded.discard(env)
        self.told.pop(env, None)
        return observation, 0.0, False, False

    def send(self, actions: NDArray[Any], ids: Ids) -> None:
        self.sent = actions, ids

    def receive(self) -> Step:
        if self.sent is None:
            raise RuntimeError("receive without reset or send")
        (actions, ids), self.sent = self.sent, None
        if actions is None:
            return self._collect(ids, [self._try(i, self._reset) for i in ids.tolist()])
        rows = zip(ids.tolist(), actions, strict=True)
        return self._collect(ids, [self._try(i, self._step, action) for i, action in rows])

    def _step(self, env: int, action: NDArray[Any]) -> Outcome:
        if env in self.ended:
            return self._reset(env)
        observation, reward, terminated, truncated, info = self.instances[env].step(_native(self.space, action))
        _check(self.shown, observation)
        if self.info is not None:
            if self.info not in info:
                raise KeyError(f"the info has no '{self.info}'; it has: {', '.join(map(str, info)) or 'nothing'}")
            self.told[env] = np.asarray(info[self.info])
        return observation, float(reward), bool(terminated), bool(truncated)

    def _try(self, env: int, call: Callable[..., Outcome], *arguments: Any) -> Outcome | str:
        try:
            result = call(env, *arguments)
        except Exception as error:  # noqa: BLE001  (a user's environment may raise anything)
            self.broken.add(env)
            self.ended.add(env)
            return f"{type(error).__name__}: {_line(error)}"
        self.last[env], _, terminated, truncated = result
        (self.ended.add if terminated or truncated else self.ended.discard)(env)
        return result

    def _collect(self, ids: Ids, outcomes: list[Outcome | str]) -> Step:
        failures = {i: text for i, text in zip(ids.tolist(), outcomes, strict=True) if isinstance(text, str)}
        blank = (self._blank(), 0.0, False, False)
        rows = [blank if isinstance(outcome, str) else outcome for outcome in outcomes]
        observations, rewards, terminated, truncated = zip(*rows, strict=True)
        return Step(
            ids,
            self.view(_stack(observations)),
            np.asarray(rewards, np.float32),
            np.asarray(terminated),
            np.asarray(truncated) & ~np.asarray(terminated),
            failures,
            self._told(ids),
        )

    def _told(self, ids: Ids) -> NDArray[Any] | None:
        """The field of the info, a row for each; zeros where an environment failed."""
        if not self.told:
            return None
        blank = np.zeros_like(next(iter(self.told.values())))
        return np.stack([self.told.get(env, blank) for env in ids.tolist()])

    def _blank(self) -> Any:
        """Stands in for the observation of an environment that failed; nobody looks at it."""
        for seen in self.last.values():
            return seen
        return self.instances[0].observation_space.sample()

    def render(self, env: int) -> NDArray[np.uint8]:
        try:
            frame = self.instances[env].render()
        except Exception as error:
            raise UserError(f"this environment cannot be drawn: {type(error).__name__}: {_line(error)}") from error
        if frame is None:
            raise UserError("this environment cannot be drawn: its render() returned nothing for rgb_array")
        return np.asarray(frame, np.uint8)

    def close(self) -> None:
        for index, env in enumerate(self.instances):
            if self.give_back is not None and index not in self.broken:
                self.give_back.append(env)
            else:
                env.close()


def _maker(spec: Env) -> tuple[Maker, bool]:
    """How to make it, and whether Gymnasium's registry does so."""
    if ":" in spec.name:
        return _imported(spec.name)
    if spec.name not in gymnasium.registry:
        raise UserError(f"unknown environment '{spec.name}'.{did_you_mean(spec.name, known_ids())}")
    return lambda **options: gymnasium.make(spec.name, **options), True


def _imported(path: str) -> tuple[Maker, bool]:
    """The environment class behind `module:Class`, or the id that `module` registers."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # a command is not started with the working directory on the path
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"env.id={path}: cannot import '{module_name}': {error}") from error
    except Exception as error:
        raise RookeryError(f"env.id={path}: importing failed: {type(error).__name__}: {_line(error)}") from error
    found: Any = getattr(module, name, None)
    if found is None and name in gymnasium.registry:
        return lambda **options: gymnasium.make(name, **options), True
    if not callable(found):
        classes = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, gymnasium.Env)]
        hint = did_you_mean(name, classes) or f" It has: {', '.join(classes) or 'no environment class'}."
        raise UserError(f"env.id={path}: module '{module_name}' has no '{name}'.{hint}")
    return found, False


def _check(space: Any, observation: Any) -> None:
    """Raise if an observation is not what its space promised, so far as a batch depends on it."""
    if isinstance(space, gymnasium.spaces.Dict):
        for key, part in space.spaces.items():
            _check(part, observation[key])
    elif isinstance(space, gymnasium.spaces.Discrete):
        if not 0 <= int(observation) - int(space.start) < int(space.n):
            raise ValueError(f"the observation {observation} is not in {space}")
    elif np.shape(observation) != space.shape:
        raise ValueError(f"the observation has shape {np.shape(observation)}, and its space {space.shape}")


def _native(space: Any, action: NDArray[Any]) -> Any:
    """An action as the environment's own space would have it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action) + int(space.start)
    return np.asarray(action, space.dtype).reshape(space.shape)


def _stack(observations: Sequence[Any]) -> Any:
    first = observations[0]
    if isinstance(first, dict):
        return {key: np.stack([observation[key] for observation in observations]) for key in first}
    return np.stack(observations)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
