"""The space that genomes live in: named parameters laid end to end in one flat float32 vector."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Parameter(msgspec.Struct, frozen=True):
    """One named array, whose initial values have standard deviation `std`; a matrix's first axis is its input."""

    name: str
    shape: tuple[int, ...]
    std: float = 0.0

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns as the right side of a product; one row for what starts at zero, a bias."""
        rows = self.shape[0] if len(self.shape) > 1 and self.std else 1
        return rows, self.size // rows


class ParameterSpace(msgspec.Struct, frozen=True, dict=True):
    """Ordered parameters, and the way between them and the flat vectors that evolve."""

    parameters: tuple[Parameter, ...]

    @classmethod
    def flat(cls, size: int, std: float = 1.0) -> ParameterSpace:
        """A plain vector of `size` numbers, for problems that are no network."""
        return cls((Parameter("x", (size,), std),))

    @cached_property
    def size(self) -> int:
        return sum(parameter.size for parameter in self.parameters)

    def initial(self, rng: np.random.Generator) -> Vector:
        """Fresh parameters, drawn in order."""
        return np.concatenate([_initial(parameter, rng) for parameter in self.parameters])

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of every parameter, in order; vectors and biases have one row."""
        return tuple(parameter.matrix for parameter in self.parameters)

    def split(self, vectors: Vector) -> dict[str, Any]:
        """Views of the last axis as named parameters; leading axes stay: (members, size) -> (members, *shape)."""
        views, start = {}, 0
        lead = vectors.shape[:-1]
        for parameter in self.parameters:
            part = vectors[..., start : start + parameter.size]
            views[parameter.name] = part.reshape(*lead, *parameter.shape)
            start += parameter.size
        return views

    def grow(self, saved: Vector, from_space: ParameterSpace, rng: np.random.Generator) -> Vector:
        """Carry a saved vector over into this, equal or larger, space so that it computes the same function.

        Old units keep their weights, and new units listen to everything but say nothing to old ones yet.
        """
        vector = self.initial(rng)
        new, old = self.split(vector), from_space.split(saved)
        for name, target in new.items():
            corner = tuple(slice(0, n) for n in old[name].shape)
            target[corner] = old[name]
            if target.ndim > 1:
                rows, columns = old[name].shape[0], corner[1:]
                target[(slice(rows, None), *columns)] = 0.0
        return vector

    def misfit(self, smaller: ParameterSpace) -> str | None:
        """Why a vector of `smaller` cannot be carried over into this space, or None when it can."""
        ours = {parameter.name: parameter.shape for parameter in self.parameters}
        theirs = {parameter.name: parameter.shape for parameter in smaller.parameters}
        if ours.keys() != theirs.keys():
            return f"it has the parameters {', '.join(theirs)}; this one has {', '.join(ours)}"
        for name, shape in theirs.items():
            if len(shape) != len(ours[name]) or any(a > b for a, b in zip(shape, ours[name], strict=True)):
                return f"its {name} has shape {shape}, which does not fit into {ours[name]}"
        return None


def _initial(parameter: Parameter, rng: np.random.Generator) -> Vector:
    if parameter.std == 0.0:
        return np.zeros(parameter.size, np.float32)
    return rng.standard_normal(parameter.size, dtype=np.float32) * np.float32(parameter.std)
