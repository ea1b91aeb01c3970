"""Members that learn together: each collects a rollout, and is updated by it as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from rookery.learning.ppo import PPO, Member, PPOState, experienced
from rookery.learning.trainer import Trainer
from rookery.rollout.collect import Stint, Trajectory


class Source(Protocol):
    """Where rollouts come from: a trajectory for each stint with the stint's place, as they come."""

    def collect(self, stints: Sequence[Stint]) -> Iterator[tuple[int, Trajectory]]: ...


class Lesson(NamedTuple):
    """What a generation has made of the members, from what, and where its seconds went."""

    state: PPOState
    trajectories: list[Trajectory]
    times: dict[str, float]


class Cohort:
    """The members of one learner, wherever their environments are. What it holds can be made again at any time."""

    def __init__(self, ppo: PPO, trainer: Trainer, source: Source, reward_scale: float) -> None:
        self.ppo, self.trainer, self.source, self.scale = ppo, trainer, source, reward_scale
        self.ahead: tuple[list[tuple[int, int]], list[Trajectory]] | None = None

    def learn(self, state: PPOState) -> Lesson:
        """One generation: all members collect and learn, some while others still collect."""
        began = time.perf_counter()
        state = self.ppo.begin(state)
        found: dict[int, Trajectory] = {}
        under_way: dict[int, Future[Member]] = {}
        for place, trajectory in self._collected(state):
            actor = state.older[0][place] if state.older else None
            found[place] = trajectory
            under_way[place] = self.trainer.start(state.seed, state.members[place], trajectory, actor)
        self.trainer.go()
        trajectories = [found[place] for place in range(len(found))]
        if self.ppo.staleness:
            following = self.ppo.begin(self._advanced(state, state.members, trajectories))
            self.ahead = _ages(following), [each for _, each in sorted(self._asked(following))]
        collecting = time.perf_counter() - began
        learned = [under_way[place].result() for place in range(len(found))]
        advanced = self._advanced(state, learned, trajectories)
        acting, waiting = (sum(getattr(t, name) for t in trajectories) for name in ("acting", "waiting"))
        act = collecting * acting / max(acting + waiting, 1e-9)  # divided as the collectors say
        seconds = time.perf_counter() - began
        times = {"act": act, "environment": collecting - act, "update": seconds - collecting}
        return Lesson(advanced, trajectories, times)

    def _collected(self, state: PPOState) -> Iterable[tuple[int, Trajectory]]:
        """This generation's rollouts: they are there already where acting may be ahead of learning."""
        ahead, self.ahead = self.ahead, None
        if ahead is not None and ahead[0] == _ages(state):
            return enumerate(ahead[1])
        return self._asked(state)

    def _asked(self, state: PPOState) -> Iterable[tuple[int, Trajectory]]:
        return self.source.collect([self.ppo.stint(state, place) for place in range(len(state.members))])

    def _advanced(
        self, state: PPOState, members: Iterable[Member], trajectories: Iterable[Trajectory]
    ) -> PPOState:
        pairs = zip(members, trajectories, strict=True)
        return self.ppo.advance(state, tuple(experienced(*pair, self.scale) for pair in pairs))


def _ages(state: PPOState) -> list[tuple[int, int]]:
    """What tells one generation's members from another's."""
    return [(member.id, member.age) for member in state.members]
