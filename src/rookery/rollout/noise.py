"""Random numbers for exploring policies: a stream for each episode, drawn ahead in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.policies.heads import Head
from rookery.rollout.results import Trial
from rookery.streams import stream

_BLOCK = 64  # steps


class NoiseBlocks:
    """Numbers for every step of every episode; trials that do not explore get zeros, which change no action."""

    def __init__(self, head: Head, trials: Sequence[Trial]) -> None:
        self.kind = head.noise_kind
        self.streams = [
            None if trial.explore is None else _episode_stream(*trial.explore, episode)
            for trial in trials
            for episode in range(len(trial.seeds))
        ]
        self.block = np.zeros((len(self.streams), _BLOCK, head.noise), np.float32)

    def at(self, clock: int, episodes: NDArray[np.intp]) -> NDArray[np.float32]:
        """The numbers of these episodes for their step number `clock`; clocks come in order."""
        if clock % _BLOCK == 0:
            for episode in episodes.tolist():
                rng = self.streams[episode]
                if rng is not None:
                    shape = self.block.shape[1:]
                    drawn = rng.gumbel(size=shape) if self.kind == "gumbel" else rng.standard_normal(shape)
                    self.block[episode] = drawn
        numbers: NDArray[np.float32] = self.block[episodes, clock % _BLOCK]
        return numbers


def _episode_stream(seed: int, generation: int, candidate: int, episode: int) -> np.random.Generator:
    return stream(seed, f"explore {candidate}", generation, episode)
