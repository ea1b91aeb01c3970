"""A run that evolves: candidates are evaluated, and their results are told to a strategy."""

from __future__ import annotations

import time

import numpy as np

from rookery.envs import arena
from rookery.evolution.breeding import is_steady
from rookery.evolution.flow import flow
from rookery.evolution.generation import Plan, Progress, absorb, plan
from rookery.experiment import Experiment
from rookery.learning.ppo import Actor
from rookery.policies import Moments, Policy
from rookery.pursuits import Round
from rookery.rollout.results import Result
from rookery.rollout.shared import SharedEvaluator, Stream


class Evolving:
    """Generations of a strategy, evaluated by a fleet."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.evaluator = SharedEvaluator(
            experiment.env,
            experiment.policy,
            experiment.engine,
            experiment.unseen,
            behaviour=experiment.behaviour,
        )
        self.stream: Stream | None = None

    def begin(self, start: Actor | None) -> Progress:
        """The run before its first generation."""
        experiment = self.experiment
        policy = Policy(experiment.policy, arena(experiment.env).spaces)
        moments = Moments.empty(policy.inputs) if experiment.policy.normaliser else None
        if moments is not None and start is not None and start.moments is not None:
            moments = start.moments
        vector = None if start is None else start.parameters
        return Progress(0, 0, 0, experiment.strategy.init(experiment.seed, policy.space, vector), moments)

    def generation(self, progress: Progress) -> Round:
        """Ask, and evaluate; what is told counts when the round does."""
        began = time.perf_counter()
        planned, asked, results = self._evaluated(progress)
        times = {"ask": asked - began, "evaluate": time.perf_counter() - asked, "tell": 0.0}
        own = planned.own(results)
        scale = self.experiment.env.reward_scale
        whole = [r.fitness for r in results[len(planned.candidates) :] if not r.failed]
        steps, episodes = sum(r.steps for r in results), sum(len(r.lengths) for r in results)

        def after(progress: Progress) -> Progress:
            telling = time.perf_counter()
            told = absorb(self.experiment, progress, planned, results)
            times["tell"] = time.perf_counter() - telling
            return told

        return Round(
            steps=steps,
            episodes=episodes,
            earned=np.array([r.fitness for r in own if not r.failed]) / scale,
            score=float(np.mean(whole)) / scale if whole else None,
            episode_length=steps / max(episodes, 1),
            failures=[r.error for r in results if r.error],
            failed=sum(r.failed for r in own),
            hopeless=all(r.error for r in own),
            times=times,
            after=after,
        )

    def _evaluated(self, progress: Progress) -> tuple[Plan, float, list[Result]]:
        """A generation's plan, when it was ready, and what became of it."""
        strategy = self.experiment.strategy
        if is_steady(strategy):
            began = time.perf_counter()
            self.stream = self.stream or self.evaluator.stream(strategy.window)
            flowed, results = flow(self.experiment, strategy, progress, self.stream)
            return flowed, began, results
        planned = plan(self.experiment, progress)
        asked = time.perf_counter()
        return planned, asked, self.evaluator.evaluate(planned.context, [*planned.candidates, *planned.champion])

    def close(self) -> None:
        self.evaluator.close()
