"""Steps for learners: environments that go on from rollout to rollout, and what members do in them.

A member's environments belong to it alone. Their seeds, and the noise that its actions are drawn with, follow
from the run's seed, the member and the generation; policies compute in blocks of a fixed size. So a rollout's bits
do not depend on who else trains, or on which worker collects what. Environments cannot be saved, but what was done
in them can: a worker that does not have them makes them again and repeats the actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rookery.envs import Arena, Step
from rookery.errors import RookeryError
from rookery.policies import Moments
from rookery.policies.actor_critic import ActorCritic
from rookery.streams import seeds, stream

_BLOCK = 32  # environments that a policy computes for at once
_HALVES = 2  # of the environments: while one half is simulated, the policy acts for the other

_Part = tuple[int, int, int, int]  # run seed, member, first and last of its environments


class Stint(msgspec.Struct, frozen=True, eq=False):
    """What one member is to do: all that its next rollout depends on.

    `begun` is the generation for which its environments were made, and `rollouts` how many it did in them since
    then; `done` has what was drawn in each, for a worker that has to repeat them. `first` and `last` say which of
    the environments this is about.
    """

    seed: int
    member: int
    generation: int
    steps: int
    envs: int
    first: int
    last: int
    begun: int
    parameters: NDArray[np.float32]
    moments: Moments | None
    rollouts: int = 0
    done: tuple[NDArray[Any], ...] = ()
    carry: tuple[NDArray[np.float32], ...] = ()


class Trajectory(msgspec.Struct, frozen=True, eq=False):
    """What a stint came to. The first axis is time, the second the environments.

    Where `over` is set, the observation is the last one of an episode: the step from there only begins the next.
    `fresh` is set where an observation is the first of its episode. `carry` is what the policy remembered at the
    start and `carried` at the end. `returns` and `lengths` are of the episodes that ended, environment by
    environment.
    """

    observations: NDArray[Any]
    drawn: NDArray[Any]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    over: NDArray[np.bool_]
    fresh: NDArray[np.bool_]
    carry: tuple[NDArray[np.float32], ...]
    carried: tuple[NDArray[np.float32], ...]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    acting: float = 0.0
    waiting: float = 0.0

    @property
    def steps(self) -> int:
        """Steps of environments, without those that only begin an episode."""
        return int(self.over.size - len(self.over[-1]) - self.over[:-1].sum())


def joined(parts: Sequence[Trajectory]) -> Trajectory:
    """The trajectories of a member's environments, part by part, as one."""
    if len(parts) == 1:
        return parts[0]
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts], axis=1)
        for name in ("observations", "drawn", "rewards", "terminated", "over", "fresh")
    }
    return Trajectory(
        **arrays,
        carry=tuple(np.concatenate(each) for each in zip(*(part.carry for part in parts), strict=True)),
        carried=tuple(np.concatenate(each) for each in zip(*(part.carried for part in parts), strict=True)),
        returns=tuple(value for part in parts for value in part.returns),
        lengths=tuple(value for part in parts for value in part.lengths),
        acting=sum(part.acting for part in parts),
        waiting=sum(part.waiting for part in parts),
    )


def block(envs: int) -> int:
    """How many of a member's environments a policy computes for at once."""
    return next(size for size in range(min(_BLOCK, envs), 0, -1) if envs % size == 0)


def shares(envs: int, workers: int) -> list[tuple[int, int]]:
    """A member's environments, first and last of each part, in at most so many parts of whole blocks."""
    blocks = envs // block(envs)
    parts = min(workers, blocks)
    cuts = [round(number * blocks / parts) * block(envs) for number in range(parts + 1)]
    return list(pairwise(cuts))


class Collector:
    """Holds environments and acts in them; a plain object for a worker to hold, or for a learner itself."""

    def __init__(self, arena: Arena, model: ActorCritic, threads: int = 1) -> None:
        self.arena, self.model, self.threads = arena, model, threads
        self.bands: dict[tuple[_Part, ...], _Band] = {}

    def collect(self, stints: Sequence[Stint]) -> list[Trajectory]:
        """A trajectory for each stint; all are equally long and about equally many environments.

        Nothing, where the environments are not here and what was done in them was not sent.
        """
        key = tuple((stint.seed, stint.member, stint.first, stint.last) for stint in stints)
        band = self.bands.get(key)
        if band is None or not band.follows(stints):
            if any(len(stint.done) != stint.rollouts for stint in stints):
                return []
            self._forget(stints)
            band = self.bands[key] = _Band(self, stints)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said by name
            return band.collect(stints)

    def close(self) -> None:
        for band in self.bands.values():
            band.close()

    def _forget(self, stints: Sequence[Stint]) -> None:
        """Close what has these environments, divided as they may no longer be."""
        for key in [key for key in self.bands if any(_overlap(part, stint) for part in key for stint in stints)]:
            self.bands.pop(key).close()


