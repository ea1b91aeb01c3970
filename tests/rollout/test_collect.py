"""Rollouts: what a member goes through follows from its stint, wherever and with whom it is collected."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env, arena
from rookery.errors import RookeryError
from rookery.fleet import ActorSpec, EngineSpec, Fleet, Inline, Process
from rookery.learning.cohort import Cohort
from rookery.learning.ppo import PPO, PPOState, experienced
from rookery.learning.trainer import Trainer
from rookery.policies import LSTM, MLP, Network
from rookery.policies.actor_critic import ActorCritic
from rookery.rollout import collect
from rookery.rollout.collect import Collector, Stint, Trajectory, block, env_seeds, joined, shares
from rookery.rollout.rollouts import Rollouts
from rookery.store.codec import encode
from tests.learning.members import CARTPOLE, SMALL, School, stacked

PENDULUM = Env(id="Pendulum-v1", max_steps=9)
SHORT = replace(CARTPOLE, max_steps=15)
ARRAYS = ("observations", "drawn", "rewards", "terminated", "over", "fresh")


@pytest.mark.parametrize("env", [SHORT, PENDULUM], ids=["terminated and cut off", "cut off"])
def test_a_trajectory_is_what_a_plain_loop_goes_through(env: Env) -> None:
    """Episode by episode: a step, what it earned, and a step that only begins the next episode."""
    school = School(env, SMALL, envs=3, rollout=40, minibatch=40)
    (first,) = school.collect(school.state)
    stint = school.ppo.stint(school.state, 0)
    returns, lengths = [], []
    for number, seed in enumerate(env_seeds(stint)):
        alone = arena(env).batch([seed])
        alone.reset()
        shown, over, fresh = alone.receive().observations[0], False, True
        earned = length = 0.0
        for step in range(40):
            np.testing.assert_array_equal(first.observations[step, number], shown)
            assert (first.over[step, number], first.fresh[step, number]) == (over, fresh)
            alone.send(school.model.distribution.action(first.drawn[step, number : number + 1]), np.zeros(1, "i4"))
            taken = alone.receive()
            assert first.rewards[step, number] == taken.rewards[0]
            assert first.terminated[step, number] == taken.terminated[0]
            fresh, begins = over, over
            earned, length = (0.0, 0.0) if begins else (earned + float(taken.rewards[0]), length + 1)
            assert not (begins and taken.rewards[0]), "beginning an episode earns nothing"
            over, shown = bool(taken.terminated[0] or taken.truncated[0]), taken.observations[0]
            if over:
                returns.append(earned)
                lengths.append(length)
        np.testing.assert_array_equal(first.observations[40, number], shown)
        assert (first.over[40, number], first.fresh[40, number]) == (over, fresh)
        alone.close()
    assert first.returns == pytest.approx(returns)
    assert list(first.lengths) == lengths
    assert first.steps == 3 * 40 - first.over[:-1].sum()
    assert first.over[:-1].any()
    school.close()


def test_an_episode_goes_on_from_rollout_to_rollout() -> None:
    school = School(PENDULUM, LSTM(hidden=(4,), normaliser=None), envs=2, rollout=6, minibatch=12)
    state, lengths, before = school.state, [], None
    for _ in range(6):
        (trajectory,) = school.collect(state)
        if before is not None:
            for name in ("observations", "over", "fresh"):
                np.testing.assert_array_equal(getattr(trajectory, name)[0], getattr(before, name)[-1])
            for carry, carried in zip(trajectory.carry, before.carried, strict=True):
                np.testing.assert_array_equal(carry, carried)
        before = trajectory
        lengths += trajectory.lengths
        state = _after(school, state, [trajectory])
    assert lengths == [9] * 6, "36 steps of 2 environments, of which every tenth only begins an episode"
    school.close()


def _after(school: School, state: PPOState, trajectories: Sequence[Trajectory]) -> PPOState:
    """The state after a generation in which nobody learned."""
    pairs = zip(state.members, trajectories, strict=True)
    return school.ppo.advance(state, tuple(experienced(*pair, 1.0) for pair in pairs))


def test_a_collector_without_the_environments_says_so_and_makes_them_of_what_was_done() -> None:
    school = School(SHORT, SMALL, envs=64, rollout=20, minibatch=1280)
    state = _after(school, school.state, school.collect(school.state))
    state = _after(school, state, school.collect(state))
    stint = school.ppo.stint(state, 0)
    other = Collector(school.arena, school.model)
    assert other.collect([replace(stint, done=())]) == []
    assert other.collect([replace(stint, done=stint.done[:1])]) == []
    (theirs,), (ours,) = other.collect([stint]), school.collector.collect([replace(stint, done=())])
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name))
    assert (theirs.returns, theirs.lengths) == (ours.returns, ours.lengths)
    assert len(other.bands) == 1
    halves = [replace(stint, first=first, last=last) for first, last in ((0, 32), (32, 64))]
    (left,), (right,) = (other.collect([half]) for half in halves)
    assert len(other.bands) == 2, "nobody holds environments that are divided otherwise by now"
    assert stacked([joined([left, right])], "drawn") == stacked([ours], "drawn")
    other.close()
    school.close()


def test_environments_are_renewed_and_their_steps_forgotten() -> None:
    school = School(SHORT, SMALL, envs=2, rollout=8, minibatch=16, renew=2)
    state, seeds = school.state, []
    for generation in range(5):
        state = school.ppo.begin(state)
        stint = school.ppo.stint(state, 0)
        assert (stint.begun, stint.rollouts) == (generation // 2 * 2, generation % 2)
        seeds.append(env_seeds(stint))
        (trajectory,) = school.collect(state)
        assert trajectory.fresh[0].all() == (generation % 2 == 0)
        state = _after(school, state, [trajectory])
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3] != seeds[4]
    school.close()


@pytest.mark.parametrize(
    ("envs", "workers", "wanted"),
    [
        (64, 1, [(0, 64)]),
        (64, 2, [(0, 32), (32, 64)]),
        (64, 5, [(0, 32), (32, 64)]),
        (1, 3, [(0, 1)]),
        (96, 2, [(0, 64), (64, 96)]),
        (12, 4, [(0, 12)]),
    ],
)
def test_environments_are_divided_in_whole_blocks(envs: int, workers: int, wanted: list[tuple[int, int]]) -> None:
    assert shares(envs, workers) == wanted
    assert envs % block(envs) == 0


def test_an_environment_that_breaks_is_named() -> None:
    school = School(Env(id="tests.environments:Faulty", options={"every": 1}), envs=2, rollout=4, minibatch=8)
    with pytest.raises(RookeryError, match="member 0, environment 0 ") as error:
        school.collect(school.state)
    assert str(error.value).endswith("RuntimeError: the wheel came off")
    school.close()


class Fleetful:
    """A learner whose members collect on a fleet."""

    def __init__(self, setup: tuple[Env, Network, dict[str, Any]], engine: EngineSpec) -> None:
        env, network, settings = setup
        self.ppo = PPO(epochs=1, **settings)
        self.model = ActorCritic(network, arena(env).spaces)
        arguments = {"env": env, "network": network, "threads": 1, "critic": "auto"}
        self.fleet = Fleet(ActorSpec("rookery.rollout.worker:Worker", arguments), engine)
        self.rollouts = Rollouts(self.fleet)
        self.trainer = Trainer(self.ppo, self.model, 2)
        self.cohort = Cohort(self.ppo, self.trainer, self, 1.0)
        self.before: Callable[[], None] | None = None

    def collect(self, stints: Sequence[Stint]) -> Iterator[tuple[int, Trajectory]]:
        if self.before is not None:
            self.before()
        return self.rollouts.collect(stints)

    def learned(self, generations: int = 4) -> bytes:
        """The bits of the state after so many generations."""
        state = self.ppo.init(0, self.model)
        for _ in range(generations):
            state = self.cohort.learn(state).state
        return encode(state)


@contextmanager
def learner(setup: tuple[Env, Network, dict[str, Any]], engine: EngineSpec) -> Iterator[Fleetful]:
    made = Fleetful(setup, engine)
    try:
        made.fleet.assemble()
        yield made
    finally:
        made.trainer.close()
        made.fleet.close()


SETUPS: dict[str, tuple[Env, Network, dict[str, Any]]] = {
    "one member": (SHORT, SMALL, {"envs": 128, "rollout": 32, "minibatch": 1024}),
    "three members, remembering": (
        PENDULUM,
        LSTM(hidden=(4,)),
        {"population": 3, "envs": 6, "rollout": 16, "minibatch": 48, "renew": 3, "normalise_rewards": True},
    ),
    "five members, stale": (
        SHORT,
        MLP(hidden=(8,)),
        {"population": 5, "envs": 8, "rollout": 8, "minibatch": 64, "staleness": 1},
    ),
}


@pytest.fixture(scope="module", params=SETUPS)
def setup(request: pytest.FixtureRequest) -> tuple[tuple[Env, Network, dict[str, Any]], bytes]:
    """What there is to learn, and the bits that it comes to here."""
    chosen = SETUPS[request.param]
    with learner(chosen, Inline()) as here:
        return chosen, here.learned()


def test_workers_change_no_bit(setup: tuple[tuple[Env, Network, dict[str, Any]], bytes]) -> None:
    chosen, wanted = setup
    with learner(chosen, Process(workers=3)) as there:
        assert there.learned() == wanted


def test_neither_do_threads_nor_halves(
    setup: tuple[tuple[Env, Network, dict[str, Any]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, wanted = setup
    monkeypatch.setattr(collect, "_HALVES", 1)
    with learner(chosen, Inline(threads=2)) as whole:
        assert whole.learned() == wanted


def test_a_killed_worker_changes_no_bit_and_its_successor_gets_to_do_something(
    setup: tuple[tuple[Env, Network, dict[str, Any]], bytes],
) -> None:
    chosen, wanted = setup
    with learner(chosen, Process(workers=2)) as there:
        killed: list[int] = []

        def kill() -> None:
            process = there.fleet.engine.workers[min(there.fleet.workers)].process  # type: ignore[attr-defined]
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

        deeds: list[Callable[[], None]] = [threading.Timer(0.01, kill).start, kill, lambda: None]

        def before() -> None:
            if deeds:
                deeds.pop()()

        there.before = before
        assert there.learned() == wanted
        assert len(set(killed)) == 2
        there.before = None
        there.fleet.ready(2)
        there.learned(1)
        assert sorted(set(there.rollouts.homes.values())) == there.fleet.workers
        assert min(there.fleet.workers) > 0, "who is there now came later"
