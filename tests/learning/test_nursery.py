"""Members that live on a worker: what becomes of them there is what was decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rookery.envs import Env
from rookery.evolution.exploit import WinnerTakesAll
from rookery.evolution.explore import Perturb
from rookery.evolution.pbt import PBT, PBTState
from rookery.fleet import wire
from rookery.genomes import Vector
from rookery.learning.nursery import Nursery
from rookery.learning.ppo import PPO, Member, PPOState
from rookery.learning.update import Batch, Optimised, Shape, make_update
from rookery.policies import MLP
from rookery.policies.network import Normaliser
from rookery.rollout.collect import Trajectory
from rookery.rollout.results import Candidate, Context, Trial
from rookery.settings import Range
from rookery.store.codec import decode, encode

SEED = 3
ENV = Env(id="CartPole-v1")
NETWORK = MLP(hidden=(8,), normaliser=Normaliser())
LEARNER = PPO(
    population=2, envs=4, rollout=16, epochs=4, minibatch=32, lr=0.01, clip_value=0.2, kl_stop=0.05, entropy=0.01
)
OTHER = {  # than the learner's own
    "lr": 0.003,
    "gamma": 0.5,
    "gae_lambda": 0.3,
    "clip": 0.01,
    "clip_value": 0.01,
    "value": 2.0,
    "entropy": 0.2,
    "gradient_norm": 0.05,
    "kl_stop": 1e-7,
}


class Place(NamedTuple):
    """Two workers, and an update computed without any of what they go through."""

    here: Nursery
    there: Nursery
    program: Any

    def parents(self) -> tuple[Member, Member]:
        """Two members after a generation, each with steps and moments of its own."""
        state = LEARNER.found(ENV, NETWORK, SEED, None)
        self.here.adopt(state.members)
        first, second = (raised.member for raised in self.here.rear([0, 1], 1, (1, 2)))
        return first, second

    def trajectory(self, member: Member) -> Trajectory:
        """What a member collects next."""
        state = LEARNER.begin(PPOState(SEED, self.here.policy.space.size, (member,)))
        (trajectory,) = self.there.collector.collect([LEARNER.stint(state, 0)])
        return trajectory

    def directly(self, member: Member, values: Mapping[str, float]) -> NDArray[np.float32]:
        """The parameters after an update with these values, whatever the member itself says."""
        taken = self.trajectory(member)
        batch = Batch(
            taken.observations,
            taken.drawn,
            taken.rewards,
            taken.terminated,
            taken.over,
            taken.fresh,
            taken.carry,
        )
        optimised = Optimised(member.parameters, member.mean, member.square, np.float32(member.count))
        scaling = self.here.policy.scaling(member.moments)
        assert scaling is not None
        used = {name: np.float32(value) for name, value in values.items()}
        order = LEARNER.order(SEED, member, remembers=False)
        found, _ = self.program(optimised, batch, (scaling.mean, scaling.std), None, order, used)
        return np.asarray(found.parameters)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with threadpool_limits(1):
        here, there = (Nursery(ENV, NETWORK, 1, None, LEARNER, SEED) for _ in range(2))
        shape = Shape(
            minibatch=LEARNER.minibatch,
            accumulate=1,
            normalise_advantages=True,
            clip_values=True,
            stop_at_kl=True,
            clip_observations=Normaliser().clip,
        )
        yield Place(here, there, jax.jit(make_update(here.collector.model, shape)))
        here.close()
        there.close()


def learned(nursery: Nursery, member: Member) -> NDArray[np.float32]:
    """The parameters of a member after it has learned somewhere."""
    nursery.adopt([member])
    (raised,) = nursery.rear([member.id], 1, (1, 2))
    return raised.member.parameters


@pytest.mark.parametrize("name", PPO.DYNAMIC)
def test_the_next_update_uses_what_was_chosen(place: Place, name: str) -> None:
    assert set(OTHER) == set(PPO.DYNAMIC)
    parent, child = place.parents()
    gene = {name: Range(low=OTHER[name] / 2, high=OTHER[name])}
    pbt = PBT(learner=LEARNER, exploit=WinnerTakesAll(), explore=Perturb(up=1e9, down=1e9, resample=0), patience=0)
    state = PBTState(PPOState(SEED, 1, (parent, child)))
    after, (selection,) = pbt.select(state, {0: (2.0,), 1: (1.0,)}, gene)
    assert (selection.child, selection.after) == (1, {name: OTHER[name]})
    decided = next(member for member in after.learner.members if member.id == 1)

    place.here.adopt([parent, child])
    place.here.take(1, place.here.give(0))
    assert place.here.tune(1, selection.after)[name] == OTHER[name], "read back"
    copied = place.here.members[1]
    resumed = decode(encode(after), PBTState).learner.members[1]
    transferred = wire.pack(copied).read(Member)
    assert isinstance(resumed, Member)
    assert encode(copied) == encode(decided), "what lives on the worker is what the head believes"

    wanted = place.directly(decided, parent.hyperparameters | selection.after)
    unchanged = place.directly(decided, parent.hyperparameters)
    assert not np.array_equal(wanted, unchanged)
    for nursery, member in (
        (place.here, copied),
        (place.there, resumed),
        (place.there, transferred),
    ):
        np.testing.assert_array_equal(learned(nursery, member), wanted)


def test_a_copy_acts_and_learns_as_its_parent_does(place: Place) -> None:
    parent, child = place.parents()
    assert not np.array_equal(parent.parameters, child.parameters)
    place.here.take(1, parent)
    copy = place.here.members[1]
    for name in ("parameters", "mean", "square"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(parent, name))
    assert (copy.id, copy.age, copy.steps, copy.count) == (1, child.age, child.steps, parent.count)
    assert copy.worlds is child.worlds, "its environments are its own"
    assert copy.hyperparameters == parent.hyperparameters

    played = [
        place.here.evaluate(
            Context(np.zeros(0, np.float32), member.moments),
            [Trial(Candidate(0, Vector(place.here.collector.model.deployed(member.parameters))), (5, 6, 7))],
        )[0]
        for member in (parent, copy)
    ]
    assert played[0].returns == played[1].returns
    batch, trainer = place.trajectory(parent), place.here.trainer
    same = replace(copy, id=parent.id, age=parent.age)  # these name the order of the minibatches
    updated = [trainer.update(SEED, member, batch, None) for member in (parent, same)]
    for name in ("parameters", "mean", "square"):
        assert getattr(updated[0], name).tobytes() == getattr(updated[1], name).tobytes()


def test_a_member_is_the_same_wherever_and_with_whom_it_lives(place: Place) -> None:
    place.here.adopt(LEARNER.found(ENV, NETWORK, SEED, None).members)
    together = place.here.rear([0, 1], 2, (1, 2, 3))
    for number in (1, 0):
        place.there.adopt([LEARNER.found(ENV, NETWORK, SEED, None).members[number]])
        (alone,) = place.there.rear([number], 2, (1, 2, 3))
        assert encode(alone.member) == encode(together[number].member)
        assert alone.earned == together[number].earned
        assert len(alone.earned) == 3
