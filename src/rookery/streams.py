"""Counter-based random streams: the same key gives the same numbers on any worker, in any order."""

import zlib

import numpy as np

SEED_LIMIT = 2**31 - 1  # environments take signed 32-bit seeds
_WORD = 2**64


def stream(seed: int, purpose: str, generation: int = 0, index: int = 0) -> np.random.Generator:
    """The random numbers that belong to (run seed, purpose, generation, index)."""
    key = np.array([seed % _WORD, zlib.crc32(purpose.encode())], np.uint64)
    # The two low counter words count the draws, the two high ones name the stream: streams never overlap.
    counter = np.array([0, 0, index % _WORD, generation % _WORD], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def seeds(seed: int, purpose: str, generation: int, index: int, count: int) -> tuple[int, ...]:
    """`count` environment seeds that belong to (run seed, purpose, generation, index)."""
    return tuple(stream(seed, purpose, generation, index).integers(SEED_LIMIT, size=count).tolist())
