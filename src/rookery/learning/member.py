"""What members of a population have in common, whatever it is that learns; and how one has fared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Env
from rookery.evolution.strategy import Source
from rookery.genomes import NO_LINEAGE, Lineage
from rookery.policies import Moments, PolicySpec

ENV_GENES = ("env.reward_scale", "env.max_steps", "env.action_repeat")  # which members may differ in


class AnyMember(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One learner. `age` is how many generations it has lived; what is random follows from it."""

    VARIES: ClassVar[tuple[str, ...]] = ()  # settings of its environment that it may have of its own

    id: int
    age: int = 0
    moments: Moments | None = None
    hyperparameters: dict[str, float]
    steps: int = 0
    episodes: int = 0
    lengths: tuple[int, ...] = ()

    def changed(self, values: Mapping[str, float]) -> Self:
        """This member with other hyperparameters."""
        return replace(self, hyperparameters={**self.hyperparameters, **values})


M = TypeVar("M", bound=AnyMember)
S = TypeVar("S")


class Raised(msgspec.Struct, Generic[M], frozen=True, eq=False):
    """A member after some generations, what it earned on the episodes it was measured by, and what that took."""

    member: M
    earned: tuple[float, ...]
    steps: int
    times: dict[str, float]


class Whole(msgspec.Struct, frozen=True):
    """A learner whose agents are whole vectors: they come from no centre and descend from nobody."""

    def centre(self, state: Any) -> NDArray[np.float32]:
        """Nothing is made from a centre."""
        del state
        return np.zeros(0, np.float32)

    def lineage(self, state: Any) -> Lineage:
        del state
        return NO_LINEAGE


class Learner(Source[S], Protocol[S]):
    """What can learn in a population: `nursery` is the class of its workers' actors, `DYNAMIC` what may be genes.

    Its state has a `seed` and `members`, each an `AnyMember` that can `inherit` from another.
    """

    nursery: ClassVar[str]
    DYNAMIC: ClassVar[tuple[str, ...]]
    VARIES: ClassVar[tuple[str, ...]]

    def found(self, env: Env, network: PolicySpec, seed: int, start: Any) -> S: ...

    def settings(self, member: Any) -> dict[str, float]: ...


AnyLearner = Learner[Any]
