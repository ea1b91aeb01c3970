"""What an environment is: its description in an experiment, and the spaces that policies are built for."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs.procgen import Procgen


class Env(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which environment, and how it is shown to the agent."""

    id: Annotated[
        str | None,
        Meta(
            description="an EnvPool or Gymnasium id, synthetic:NAME, or my_package.module:Class; "
            "null where env.procgen says it"
        ),
    ] = None
    procgen: Annotated[Procgen | None, Meta(description="a game of Procgen, in place of an id")] = None
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

    def __post_init__(self) -> None:
        if self.procgen is None:
            if self.id is None:
                raise ValueError(
                    "id is missing: an EnvPool or Gymnasium id, synthetic:NAME, or my_package.module:Class; "
                    "or procgen.game, a game of Procgen"
                )
            return
        if self.id is not None:
            raise ValueError(
                f"id={self.id} and procgen.game={self.procgen.game} are two environments: "
                "env.id=null takes the first away, env.procgen=null the second"
            )
        if self.backend == "gymnasium":
            raise ValueError("only EnvPool has Procgen's games, and backend is gymnasium")
        for name in ("env_name", "distribution_mode", "start_level", "num_levels"):
            if name in self.options:
                raise ValueError(
                    f"options.{name} is for env.procgen to say: game, distribution, start_level, num_levels"
                )

    @property
    def name(self) -> str:
        """What it is called on screens."""
        return self.procgen.name if self.procgen else str(self.id)

    @property
    def by_id(self) -> Env:
        """The same environment as one with an id, which is what backends know."""
        if self.procgen is None:
            return self
        return replace(self, id=self.procgen.id, procgen=None, options={**self.options, **self.procgen.options})

    def unseen(self, changes: Mapping[str, Any] | None) -> Env | None:
        """What training never shows: this with other options; for None, the levels of a game beyond its own."""
        if changes is None:
            beyond = self.procgen.beyond if self.procgen else None
            return replace(self, procgen=beyond) if beyond else None
        if not changes:
            return None
        part, options = self.procgen, dict(changes)
        if part is not None:
            own = {name: options.pop(name) for name in part.__struct_fields__ if name in options}
            try:
                part = msgspec.convert({**msgspec.to_builtins(part), **own}, Procgen)
            except msgspec.ValidationError as error:
                raise ValueError(f"{own}: {error}") from None
        return replace(self, procgen=part, options={**self.options, **options})


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
