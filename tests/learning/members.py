"""Small learners in this process: what they collect, and what becomes of them by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from rookery.envs import Env, arena
from rookery.learning.ppo import PPO, Member, PPOState, experienced
from rookery.learning.trainer import Trainer
from rookery.policies import MLP, Network
from rookery.policies.actor_critic import ActorCritic
from rookery.rollout.collect import Collector, Trajectory

CARTPOLE = Env(id="CartPole-v1")
SMALL = MLP(hidden=(8,), normaliser=None)
SETTINGS: dict[str, Any] = {"envs": 4, "rollout": 16, "epochs": 2, "minibatch": 32}


class School:
    """A learner with its model, its environments and its compiled program."""

    def __init__(self, env: Env = CARTPOLE, network: Network = SMALL, seed: int = 0, **settings: Any) -> None:
        self.ppo = PPO(**{**SETTINGS, **settings})
        self.arena = arena(env)
        self.model = ActorCritic(network, self.arena.spaces, self.ppo.critic, self.ppo.std)
        self.trainer = Trainer(self.ppo, self.model, 1)
        self.collector = Collector(self.arena, self.model)
        self.state = self.ppo.init(seed, self.model)

    def collect(self, state: PPOState) -> list[Trajectory]:
        """The rollout of each member, collected together."""
        return self.collector.collect([self.ppo.stint(state, place) for place in range(len(state.members))])

    def learn(self, state: PPOState, place: int, trajectory: Trajectory, **hyperparameters: float) -> Member:
        """A member after an update, with hyperparameters of its own."""
        member = state.members[place]
        member = replace(member, hyperparameters=member.hyperparameters | hyperparameters)
        actor = state.older[0][place] if state.older else None
        return self.trainer.update(state.seed, member, trajectory, actor)

    def generation(self, state: PPOState) -> PPOState:
        """The state after a generation."""
        state = self.ppo.begin(state)
        trajectories = self.collect(state)
        learned = [self.learn(state, place, trajectory) for place, trajectory in enumerate(trajectories)]
        pairs = zip(learned, trajectories, strict=True)
        return self.ppo.advance(state, tuple(experienced(member, taken, 1.0) for member, taken in pairs))

    def generations(self, count: int, state: PPOState | None = None) -> PPOState:
        """The state after some generations."""
        state = state or self.state
        for _ in range(count):
            state = self.generation(state)
        return state

    def close(self) -> None:
        self.trainer.close()
        self.collector.close()
        self.arena.close()


def stacked(trajectories: Sequence[Trajectory], name: str) -> bytes:
    """An array of each, as bits."""
    return b"".join(getattr(trajectory, name).tobytes() for trajectory in trajectories)
