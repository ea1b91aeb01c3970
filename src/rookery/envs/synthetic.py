"""Functions with a known best point, as environments of one step: the action is the point, the reward its worth.

The best point of each lies somewhere in the middle of [-2, 2]^n, is the same for everybody, and is worth zero,
unless it is to be in the centre or to have another height.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rookery.envs.batch import BatchedEnv, Ids, Step
from rookery.envs.spec import Continuous, Env, Observation, Spaces
from rookery.errors import UserError, did_you_mean
from rookery.streams import stream

PREFIX = "synthetic:"
_NO_PICTURE = "a synthetic function cannot be drawn; `rookery plot` draws how it was climbed"

Points = NDArray[np.float64]
Values = NDArray[np.float64]


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `env.options` may say about a function."""

    dimensions: Annotated[int, Meta(ge=1, le=1_000_000)] = 10
    noise: Annotated[float, Meta(ge=0)] = 0.0
    centred: bool = False
    height: float = 0.0


def sphere(x: Points) -> Values:
    """A bowl."""
    return _total(np.square(x))


def ellipsoid(x: Points) -> Values:
    """A bowl whose last axis is a thousand times as steep as its first."""
    steepness = 1000 ** np.linspace(0, 1, x.shape[1])
    return _total(np.square(x * steepness))


def rosenbrock(x: Points) -> Values:
    """A bent valley, easy to find and long to follow."""
    x = x + 1
    across, along = x[:, 1:] - np.square(x[:, :-1]), 1 - x[:, :-1]
    return _total(100 * np.square(across) + np.square(along)) if x.shape[1] > 1 else _total(np.square(1 - x))


def rastrigin(x: Points) -> Values:
    """A bowl full of dents, a unit apart."""
    return _total(np.square(x) + 10 * (1 - np.cos(2 * np.pi * x)))


def ackley(x: Points) -> Values:
    """A plain full of dents, with one funnel."""
    size = x.shape[1]
    funnel = 20 * np.exp(-0.2 * np.sqrt(_total(np.square(x)) / size))
    worth: Values = 20 + np.e - funnel - np.exp(_total(np.cos(2 * np.pi * x)) / size)
    return np.clip(worth, 0.0, None)  # rounding would make the best point a little better than it is


def griewank(x: Points) -> Values:
    """A wide bowl whose dents depend on all axes together."""
    waves: Values = np.cos(x / np.sqrt(1 + np.arange(x.shape[1]))).prod(axis=1)
    return _total(np.square(x)) / 4000 - waves + 1


def _total(x: Points) -> Values:
    """The sum over the axes of each point."""
    total: Values = x.sum(axis=1)
    return total


FUNCTIONS: dict[str, Callable[[Points], Values]] = {
    function.__name__: function for function in (ackley, ellipsoid, griewank, rastrigin, rosenbrock, sphere)
}


def known_ids() -> frozenset[str]:
    """Every function, as it is written in env.id."""
    return frozenset(PREFIX + name for name in FUNCTIONS)


class SyntheticArena:
    """One function in so many dimensions."""

    def __init__(self, spec: Env) -> None:
        name = spec.name.removeprefix(PREFIX)
        if name not in FUNCTIONS:
            hint = did_you_mean(spec.name, known_ids()) or f" There are {', '.join(sorted(known_ids()))}."
            raise UserError(f"unknown environment '{spec.name}'.{hint}")
        self.function = FUNCTIONS[name]
        self.options = _options(spec)
        size = self.options.dimensions
        drawn = stream(0, "synthetic best", 0, size).uniform(-2, 2, size)
        self.best = np.zeros(size) if self.options.centred else drawn
        self.spaces = Spaces(Observation((1,)), Continuous((-np.inf,) * size, (np.inf,) * size))

    def batch(self, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv:
        del threads  # one call computes all values
        if render:
            raise UserError(_NO_PICTURE)
        return SyntheticBatch(self, seeds)

    def close(self) -> None:
        """Nothing is kept."""


class SyntheticBatch:
    """Episodes of one step. They show a zero, as there is nothing to see."""

    def __init__(self, arena: SyntheticArena, seeds: Sequence[int]) -> None:
        self.arena = arena
        self.seeds = list(seeds)
        self.episode = np.zeros(len(self.seeds), np.int64)  # how many an environment has finished
        self.over = np.zeros(len(self.seeds), np.bool_)  # its next step starts another one
        self.sent: tuple[NDArray[Any] | None, Ids] | None = None

    def reset(self) -> None:
        self.sent = None, np.arange(len(self.seeds), dtype=np.int32)
        self.over[:] = True

    def send(self, actions: NDArray[Any], ids: Ids) -> None:
        self.sent = actions, ids

    def receive(self) -> Step:
        if self.sent is None:
            raise RuntimeError("receive without reset or send")
        (points, ids), self.sent = self.sent, None
        played, count = ~self.over[ids], len(ids)
        rewards = np.zeros(count, np.float32)
        if points is not None and played.any():
            rewards[played] = self._worth(points[played], ids[played])
        self.over[ids] = played
        self.episode[ids] += played
        return Step(ids, np.zeros((count, 1), np.float32), rewards, played, np.zeros(count, np.bool_))

    def _worth(self, points: NDArray[Any], ids: Ids) -> NDArray[np.float32]:
        shifted = np.ascontiguousarray(points, np.float64).reshape(len(ids), -1) - self.arena.best
        worth = self.arena.options.height - self.arena.function(shifted)
        if noise := self.arena.options.noise:
            worth += noise * np.array([self._draw(env, point) for env, point in zip(ids, points, strict=True)])
        return worth.astype(np.float32)

    def _draw(self, env: int, point: NDArray[Any]) -> float:
        """A number that follows from episode and point: candidates that share a seed do not share their noise."""
        episode, place = int(self.episode[env]), zlib.crc32(point.tobytes())
        return float(stream(self.seeds[env], "synthetic noise", episode, place).standard_normal())

    def render(self, env: int) -> NDArray[np.uint8]:
        del env
        raise UserError(_NO_PICTURE)

    def close(self) -> None:
        """Nothing is kept."""


def _options(spec: Env) -> Options:
    if unknown := [name for name in spec.options if name not in Options.__struct_fields__]:
        hint = (
            did_you_mean(unknown[0], Options.__struct_fields__)
            or f" There are {', '.join(Options.__struct_fields__)}."
        )
        raise UserError(f"env.options: {spec.name} has no option '{unknown[0]}'.{hint}")
    if spec.hide:
        raise UserError(f"env.hide: {spec.name} shows nothing that could be hidden")
    try:
        return msgspec.convert(spec.options, Options)
    except msgspec.ValidationError as error:
        raise UserError(f"env.options of {spec.name}: {' '.join(str(error).split())}") from None
