"""What population-based training has to know of a member, whatever learns in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

M = TypeVar("M")


class Living(Protocol):
    """A member of any learner, complete, so that it can go on elsewhere."""

    @property
    def id(self) -> int: ...

    @property
    def age(self) -> int: ...

    @property
    def steps(self) -> int: ...

    @property
    def episodes(self) -> int: ...

    @property
    def lengths(self) -> tuple[int, ...]: ...

    @property
    def hyperparameters(self) -> dict[str, float]: ...

    def inherit(self, parent: Any) -> Any: ...

    def tuned(self, values: Mapping[str, float]) -> Any: ...


class Learner(Protocol):
    """What makes members learn, as far as it can be asked about one: what its next update uses."""

    def settings(self, member: Any) -> dict[str, float]: ...


class Raised(msgspec.Struct, Generic[M], frozen=True, eq=False):
    """A member after some generations, what it earned on the episodes it was measured by, and what that took."""

    member: M
    earned: tuple[float, ...]
    steps: int
    measured: int
    times: dict[str, float]
