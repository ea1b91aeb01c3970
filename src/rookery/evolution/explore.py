"""How a hyperparameter changes when a member starts over as a copy: rules that know its value and its range."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from rookery.settings import Range

_Above = Annotated[float, Meta(gt=0)]


class _Explore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What rules have in common."""

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        """Another value; it need not lie within the range."""
        raise NotImplementedError


class Perturb(_Explore, frozen=True, tag="perturb"):
    """Times one of two factors, or now and then a fresh draw."""

    down: Annotated[_Above, Meta(description="one factor")] = 0.8
    up: Annotated[_Above, Meta(description="the other factor")] = 1.2
    resample: Annotated[float, Meta(ge=0, le=1, description="probability of a fresh draw instead")] = 0.25

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        if rng.random() < self.resample:
            return draw(gene, rng)
        return value * (self.up if rng.random() < 0.5 else self.down)


class Resample(_Explore, frozen=True, tag="resample"):
    """A fresh draw from the range."""

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        del value
        return draw(gene, rng)


class Triangular(_Explore, frozen=True, tag="triangular"):
    """Times a factor from a triangular distribution."""

    low: Annotated[_Above, Meta(description="the least factor")] = 0.9
    mode: Annotated[_Above, Meta(description="the likeliest factor")] = 0.95
    high: Annotated[_Above, Meta(description="the greatest factor")] = 1.2

    def __post_init__(self) -> None:
        if not self.low <= self.mode <= self.high or self.low == self.high:
            raise ValueError(f"low <= mode <= high is needed, got {self.low:g}, {self.mode:g}, {self.high:g}")

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        del gene
        return value * float(rng.triangular(self.low, self.mode, self.high))


class Uniform(_Explore, frozen=True, tag="uniform"):
    """Times a factor from an even distribution."""

    low: Annotated[_Above, Meta(description="the least factor")] = 0.9
    high: Annotated[_Above, Meta(description="the greatest factor")] = 1.1

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        del gene
        return value * float(rng.uniform(self.low, self.high))


class Polynomial(_Explore, frozen=True, tag="polynomial"):
    """Deb's polynomial mutation: small steps more often than large ones, and never out of the range."""

    eta: Annotated[float, Meta(ge=0, description="the greater, the smaller the steps")] = 20.0

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        low, high = _ends(gene)
        place = min(max((_along(value, gene) - low) / (high - low), 0.0), 1.0)
        chance, power = rng.random(), 1 / (self.eta + 1)
        if chance < 0.5:
            step = (2 * chance + (1 - 2 * chance) * (1 - place) ** (self.eta + 1)) ** power - 1
        else:
            step = 1 - (2 * (1 - chance) + 2 * (chance - 0.5) * place ** (self.eta + 1)) ** power
        return _back(low + (place + step) * (high - low), gene)


class Keep(_Explore, frozen=True, tag="none"):
    """No change: a copy has what its parent has."""

    def change(self, value: float, gene: Range, rng: np.random.Generator) -> float:
        del gene, rng
        return value


Explore = Perturb | Resample | Triangular | Uniform | Polynomial | Keep


def draw(gene: Range, rng: np.random.Generator) -> float:
    """A value from a range, even by difference or by ratio as it says."""
    return within(_back(float(rng.uniform(*_ends(gene))), gene), gene)


def within(value: float, gene: Range) -> float:
    """The nearest value that the range allows."""
    kept = min(max(value, gene.low), gene.high)
    return float(round(kept)) if gene.integer else kept


def _ends(gene: Range) -> tuple[float, float]:
    """The ends on the axis on which the range is even."""
    return _along(gene.low, gene), _along(gene.high, gene)


def _along(value: float, gene: Range) -> float:
    return float(np.log(value)) if gene.scale == "log" else value


def _back(place: float, gene: Range) -> float:
    return float(np.exp(place)) if gene.scale == "log" else place
