"""A run that learns: members collect rollouts on a fleet, and are updated by them here."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rookery.envs import arena
from rookery.errors import UserError
from rookery.evolution.generation import Progress
from rookery.experiment import Experiment
from rookery.fleet.specs import cores
from rookery.learning.ppo import PPO, Actor, Member, PPOState, experienced
from rookery.policies.actor_critic import ActorCritic
from rookery.pursuits import Round
from rookery.rollout.collect import Trajectory
from rookery.rollout.rollouts import Rollouts
from rookery.rollout.shared import SharedEvaluator


class _Lesson(NamedTuple):
    """What members collected, what became of them by it, and the seconds in which the head only collected."""

    trajectories: list[Trajectory]
    learned: list[Member]
    collecting: float


class Learning:
    """Generations of a learner: a rollout of every member, and the updates by them."""

    def __init__(self, experiment: Experiment, ppo: PPO) -> None:
        try:
            from rookery.learning.trainer import Trainer
        except ModuleNotFoundError as error:
            raise UserError(f"algorithm.type=ppo needs {error.name}: pip install 'rookery[learn]'") from None
        self.experiment, self.ppo = experiment, ppo
        self.model = ActorCritic(experiment.policy, arena(experiment.env).spaces, ppo.critic, ppo.std)
        ppo.refuse_misfit(self.model)
        self.trainer = Trainer(ppo, self.model, cores())
        self.evaluator = SharedEvaluator(experiment.env, experiment.policy, experiment.engine, critic=ppo.critic)
        self.rollouts = Rollouts(self.evaluator.fleet)
        self.ahead: tuple[int, list[Trajectory]] | None = None

    def begin(self, start: Actor | None) -> Progress:
        """The run before its first steps."""
        state = self.ppo.init(self.experiment.seed, self.model, start)
        return Progress(0, 0, 0, state, state.best.moments)

    def generation(self, progress: Progress) -> Round:
        """Collect, and learn."""
        began = time.perf_counter()
        assert isinstance(progress.strategy, PPOState)
        state = self.ppo.begin(progress.strategy)
        lesson = self._lesson(state)
        seconds = time.perf_counter() - began
        state = self._advanced(state, lesson.learned, lesson.trajectories)
        best, scale = state.best, self.experiment.env.reward_scale
        returns = [value / scale for trajectory in lesson.trajectories for value in trajectory.returns]
        scores = [member.score for member in state.members if member.score is not None]
        steps = sum(trajectory.steps for trajectory in lesson.trajectories)

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
            times=_times(lesson, seconds),
            after=after,
        )

    def close(self) -> None:
        self.trainer.close()
        self.evaluator.close()

    def _lesson(self, state: PPOState) -> _Lesson:
        """Each member learns as soon as its rollout is there, while others still collect."""
        began = time.perf_counter()
        found: dict[int, Trajectory] = {}
        under_way: dict[int, Future[Member]] = {}
        for place, trajectory in self._collected(state):
            actor = state.older[0][place] if state.older else None
            found[place] = trajectory
            under_way[place] = self.trainer.start(state, state.members[place], trajectory, actor)
        trajectories = [found[place] for place in range(len(found))]
        if self.ppo.staleness:
            following = self.ppo.begin(self._advanced(state, state.members, trajectories))
            self.ahead = following.generation, [each for _, each in sorted(self._asked(following))]
        collecting = time.perf_counter() - began
        return _Lesson(trajectories, [under_way[place].result() for place in range(len(found))], collecting)

    def _collected(self, state: PPOState) -> Iterable[tuple[int, Trajectory]]:
        """This generation's rollouts: they are there already where acting may be ahead of learning."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None and ahead[0] == state.generation:
            return enumerate(ahead[1])
        return self._asked(state)

    def _asked(self, state: PPOState) -> Iterable[tuple[int, Trajectory]]:
        return self.rollouts.collect([self.ppo.stint(state, place) for place in range(len(state.members))])

    def _advanced(
        self, state: PPOState, members: Iterable[Member], trajectories: Iterable[Trajectory]
    ) -> PPOState:
        scale = self.experiment.env.reward_scale
        pairs = zip(members, trajectories, strict=True)
        return self.ppo.advance(state, tuple(experienced(*pair, scale) for pair in pairs))


def _times(lesson: _Lesson, seconds: float) -> dict[str, float]:
    """Where a generation's seconds went; collecting is divided as the collectors say."""
    acting, waiting = (sum(getattr(t, name) for t in lesson.trajectories) for name in ("acting", "waiting"))
    act = lesson.collecting * acting / max(acting + waiting, 1e-9)
    return {"act": act, "environment": lesson.collecting - act, "update": seconds - lesson.collecting}
