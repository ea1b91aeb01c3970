"""What goes to a worker to be evaluated, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import msgspec
import numpy as np
from numpy.typing import NDArray

from rookery.genomes import NO_LINEAGE, Genome, Lineage
from rookery.policies.normaliser import Moments


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A genome to be evaluated. Candidates of one `group` (a mirrored pair) are never given different seeds.

    `generation` is the one whose episodes it gets, None the one that is going on. A candidate with `fresh`
    episodes is validated instead: it plays so many that nothing else uses, as it would be deployed.
    """

    id: int
    genome: Genome
    group: int = 0
    parents: tuple[int, ...] = ()
    max_steps: int | None = None
    generation: int | None = None
    fresh: int = 0


class Trial(msgspec.Struct, frozen=True, eq=False):
    """A candidate with everything that its evaluation depends on, fixed before it is sent anywhere.

    `seeds` are its episodes; `observe` whether they feed the normaliser; `explore` names the random stream of
    action noise as (run seed, generation, candidate), None for the policy as it would be deployed. `unseen` says
    that they are played in the environment that training never shows.
    """

    candidate: Candidate
    seeds: tuple[int, ...]
    observe: bool = False
    explore: tuple[int, int, int] | None = None
    unseen: bool = False


class Context(msgspec.Struct, frozen=True, eq=False):
    """What all trials of a generation share: what genomes are made from, and the observations seen so far."""

    centre: NDArray[np.float32]
    moments: Moments | None = None
    lineage: Lineage = NO_LINEAGE


class Result(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What came back for one candidate.

    `fitness` is the mean return and `signs` the mean sum of reward signs, both -inf when an episode broke;
    `returns` and `lengths` have an entry per episode; `limited` counts those cut by the candidate's step limit.
    `behaviour` is the mean of what its episodes came to, where the algorithm looks at that.
    """

    id: int
    fitness: float
    signs: float = 0.0
    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    limited: int = 0
    moments: Moments | None = None
    error: str | None = None
    behaviour: NDArray[np.float64] | None = None

    @property
    def steps(self) -> int:
        return sum(self.lengths)

    @property
    def failed(self) -> bool:
        return not isfinite(self.fitness)


WORST = -inf


def worst_for_failed(values: Sequence[float]) -> NDArray[np.float64]:
    """The values as an array in which every failed candidate has the worst value of the others."""
    array = np.asarray(values, np.float64)
    finite = np.isfinite(array)
    worst = array[finite].min() if finite.any() else 0.0
    return np.where(finite, array, worst)
