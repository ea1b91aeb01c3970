"""What every backend offers: batches of seeded environments that are stepped by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rookery.envs.spec import Spaces

Ids = NDArray[np.int32]


class Step(NamedTuple):
    """What became of the environments `ids`, one row each. `failures` says which of them raised, and what.

    `info` is a field of the environments' info, where the arena was made to show one; a reset may have none.
    """

    ids: Ids
    observations: NDArray[Any]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    failures: dict[int, str] = {}  # noqa: RUF012  (a default that nobody writes to)
    info: NDArray[Any] | None = None


class BatchedEnv(Protocol):
    """Environments 0..n-1, each made for one seed.

    `reset` starts all their episodes, `send` a step of some of them; `receive` waits for what they show, in the
    order of the ids that were sent.

    A step sent to an environment whose episode has ended, or which has failed, starts its next episode: the action
    is ignored, the reward is 0, nothing is terminated or truncated, and the observation is the episode's first.
    What the episodes of an environment are depends on its seed and its actions alone.
    """

    def reset(self) -> None: ...

    def send(self, actions: NDArray[Any], ids: Ids) -> None: ...

    def receive(self) -> Step: ...

    def render(self, env: int) -> NDArray[np.uint8]: ...

    def close(self) -> None: ...


class Arena(Protocol):
    """Makes batches of one kind of environment, and keeps between them what can be used again."""

    spaces: Spaces

    def batch(self, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv: ...

    def close(self) -> None: ...
