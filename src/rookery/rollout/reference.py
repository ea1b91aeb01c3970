"""Reference images for virtual batch normalisation: what environments show while actions are random."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.envs import Action, Arena, Continuous, Discrete
from rookery.errors import RookeryError
from rookery.policies.virtual_batch import VirtualBatch
from rookery.streams import seeds, stream

_EPISODES = 8  # played at once
_SHARE = 0.1  # of the steps that are kept, so that images differ
_ROUNDS = 100


def reference_images(arena: Arena, wanted: VirtualBatch) -> NDArray[Any]:
    """Images (frames, *shape) that depend on the environment and the seed alone."""
    kept: list[NDArray[Any]] = []
    for number in range(_ROUNDS):
        kept += _episodes(arena, wanted.seed, number, wanted.frames - len(kept))
        if len(kept) >= wanted.frames:
            return np.stack(kept)
    raise RookeryError(f"random actions show too few images for policy.vbn.frames={wanted.frames}")


def _episodes(arena: Arena, seed: int, number: int, wanted: int) -> list[NDArray[Any]]:
    """At most `wanted` images of a few episodes."""
    kept: list[NDArray[Any]] = []
    rng = stream(seed, "reference", number)
    with closing(arena.batch(seeds(seed, "reference seeds", number, 0, _EPISODES))) as batch:
        alive = np.arange(_EPISODES, dtype=np.int32)
        batch.reset()
        while True:
            step = batch.receive()
            kept += list(step.observations[rng.random(len(alive)) < _SHARE].copy())
            alive = alive[~(step.terminated | step.truncated)]
            if len(kept) >= wanted or not len(alive):
                return kept[:wanted]
            batch.send(_random_actions(arena.spaces.action, len(alive), rng), alive)


def _random_actions(space: Action, count: int, rng: np.random.Generator) -> NDArray[Any]:
    if isinstance(space, Discrete):
        chosen = rng.integers(space.choices, size=(count, len(space.choices)))
        return chosen[:, 0] if space.scalar else chosen
    assert isinstance(space, Continuous)
    low, high = (np.nan_to_num(bound, posinf=1.0, neginf=-1.0) for bound in space.bounds)
    return rng.uniform(low, high, (count, low.size)).astype(np.float32)
