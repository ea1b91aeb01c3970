"""One generation as pure functions: what to evaluate, and what follows from the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from rookery import streams
from rookery.evolution import State as SearchState
from rookery.evolution.pbt import PBTState
from rookery.experiment import Evaluation, Experiment
from rookery.learning import PPOState
from rookery.policies import Moments
from rookery.rollout.results import Candidate, Context, Result, Trial

State = SearchState | PPOState | PBTState

CHAMPION = -1  # its id among candidates
_FIXED = 0  # the generation that fixed seeds are drawn for
_PARTS = 8


class Score(msgspec.Struct, frozen=True):
    """What a champion earned on fresh episodes; `steps` are the run's by then, and `taken` what this took."""

    generation: int
    steps: int
    mean: float
    std: float
    episodes: int
    taken: int = 0

    @property
    def sure(self) -> float:
        """The mean less its standard error: what chance alone does not explain."""
        return self.mean - self.std / float(np.sqrt(self.episodes))


class Progress(msgspec.Struct, frozen=True, eq=False):
    """A run between two generations, complete: from here it continues the same however often it was stopped."""

    generation: int
    steps: int
    episodes: int
    strategy: State
    moments: Moments | None
    validated: Score | None = None
    best: Score | None = None


class Plan(NamedTuple):
    """A generation about to be evaluated: the strategy that asked, its candidates' trials and its champion's."""

    strategy: State
    context: Context
    candidates: list[Trial]
    champion: list[Trial]

    def own(self, results: Sequence[Result]) -> list[Result]:
        """The results of the candidates, the champion's and those of validations left out."""
        pairs = zip(self.candidates, results[: len(self.candidates)], strict=True)
        return [result for trial, result in pairs if not trial.candidate.fresh]


def plan(experiment: Experiment, progress: Progress) -> Plan:
    """Ask the strategy, and fix all that the evaluation of its candidates depends on."""
    strategy = experiment.strategy
    state, asked = strategy.ask(progress.strategy)
    return Plan(
        state,
        surroundings(experiment, progress),
        trials(experiment, progress, asked),
        champion(experiment, progress, sum(not candidate.fresh for candidate in asked)),
    )


def surroundings(experiment: Experiment, progress: Progress) -> Context:
    """What all evaluations from here have in common."""
    source = experiment.source
    return Context(source.centre(progress.strategy), progress.moments, source.lineage(progress.strategy))


def trials(experiment: Experiment, progress: Progress, asked: Sequence[Candidate]) -> list[Trial]:
    """The candidates with their episodes; those that are to be validated have fresh ones, and do not explore."""
    evaluation, seed, normaliser = experiment.evaluation, experiment.seed, experiment.policy.normaliser
    observing = streams.stream(seed, "observe", progress.generation).random(len(asked))
    found = []
    for candidate, chance in zip(asked, observing, strict=True):
        generation = progress.generation if candidate.generation is None else candidate.generation
        if candidate.fresh:
            fresh = streams.seeds(seed, "elites", generation, candidate.group, candidate.fresh)
            found.append(Trial(candidate, fresh))
            continue
        found.append(
            Trial(
                candidate,
                _training_seeds(evaluation, seed, generation, candidate.group),
                observe=normaliser is not None and bool(chance < normaliser.share),
                explore=(seed, generation, candidate.id) if experiment.policy.action.explores else None,
            )
        )
    return found


def champion(experiment: Experiment, progress: Progress, population: int) -> list[Trial]:
    """The champion's own episodes of a generation."""
    evaluation, strategy = experiment.evaluation, experiment.strategy
    count = round(evaluation.champion_share * population)
    count = max(1, count) if evaluation.champion_share > 0 else 0
    deployed = Candidate(CHAMPION, strategy.champion(progress.strategy))
    fresh = (
        streams.seeds(experiment.seed, "champion", progress.generation, n, evaluation.episodes)
        for n in range(count)
    )
    return [Trial(deployed, seeds) for seeds in fresh]


def fresh_episodes(
    experiment: Experiment, progress: Progress, purpose: str, number: int, episodes: int, unseen: bool = False
) -> tuple[Context, list[Trial]]:
    """The champion, as it would be deployed, on episodes that no other purpose uses."""
    deployed = Candidate(CHAMPION, experiment.source.champion(progress.strategy))
    seeds = streams.seeds(experiment.seed, purpose, number, 0, episodes)
    # Several trials rather than one: an evaluator divides its work by trials.
    parts = next(n for n in range(min(_PARTS, episodes), episodes + 1) if episodes % n == 0)
    trials = [
        Trial(
            deployed,
            seeds[part::parts],
            explore=(experiment.seed, number, CHAMPION - 1 - part) if experiment.evaluation.sample else None,
            unseen=unseen,
        )
        for part in range(parts)
    ]
    return surroundings(experiment, progress), trials


def score(progress: Progress, results: Sequence[Result], reward_scale: float) -> Score:
    """The score of fresh episodes, in the environment's own rewards; those that broke count as the worst."""
    whole = [earned for result in results if not result.failed for earned in result.returns]
    broken = sum(len(result.returns) for result in results if result.failed)
    returns = np.array(whole + [min(whole)] * broken) / reward_scale
    taken = sum(result.steps for result in results)
    return Score(
        progress.generation, progress.steps, float(returns.mean()), float(returns.std()), len(returns), taken
    )


def judge(progress: Progress, validated: Score) -> tuple[Progress, bool]:
    """Remember a validation, and whether its champion is the best so far."""
    best = progress.best is None or validated.sure > progress.best.sure
    return replace(progress, validated=validated, best=validated if best else progress.best), best


def absorb(experiment: Experiment, progress: Progress, plan: Plan, results: Sequence[Result]) -> Progress:
    """Tell the strategy, feed the normaliser, count. The results are in the plan's order, the champion's last."""
    own = results[: len(plan.candidates)]
    moments = progress.moments
    if moments is not None:
        moments = moments.merge(result.moments for result in own if result.moments is not None)
    return replace(
        progress,
        generation=progress.generation + 1,
        steps=progress.steps + sum(result.steps for result in results),
        episodes=progress.episodes + sum(len(result.returns) for result in results),
        strategy=experiment.strategy.tell(plan.strategy, own),
        moments=moments,
    )


def _training_seeds(evaluation: Evaluation, seed: int, generation: int, group: int) -> tuple[int, ...]:
    if evaluation.seeding == "fixed":
        return evaluation.seeds or streams.seeds(seed, "training", _FIXED, 0, evaluation.episodes)
    group = group + 1 if evaluation.seeding == "pair" else 0
    return streams.seeds(seed, "training", generation, group, evaluation.episodes)