class _Band:
    """The environments of some stints, in halves that take turns."""

    def __init__(self, collector: Collector, stints: Sequence[Stint]) -> None:
        first = stints[0]
        self.size = block(first.envs)
        blocks = (first.last - first.first) // self.size
        cuts = [first.first + self.size * (blocks * half // _HALVES) for half in range(_HALVES + 1)]
        self.halves = [_Half(collector, stints, a, b, self.size) for a, b in pairwise(cuts) if b > a]
        self.begun = tuple(stint.begun for stint in stints)
        self.rollouts = 0
        self._repeat(stints)

    def follows(self, stints: Sequence[Stint]) -> bool:
        """Whether the environments stand where these stints begin."""
        return all(
            (begun, self.rollouts) == (stint.begun, stint.rollouts)
            for begun, stint in zip(self.begun, stints, strict=True)
        )

    def collect(self, stints: Sequence[Stint]) -> list[Trajectory]:
        for half in self.halves:
            half.begin(stints)
        for half in self.halves:
            half.act()
        for number in range(1, stints[0].steps + 1):
            for half in self.halves:
                half.see()
                if number < stints[0].steps:
                    half.act()
        self.rollouts += 1
        parts = [half.finish() for half in self.halves]
        return [joined(each) for each in zip(*parts, strict=True)]

    def close(self) -> None:
        for half in self.halves:
            half.close()

    def _repeat(self, stints: Sequence[Stint]) -> None:
        """Do again what was done in environments that another worker had."""
        for past in zip(*(stint.done for stint in stints), strict=True):
            for now in zip(*past, strict=True):
                for half in self.halves:
                    half.repeat(now)
            self.rollouts += 1


class _Half:
    """A batch of environments: members x blocks x environments of a block, all at the same step of a rollout."""

    def __init__(self, collector: Collector, stints: Sequence[Stint], first: int, last: int, size: int) -> None:
        self.model = collector.model
        self.first, self.last = first, last
        self.lead = (len(stints), (last - first) // size, size)
        self.who = [(stint.member, number) for stint in stints for number in range(first, last)]
        self.seeds = [seed for stint in stints for seed in env_seeds(stint)[first:last]]
        self.batch = collector.arena.batch(self.seeds, collector.threads)
        self.all = np.arange(len(self.seeds), dtype=np.int32)
        self.batch.reset()
        self.over = np.zeros(len(self.seeds), np.bool_)
        self.fresh = np.ones(len(self.seeds), np.bool_)
        self.returns, self.lengths = np.zeros(len(self.seeds)), np.zeros(len(self.seeds), np.int64)
        self.observations = self._checked(self.batch.receive()).observations

    def begin(self, stints: Sequence[Stint]) -> None:
        """Make room for a rollout, and draw the noise that it takes."""
        steps, count = stints[0].steps, len(self.all)
        model, shown = self.model, self.observations
        vectors = np.stack([stint.parameters for stint in stints])
        self.parameters = {name: part[:, None] for name, part in model.space.split(vectors).items()}
        scalings = [model.policy.scaling(stint.moments) for stint in stints]
        self.scaling = None
        if scalings[0] is not None:
            mean, std = (np.stack([getattr(s, name) for s in scalings])[:, None, None] for name in ("mean", "std"))
            self.scaling = msgspec.structs.replace(scalings[0], mean=mean, std=std)
        noises = [action_noise(model, stint)[:, self.first : self.last] for stint in stints]
        self.noise = np.stack(noises, axis=1).reshape(steps, *self.lead, -1)
        own = slice(self.first - stints[0].first, self.last - stints[0].first)
        carries = zip(*(stint.carry for stint in stints), strict=True)
        self.carry = tuple(np.stack([part[own] for part in parts]) for parts in carries)
        self.before = self.carry
        self.carry = tuple(part.reshape(*self.lead, -1) for part in self.carry)
        self.clock = 0
        self.seen = np.empty((steps + 1, count, *shown.shape[1:]), shown.dtype)
        self.drawn = np.empty((steps, count, model.distribution.width), model.distribution.dtype)
        self.rewards = np.empty((steps, count), np.float32)
        self.terminated = np.empty((steps, count), np.bool_)
        self.overs, self.freshes = (np.empty((steps + 1, count), np.bool_) for _ in range(2))
        self.ended: list[tuple[int, float, int]] = []
        self.acting = self.waiting = 0.0
        self._note()

    def act(self) -> None:
        """Choose actions, and set the environments going."""
        began = perf_counter()
        model = self.model
        grid = self.observations.reshape(*self.lead, *self.observations.shape[1:])
        if self.carry and self.fresh.any():
            fresh = self.fresh.reshape(*self.lead, 1)
            self.carry = tuple(np.where(fresh, np.float32(0), part) for part in self.carry)
        outputs, self.carry = model.outputs(self.parameters, model.look(grid, self.scaling), self.carry)
        drawn = model.distribution.draw(self.parameters, outputs, self.noise[self.clock])
        drawn = self.drawn[self.clock] = drawn.reshape(len(self.all), -1)
        self.batch.send(model.distribution.action(drawn), self.all)
        self.clock += 1
        self.acting += perf_counter() - began

    def see(self) -> None:
        """Wait for the environments, and write down what became of them."""
        began = perf_counter()
        step = self._checked(self.batch.receive())
        self.waiting += perf_counter() - began
        self.rewards[self.clock - 1], self.terminated[self.clock - 1] = step.rewards, step.terminated
        self._take(step)
        self._note()

    def repeat(self, drawn: Sequence[NDArray[Any]]) -> None:
        """A step that was taken before, of each member's environments."""
        rows = np.concatenate([each[self.first : self.last] for each in drawn])
        self.batch.send(self.model.distribution.action(rows), self.all)
        self.ended = []
        self._take(self._checked(self.batch.receive()))

    def finish(self) -> list[Trajectory]:
        """What each member did."""
        members, each = self.lead[0], self.last - self.first
        carried = tuple(part.reshape(members, each, -1) for part in self.carry)
        found = []
        episodes = sorted(self.ended, key=lambda episode: episode[0])  # whoever else is in this half
        for member in range(members):
            rows = slice(member * each, (member + 1) * each)
            ended = [(earned, length) for env, earned, length in episodes if rows.start <= env < rows.stop]
            found.append(
                Trajectory(
                    self.seen[:, rows],
                    self.drawn[:, rows],
                    self.rewards[:, rows],
                    self.terminated[:, rows],
                    self.overs[:, rows],
                    self.freshes[:, rows],
                    tuple(part[member] for part in self.before),
                    tuple(part[member] for part in carried),
                    tuple(earned for earned, _ in ended),
                    tuple(length for _, length in ended),
                    self.acting / members,
                    self.waiting / members,
                )
            )
        return found

    def close(self) -> None:
        self.batch.close()

    def _take(self, step: Step) -> None:
        """Go on from what a step has come to."""
        self.returns += step.rewards
        self.lengths += ~self.over
        self.fresh = self.over
        self.over = step.terminated | step.truncated
        self.observations = step.observations
        if self.over.any():
            for env in np.flatnonzero(self.over).tolist():
                self.ended.append((env, float(self.returns[env]), int(self.lengths[env])))
            self.returns[self.over], self.lengths[self.over] = 0.0, 0

    def _note(self) -> None:
        self.seen[self.clock] = self.observations
        self.overs[self.clock], self.freshes[self.clock] = self.over, self.fresh

    def _checked(self, step: Step) -> Step:
        """The step, unless an environment broke in it."""
        for env, reason in step.failures.items():
            raise RookeryError(f"{self._name(env)}: {reason}")
        return step

    def _name(self, env: int) -> str:
        member, number = self.who[env]
        return f"member {member}, environment {number} (seed {self.seeds[env]})"


def _overlap(part: _Part, stint: Stint) -> bool:
    """Whether some of a stint's environments are in a part."""
    seed, member, first, last = part
    return (seed, member) == (stint.seed, stint.member) and first < stint.last and stint.first < last


def env_seeds(stint: Stint) -> tuple[int, ...]:
    """The seeds of all of a member's environments."""
    return seeds(stint.seed, "environments", stint.begun, stint.member, stint.envs)


def action_noise(model: ActorCritic, stint: Stint) -> NDArray[np.float32]:
    """Numbers for every step of a rollout and every environment of a member."""
    rng = stream(stint.seed, "act", stint.generation, stint.member)
    shape = (stint.steps, stint.envs, model.distribution.noise)
    if model.distribution.noise_kind == "normal":
        return rng.standard_normal(shape, np.float32)
    drawn = rng.standard_exponential(shape, np.float32)
    return -np.log(np.maximum(drawn, np.finfo(np.float32).tiny))
