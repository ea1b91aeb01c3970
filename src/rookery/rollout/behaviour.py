"""What an episode came to, for algorithms that look at behaviour: picked up while the episode is played."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rookery.envs import Ids, Step
from rookery.errors import RookeryError, UserError

LAST, INFO = "last", "info:"

Observations = NDArray[np.float32]
Summary = Callable[[Observations], Any]


class Recorder(Protocol):
    """Sees every step of the episodes `ids`, and says in the end what one of them came to."""

    def see(self, ids: Ids, step: Step) -> None: ...

    def behaviour(self, episode: int) -> NDArray[np.float64]: ...


class Recording:
    """What `evaluation.behaviour` asks for; it starts a recorder for each batch of episodes."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.info = wanted.removeprefix(INFO) if wanted.startswith(INFO) else None
        self.summary = None if self.info or wanted == LAST else _function(wanted)

    def start(self, episodes: int) -> Recorder:
        """A recorder for so many episodes."""
        if self.summary is not None:
            return _Trajectories(self.wanted, self.summary)
        return _Last(episodes, self.info is not None)


class _Last:
    """The last observation, or the last value of a field of the environment's info."""

    def __init__(self, episodes: int, of_info: bool) -> None:
        self.episodes, self.of_info = episodes, of_info
        self.shown: NDArray[Any] | None = None

    def see(self, ids: Ids, step: Step) -> None:
        rows = step.info if self.of_info else step.observations
        if rows is None:  # nothing is said of an environment that was only reset
            return
        if self.shown is None:
            self.shown = np.zeros((self.episodes, *rows.shape[1:]), rows.dtype)
        self.shown[ids] = rows

    def behaviour(self, episode: int) -> NDArray[np.float64]:
        assert self.shown is not None
        return np.asarray(self.shown[episode], np.float64).reshape(-1)


class _Trajectories:
    """What a user's function makes of all observations of an episode, the first one included."""

    def __init__(self, name: str, summary: Summary) -> None:
        self.name, self.summary = name, summary
        self.seen: list[tuple[Ids, NDArray[Any]]] = []

    def see(self, ids: Ids, step: Step) -> None:
        self.seen.append((ids, step.observations.copy()))

    def behaviour(self, episode: int) -> NDArray[np.float64]:
        rows = [(np.searchsorted(ids, episode), ids, shown) for ids, shown in self.seen]
        trajectory = [shown[row] for row, ids, shown in rows if row < len(ids) and ids[row] == episode]
        try:
            found = np.asarray(self.summary(np.stack(trajectory)), np.float64).reshape(-1)
        except Exception as error:
            why = " ".join(str(error).split())
            raise RookeryError(
                f"evaluation.behaviour={self.name} failed: {type(error).__name__}: {why}"
            ) from error
        return found


def _function(path: str) -> Summary:
    """The function behind `module:function`."""
    module, _, name = path.partition(":")
    if not name:
        raise UserError(f"evaluation.behaviour={path}: expected last, info:FIELD or my_package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # a command is not started with the working directory on the path
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise UserError(f"evaluation.behaviour={path}: cannot import '{module}': {error}") from error
    if not callable(found):
        raise UserError(f"evaluation.behaviour={path}: module '{module}' has no function '{name}'")
    function: Summary = found
    return function
