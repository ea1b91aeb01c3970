"""What a run does from one boundary to the next: evolve a population, or let members learn. One shell for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rookery.errors import UserError
from rookery.evolution.generation import Progress
from rookery.evolution.pbt import PBT
from rookery.experiment import Experiment
from rookery.learning.ppo import PPO, Actor
from rookery.learning.sb3 import SB3
from rookery.observers.events import Told
from rookery.rollout.shared import SharedEvaluator


class Round(NamedTuple):
    """What a generation has come to, before it counts.

    `earned` is in the environment's own rewards; `score` is what the champion earned that the generation began
    with. `times` says where its seconds went. `after` is the progress that follows from the one it is given, which
    is the one the generation began with but for validations.
    """

    steps: int
    episodes: int
    earned: NDArray[np.float64]
    score: float | None
    episode_length: float
    failures: Sequence[str]
    failed: int
    hopeless: bool
    times: dict[str, float]
    after: Callable[[Progress], Progress]
    told: Sequence[Told] = ()


class Pursuit(Protocol):
    """A kind of run. It holds workers and environments, but nothing that a run could not go on without."""

    evaluator: SharedEvaluator

    def begin(self, start: Actor | None) -> Progress: ...

    def generation(self, progress: Progress) -> Round: ...

    def close(self) -> None: ...


def pursue(experiment: Experiment) -> Pursuit:
    """What an experiment's algorithm asks for."""
    algorithm = experiment.algorithm
    learner = algorithm.learner if isinstance(algorithm, PBT) else algorithm
    if isinstance(learner, SB3):
        learner.require()
    if isinstance(learner, PPO) and find_spec("jax") is None:
        raise UserError(f"algorithm.type={experiment.kind} needs JAX: pip install 'rookery[learn]'")
    if isinstance(experiment.algorithm, PPO):
        from rookery.learning.learning import Learning

        return Learning(experiment, experiment.algorithm)
    if isinstance(experiment.algorithm, PBT):
        from rookery.evolution.rearing import Rearing

        return Rearing(experiment, experiment.algorithm)
    from rookery.evolution.evolving import Evolving

    return Evolving(experiment)
