"""An agent out of a run: load it, measure it on fresh episodes, watch it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rookery.errors import RookeryError, UserError
from rookery.evolution.generation import Progress, fresh_episodes
from rookery.evolution.pbt import PBT
from rookery.experiment import Experiment, load_experiment
from rookery.fleet.specs import cores
from rookery.genome_text import from_text, to_text
from rookery.learning.sb3 import SB3
from rookery.observers.events import normalise
from rookery.policies import Policy
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.lane import Lane
from rookery.store.directory import RunDirectory


class Report(msgspec.Struct, frozen=True):
    """What an agent earned on fresh episodes, in the environment's own rewards.

    `normalised` is the mean as a share of the range of scores, where there is one; `unseen` says whether this was
    played in what training never shows.
    """

    run: str
    checkpoint: int
    mean: float
    std: float
    min: float
    median: float
    max: float
    episodes: int
    mean_length: float
    seeds: tuple[int, ...]
    returns: tuple[float, ...]
    unseen: bool = False
    normalised: float | None = None


class Agent:
    """The champion of a checkpoint together with all that it needs to act."""

    def __init__(self, name: str, experiment: Experiment, progress: Progress) -> None:
        self.name, self.progress = name, progress
        self.experiment = msgspec.structs.replace(
            experiment, env=msgspec.structs.replace(experiment.env, reward_scale=1.0)
        )
        self.evaluator = make_evaluator(self.experiment)

    @cached_property
    def vector(self) -> NDArray[np.float32]:
        """The parameters, whole; evaluating and filming make their own from the genome."""
        source, state = self.experiment.source, self.progress.strategy
        genomes = [source.champion(state)]
        rows = self.evaluator.materialise(genomes, source.centre(state), source.lineage(state))
        vector: NDArray[np.float32] = rows[0]
        return vector

    @property
    def policy(self) -> Policy:
        return self.evaluator.policy

    def evaluate(self, episodes: int, number: int = 0, unseen: bool = False) -> Report:
        """Act as deployed on fresh episodes; another `number` gives other ones."""
        context, trials = fresh_episodes(self.experiment, self.progress, "evaluate", number, episodes, unseen)
        with threadpool_limits(1):
            results = self.evaluator.evaluate(context, trials)
        for result in results:
            if result.error:
                raise RookeryError(result.error)
        rows = [
            row
            for trial, result in zip(trials, results, strict=True)
            for row in zip(trial.seeds, result.returns, result.lengths, strict=True)
        ]
        seeds, returns, lengths = zip(*rows, strict=True)
        mean, score_range = float(np.mean(returns)), self.experiment.score_range
        return Report(
            run=self.name,
            checkpoint=self.progress.generation,
            mean=mean,
            std=float(np.std(returns)),
            min=min(returns),
            median=float(np.median(returns)),
            max=max(returns),
            episodes=episodes,
            mean_length=float(np.mean(lengths)),
            seeds=seeds,
            returns=returns,
            unseen=unseen,
            normalised=normalise(mean, score_range) if score_range else None,
        )

    def frames(self, episodes: int, number: int = 0) -> Iterator[NDArray[np.uint8]]:
        """Pictures of whole episodes, one after the other."""
        context, trials = fresh_episodes(self.experiment, self.progress, "render", number, episodes)
        scaling = self.policy.scaling(context.moments)
        for seed in (seed for trial in trials for seed in trial.seeds):
            trial = msgspec.structs.replace(trials[0], seeds=(seed,))
            lane = Lane(self.evaluator.arena, self.policy, scaling, [trial], 1, render=True)
            try:
                lane.start(self.evaluator.parameters([trial.candidate.genome], context.centre, context.lineage))
                while len(lane.alive):
                    yield lane.batch.render(0)
                    lane.finish_step()
                    if len(lane.alive):
                        lane.begin_step()
            finally:
                lane.close()


def load_agent(runs: Path, run: str, checkpoint: str) -> Agent:
    """The agent of a run's checkpoint: `latest`, `best` or a generation."""
    directory = RunDirectory.open(runs, run)
    progress, _ = directory.load(checkpoint, Progress)
    return Agent(directory.name, load_experiment(str(directory.experiment_path)), progress)


def find_agent(runs: Path, run: str | None, genome: str | None, checkpoint: str, trusted: bool) -> Agent:
    """The agent of a run, or of a text."""
    if (run is None) == (genome is None):
        raise UserError("name a run, or give --genome TEXT: one of the two")
    if genome is None:
        return load_agent(runs, str(run), checkpoint)
    return Agent("genome", *from_text(genome, trusted))


def describe_genome(directory: RunDirectory) -> tuple[str | None, str]:
    """The text of a run's best champion, or why it has none."""
    try:
        progress, _ = directory.load("best", Progress)
        return to_text(load_experiment(str(directory.experiment_path)), progress), ""
    except RookeryError as error:
        return None, str(error)


def make_evaluator(experiment: Experiment) -> Evaluator:
    """What evaluates this experiment's agents in this process, whatever its engine is."""
    if isinstance(experiment.algorithm, PBT) and isinstance(experiment.algorithm.learner, SB3):
        learner, unseen = experiment.algorithm.learner, experiment.unseen
        learner.require()
        from rookery.learning.sb3_evaluator import SB3Evaluator

        return SB3Evaluator(experiment.env, experiment.policy, cores(), unseen, learner, experiment.seed)
    return Evaluator(experiment.env, experiment.policy, cores(), unseen=experiment.unseen)
