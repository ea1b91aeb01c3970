"""What a worker of a learner holds: it evaluates, as all workers do, and collects steps to learn from."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.envs import Env
from rookery.policies import PolicySpec
from rookery.policies.actor_critic import ActorCritic, Sharing
from rookery.rollout.collect import Collector, Stint, Trajectory
from rookery.rollout.evaluate import Evaluator


class Worker(Evaluator):
    """An evaluator that also collects."""

    def __init__(
        self,
        env: Env,
        network: PolicySpec,
        threads: int = 1,
        unseen: Env | None = None,
        critic: Sharing = "auto",
    ) -> None:
        super().__init__(env, network, threads, unseen=unseen)
        self.collector = Collector(self.arena, ActorCritic(network, self.arena.spaces, critic), threads)

    def collect(self, stints: Sequence[Stint]) -> list[Trajectory]:
        """A trajectory for each stint, or nothing where something is missing."""
        return self.collector.collect(stints)

    def close(self) -> None:
        self.collector.close()
        super().close()
