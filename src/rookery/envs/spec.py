"""What an environment is: its description in an experiment, and the spaces that policies are built for."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray


class Env(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which environment, and how it is shown to the agent."""

    id: Annotated[str, Meta(description="an EnvPool or Gymnasium id, synthetic:NAME, or my_package.module:Class")]
    max_steps: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="agent steps after which an episode is truncated; null = as registered"),
    ] = None
    action_repeat: Annotated[int, Meta(ge=1, description="each action is applied this many times")] = 1
    reward_scale: Annotated[
        float, Meta(gt=0, description="training sees rewards times this; reported scores never do")
    ] = 1.0
    hide: Annotated[
        tuple[int, ...], Meta(description="indices of the observation that the agent does not see")
    ] = ()
    flatten: Annotated[bool, Meta(description="join a dictionary observation, in key order, into one vector")] = (
        False
    )
    backend: Annotated[
        Literal["auto", "envpool", "gymnasium"], Meta(description="auto = EnvPool where it has the id")
    ] = "auto"
    options: Annotated[dict[str, Any], Meta(description="further keyword arguments of the environment")] = (
        msgspec.field(default_factory=dict)
    )


class Observation(msgspec.Struct, frozen=True):
    """Shape and dtype of one agent's observation."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_image(self) -> bool:
        return (len(self.shape) >= 2 and self.dtype == "uint8") or len(self.shape) >= 3


class Discrete(msgspec.Struct, frozen=True, tag=True):
    """One choice per entry of `choices`; a plain discrete space has one entry and scalar actions."""

    choices: tuple[int, ...]
    scalar: bool = True


class Continuous(msgspec.Struct, frozen=True, tag=True):
    """A vector between two bounds; a bound may be infinite."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)


Action = Discrete | Continuous


class Spaces(msgspec.Struct, frozen=True):
    """What goes into a policy and what comes out of it."""

    observation: Observation
    action: Action
