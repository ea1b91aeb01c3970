"""What every strategy is: functions over frozen state that ask for evaluations and are told their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rookery.genomes import Genome, Lineage, ParameterSpace
from rookery.rollout.results import Candidate, Result

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Source(Protocol[S_contra]):
    """Where agents come from, whatever makes them: what a state has for a user to deploy, and what it tells."""

    def centre(self, state: S_contra) -> NDArray[np.float32]: ...

    def lineage(self, state: S_contra) -> Lineage: ...

    def champion(self, state: S_contra) -> Genome: ...

    def telemetry(self, state: S_contra) -> dict[str, float]: ...


class Strategy(Source[S], Protocol[S]):
    """An optimiser that maximises. Its own fields are its hyperparameters; all that changes is in the state.

    Where the `population` is not given, its state has one that suits the space. Results may be told in any order,
    in parts and twice; those of another generation change nothing.
    """

    @property
    def population(self) -> int | None: ...

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> S: ...

    def ask(self, state: S) -> tuple[S, list[Candidate]]: ...

    def tell(self, state: S, results: Sequence[Result]) -> S: ...


AnySource = Source[Any]
AnyStrategy = Strategy[Any]
