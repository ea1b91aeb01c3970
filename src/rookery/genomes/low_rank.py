"""Low-rank noise: a matrix's is A B^T / sqrt(rank), which takes few numbers, and products that are shared.

Entries of A and B are standard normal, so those of the noise have mean 0, variance 1 and no correlation. What is
no matrix, or too small a matrix for factors to be smaller, has full noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rookery.genomes.recipes import noise
from rookery.genomes.space import ParameterSpace

_ROWS = 8  # of a shared product: among more, the place of a row may decide its last bits

Numbers = NDArray[np.float32]
Shape = tuple[int, ...]


class _Part(NamedTuple):
    """Where one parameter lies in a genome, and where its noise in a draw."""

    at: slice
    drawn: slice
    rows: int
    columns: int
    factored: bool


class FullNoise:
    """A number for every parameter."""

    def __init__(self, size: int) -> None:
        self.full = self.size = size

    def draw(self, seed: int, generation: int, index: int, out: Numbers | None = None) -> Numbers:
        """The numbers that (seed, generation, index) names."""
        return noise(seed, generation, index, self.size, out)

    def add_weighted(self, total: Numbers, weights: Numbers, drawn: Numbers) -> None:
        """Add the sum of weight * noise over draws (count, size)."""
        total += weights @ drawn


class LowRankNoise:
    """The noise of one space: a flat draw for each member, in which a matrix has the numbers of A and then B^T."""

    def __init__(self, matrices: Sequence[tuple[int, int]], rank: int) -> None:
        self.rank = rank
        self.parts: list[_Part] = []
        at = drawn = 0
        for rows, columns in matrices:
            factored = rank * (rows + columns) < rows * columns
            count = rank * (rows + columns) if factored else rows * columns
            parameter = slice(at, at + rows * columns)
            self.parts.append(_Part(parameter, slice(drawn, drawn + count), rows, columns, factored))
            at, drawn = parameter.stop, drawn + count
        self.full, self.size = at, drawn

    def draw(self, seed: int, generation: int, index: int, out: Numbers | None = None) -> Numbers:
        """The numbers that (seed, generation, index) names."""
        return noise(seed, generation, index, self.size, out)

    def factors(self, part: _Part, drawn: Numbers) -> tuple[Numbers, Numbers]:
        """A / sqrt(rank) (*lead, rows, rank) and B^T (*lead, rank, columns) of draws (*lead, size)."""
        own, lead, cut = drawn[..., part.drawn], drawn.shape[:-1], self.rank * part.rows
        left = own[..., :cut].reshape(*lead, part.rows, self.rank) * np.float32(1 / sqrt(self.rank))
        return left, own[..., cut:].reshape(*lead, self.rank, part.columns)

    def dense(self, drawn: Numbers) -> Numbers:
        """The noise (size of the space) that a draw stands for."""
        whole = np.empty(self.full, np.float32)
        for part in self.parts:
            if part.factored:
                left, right = self.factors(part, drawn)
                np.matmul(left, right, out=whole[part.at].reshape(part.rows, part.columns))
            else:
                whole[part.at] = drawn[part.drawn]
        return whole

    def add_weighted(self, total: Numbers, weights: Numbers, drawn: Numbers) -> None:
        """Add the sum of weight * noise over draws (count, size), without the noise of any one of them."""
        for part in self.parts:
            if not part.factored:
                total[part.at] += weights @ drawn[:, part.drawn]
                continue
            left, right = self.factors(part, drawn)
            tall = (weights[:, None, None] * left).transpose(1, 0, 2).reshape(part.rows, -1)
            total[part.at] += (tall @ right.reshape(-1, part.columns)).reshape(-1)


Noise = FullNoise | LowRankNoise


class Perturbed:
    """Matrices W + A B^T of many members, for products with what they see: x W + (x A) B^T, with one W for all.

    It stands where an array (*lead, rows, *columns) would, on the right of `@`.
    """

    __array_ufunc__ = None  # NumPy leaves the product to us

    def __init__(self, shared: Numbers, left: Numbers, right: Numbers, columns: Shape) -> None:
        self.shared, self.left, self.right, self.columns = shared, left, right, columns

    @property
    def shape(self) -> Shape:
        return (*self.left.shape[:-1], *self.columns)

    def __getitem__(self, members: Any) -> Perturbed:
        return Perturbed(self.shared, self.left[members], self.right[members], self.columns)

    def reshape(self, *shape: int) -> Perturbed:
        """Other axes for the columns."""
        lead = self.left.ndim - 1
        if shape[:lead] != self.left.shape[:-1] or prod(shape[lead:]) != self.right.shape[-1]:
            raise ValueError(f"{self.shape} cannot become {shape}: only its columns can be arranged anew")
        return Perturbed(self.shared, self.left, self.right, shape[lead:])

    def __rmatmul__(self, x: Numbers) -> Numbers:
        own: Numbers = np.matmul(np.matmul(x, self.left), self.right)
        own += self._shared_product(x)
        return own

    def _shared_product(self, x: Numbers) -> Numbers:
        """X W. Rows that come singly are multiplied in blocks of a fixed size, whoever else is in the batch."""
        *lead, rows, width = x.shape
        if rows > 1:
            return x @ self.shared
        count = prod(lead)
        padded = np.zeros((-(-count // _ROWS), _ROWS, width), np.float32)
        padded.reshape(-1, width)[:count] = x.reshape(count, width)
        product: Numbers = padded @ self.shared
        own: Numbers = product.reshape(-1, product.shape[-1])[:count].reshape(*lead, 1, -1)
        return own


def perturbed(
    space: ParameterSpace, noises: LowRankNoise, centre: Numbers, drawn: Numbers, scales: Numbers
) -> dict[str, Any]:
    """Named parameters of members, centre + scale * noise, with the axes (members, 1, *shape)."""
    made: dict[str, Any] = {}
    drawn, scales = drawn[:, None], scales[:, None, None]
    for parameter, part in zip(space.parameters, noises.parts, strict=True):
        if part.factored:
            left, right = noises.factors(part, drawn)
            shared = centre[part.at].reshape(part.rows, part.columns)
            made[parameter.name] = Perturbed(shared, scales[..., None] * left, right, parameter.shape[1:])
        else:
            own = centre[part.at] + scales * drawn[..., part.drawn]
            made[parameter.name] = own.reshape(*own.shape[:-1], *parameter.shape)
    return made
