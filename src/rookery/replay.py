"""One fresh agent that learns as the best member of a population did: with its ancestors' hyperparameters."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from rookery.errors import UserError
from rookery.evolution.pbt import PBT
from rookery.experiment import Experiment, load_experiment
from rookery.learning.ppo import PPO
from rookery.store.ancestry import families, schedule
from rookery.store.directory import RunDirectory
from rookery.store.summary import read_history


def replaying(experiment: Experiment, runs: Path) -> tuple[Experiment, str]:
    """The experiment with the schedule of the run that it replays written into it, and a line about that.

    From here on it needs that run no more.
    """
    source = RunDirectory.open(runs, str(experiment.replay))
    recorded = load_experiment(str(source.experiment_path))
    if not isinstance(recorded.algorithm, PBT) or not isinstance(recorded.algorithm.learner, PPO):
        raise UserError(f"replay={experiment.replay}: only a population of PPO has a schedule to replay")
    genes = recorded.algorithm.genes(recorded.genes)
    if not genes:
        raise UserError(f"replay={experiment.replay}: none of its hyperparameters was given as a range")
    if strange := [name for name in genes if name not in PPO.DYNAMIC]:
        raise UserError(f"replay={experiment.replay}: {strange[0]} varied, and no schedule can change that")
    population = families(source.name, read_history(source), recorded.algorithm.mode == "sync")
    line, _ = population.line(population.best)
    phases = tuple(schedule(line, list(genes)))
    learner = replace(_learner(experiment), population=1, schedule=phases, **phases[0][1])
    learned = sum(stretch.last - stretch.first for stretch in line)
    said = (
        f"replays what led to member {population.best} of {source.name}: {', '.join(genes)} "
        f"in {len(phases)} phases over {learned:,} steps"
    )
    return replace(experiment, algorithm=learner, genes={}, replay=None), said


def _learner(experiment: Experiment) -> PPO:
    """The learner that is to learn alone."""
    algorithm = experiment.algorithm
    learner = algorithm.learner if isinstance(algorithm, PBT) else algorithm
    if not isinstance(learner, PPO):
        raise UserError(
            f"replay={experiment.replay} needs algorithm.type=ppo, and this experiment's is {experiment.kind}"
        )
    return learner
