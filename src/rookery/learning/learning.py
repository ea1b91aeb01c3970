"""A run that learns: members collect rollouts on a fleet, and are updated by them here."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from rookery.envs import arena
from rookery.evolution.generation import Progress
from rookery.experiment import Experiment
from rookery.fleet.specs import cores
from rookery.learning.cohort import Cohort
from rookery.learning.ppo import PPO, Actor, PPOState
from rookery.learning.trainer import Trainer
from rookery.policies.actor_critic import ActorCritic
from rookery.pursuits import Round
from rookery.rollout.rollouts import Rollouts
from rookery.rollout.shared import SharedEvaluator


class Learning:
    """Generations of a learner: a rollout of every member, and the updates by them."""

    def __init__(self, experiment: Experiment, ppo: PPO) -> None:
        self.experiment, self.ppo = experiment, ppo
        self.model = ActorCritic(experiment.policy, arena(experiment.env).spaces, ppo.critic, ppo.std)
        ppo.refuse_misfit(self.model)
        self.evaluator = SharedEvaluator(
            experiment.env,
            experiment.policy,
            experiment.engine,
            experiment.unseen,
            actor="rookery.rollout.worker:Worker",
            critic=ppo.critic,
        )
        self.trainer = Trainer(ppo, self.model, cores())
        rollouts = Rollouts(self.evaluator.fleet)
        self.cohort = Cohort(ppo, self.trainer, rollouts, experiment.env.reward_scale)

    def begin(self, start: Actor | None) -> Progress:
        """The run before its first steps."""
        state = self.ppo.init(self.experiment.seed, self.model, start)
        return Progress(0, 0, 0, state, state.best.moments)

    def generation(self, progress: Progress) -> Round:
        """Collect, and learn."""
        assert isinstance(progress.strategy, PPOState)
        state, trajectories, times = self.cohort.learn(progress.strategy)
        best, scale = state.best, self.experiment.env.reward_scale
        returns = [value / scale for trajectory in trajectories for value in trajectory.returns]
        scores = [member.score for member in state.members if member.score is not None]
        steps = sum(trajectory.steps for trajectory in trajectories)

        def after(progress: Progress) -> Progress:
            return replace(
                progress,
                generation=progress.generation + 1,
                steps=progress.steps + steps,
                episodes=progress.episodes + len(returns),
                strategy=state,
                moments=best.moments,
            )

        return Round(
            steps=steps,
            episodes=len(returns),
            earned=np.array((scores if len(state.members) > 1 else returns or scores) or [np.nan]),
            score=best.score,
            episode_length=float(np.mean(best.lengths)) if best.lengths else np.nan,
            failures=(),
            failed=0,
            hopeless=False,
            times=times,
            after=after,
        )

    def close(self) -> None:
        self.trainer.close()
        self.evaluator.close()
