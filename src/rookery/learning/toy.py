"""The toy model of population-based training: two numbers climb a slope that hyperparameters bend.

What counts is Q = 1.2 - x0² - x1², and a member cannot see it. It climbs 1.2 - h0 x0² - h1 x1², which leads to
the top only where both h are above zero. A member with one of them at zero is stuck, unless it is one of many.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Env, arena
from rookery.envs.spec import Continuous
from rookery.errors import RookeryError, UserError
from rookery.genomes import Genome, Vector
from rookery.learning.member import AnyMember, Raised, Whole
from rookery.learning.ppo import apply_hyperparameters
from rookery.policies import PolicySpec
from rookery.policies.vector import VectorPolicy
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Candidate, Context, Trial

_AXES = 2


class ToyMember(AnyMember, frozen=True, eq=False, kw_only=True):
    """A point on its way up."""

    parameters: NDArray[np.float32]

    def inherit(self, parent: ToyMember) -> ToyMember:
        """This member where its parent is; its name and its age are its own."""
        return replace(parent, id=self.id, age=self.age, steps=self.steps)


class ToyState(msgspec.Struct, frozen=True, eq=False, tag="toy"):
    """All members."""

    seed: int
    members: tuple[ToyMember, ...]


class Toy(Whole, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="toy"):
    """The toy model of population-based training: points that climb a bent slope."""

    population: Annotated[int, Meta(ge=1, description="points")] = 2
    lr: Annotated[float, Meta(gt=0, description="length of a step, in gradients")] = 0.01
    h0: Annotated[float, Meta(ge=0, description="steepness along the first axis")] = 0.5
    h1: Annotated[float, Meta(ge=0, description="steepness along the second axis")] = 0.5
    start: Annotated[tuple[float, float], Meta(description="where all members begin")] = (0.9, 0.9)

    nursery: ClassVar[str] = "rookery.learning.toy:ToyNursery"
    DYNAMIC: ClassVar[tuple[str, ...]] = ("h0", "h1")
    VARIES: ClassVar[tuple[str, ...]] = ()

    def found(self, env: Env, network: PolicySpec, seed: int, start: Any) -> ToyState:
        """All members where they begin."""
        action = arena(env).spaces.action
        if not isinstance(network, VectorPolicy) or not isinstance(action, Continuous) or len(action.low) != _AXES:
            raise UserError(
                "learner.type=toy is a point in a plane; it needs policy.type=vector and "
                "env.id=synthetic:sphere with options.dimensions=2"
            )
        if start is not None:
            raise UserError("learner.type=toy begins at learner.start, and not with policy.init_from")
        return ToyState(seed, tuple(self._member(number) for number in range(self.population)))

    def _member(self, number: int) -> ToyMember:
        values = {"h0": self.h0, "h1": self.h1}
        return ToyMember(id=number, hyperparameters=values, parameters=np.array(self.start, np.float32))

    def climb(self, member: ToyMember, steps: int = 1) -> ToyMember:
        """A member after so many steps along the gradient that it sees."""
        bends = np.array([self.settings(member)[name] for name in self.DYNAMIC], np.float32)
        point = member.parameters
        for _ in range(steps):
            point = point - np.float32(self.lr) * 2 * bends * point
        return replace(member, parameters=point, age=member.age + steps, steps=member.steps + steps)

    def settings(self, member: ToyMember) -> dict[str, float]:
        """The hyperparameters that a member's next step uses."""
        return dict(member.hyperparameters)

    def champion(self, state: ToyState) -> Genome:
        """The first member's point."""
        return Vector(state.members[0].parameters)

    def telemetry(self, state: ToyState) -> dict[str, float]:
        """Where the members are, on average."""
        points = np.mean([member.parameters for member in state.members], axis=0)
        return {f"x{axis}": float(value) for axis, value in enumerate(points)}


class ToyNursery(Evaluator):
    """Points live here between calls."""

    def __init__(
        self, env: Env, network: PolicySpec, threads: int, unseen: Env | None, learner: Toy, seed: int
    ) -> None:
        super().__init__(env, network, threads, unseen=unseen)
        self.learner, self.seed = learner, seed
        self.members: dict[int, ToyMember] = {}

    def adopt(self, members: Sequence[ToyMember]) -> None:
        """Have these members live here, in place of those of the same names."""
        self.members |= {member.id: member for member in members}

    def rear(self, ids: Sequence[int], generations: int, seeds: Sequence[int]) -> list[Raised[ToyMember]]:
        """These members after some steps, measured on episodes of these seeds."""
        return [self._raised(self.members[number], generations, seeds) for number in ids]

    def give(self, member: int) -> ToyMember:
        """A member, for another one to inherit from."""
        return self.members[member]

    def take(self, member: int, parent: ToyMember) -> None:
        """Let a member inherit from another."""
        self.members[member] = self.members[member].inherit(parent)

    def tune(self, member: int, values: Mapping[str, float]) -> dict[str, float]:
        """Change a member's hyperparameters; what comes back is what its next step will use."""
        self.members[member] = apply_hyperparameters(self.members[member], values)
        return self.learner.settings(self.members[member])

    def _raised(self, member: ToyMember, steps: int, seeds: Sequence[int]) -> Raised[ToyMember]:
        began = time.perf_counter()
        member = self.members[member.id] = self.learner.climb(member, steps)
        climbed = time.perf_counter()
        trial = Trial(Candidate(member.id, Vector(member.parameters)), tuple(seeds), unseen=bool(self.unseen))
        (result,) = self.evaluate(Context(np.zeros(0, np.float32)), [trial])
        if result.error:
            raise RookeryError(result.error)
        times = {"act": 0.0, "environment": 0.0, "update": climbed - began}
        return Raised(
            member=member,
            earned=tuple(earned / self.env.reward_scale for earned in result.returns),
            steps=steps,
            times=times | {"measure": time.perf_counter() - climbed},
        )
