"""A member of a population is what it would be alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env
from rookery.learning.ppo import PPOState
from rookery.learning.trainer import Trainer
from rookery.policies import LSTM, MLP, Network
from rookery.store.codec import decode, encode
from tests.learning.members import CARTPOLE, SMALL, School, stacked

PENDULUM = Env(id="Pendulum-v1", max_steps=20)
SETUPS: dict[str, tuple[Env, Network, dict[str, Any]]] = {
    "discrete": (CARTPOLE, SMALL, {}),
    "stale": (CARTPOLE, SMALL, {"staleness": 2}),
    "continuous": (PENDULUM, MLP(hidden=(8,)), {"normalise_rewards": True, "renew": 2}),
    "remembering": (CARTPOLE, LSTM(hidden=(6,)), {"minibatch": 32}),
}


def alone(state: PPOState, place: int) -> PPOState:
    """The same state with only one of its members."""
    older = tuple((actors[place],) for actors in state.older)
    return replace(state, members=(state.members[place],), older=older)


@pytest.mark.parametrize("name", SETUPS)
def test_company_changes_no_bit(name: str) -> None:
    env, network, settings = SETUPS[name]
    school = School(env, network, population=4, **settings)
    hermit = School(env, network, population=4, **settings)
    state, single = school.state, alone(school.state, 2)
    for _ in range(4):
        ours, theirs = school.collect(school.ppo.begin(state)), hermit.collect(hermit.ppo.begin(single))
        school.collector.close()
        school.collector.bands.clear()  # so that environments are made, and what was done in them is repeated
        assert len({trajectory.drawn.tobytes() for trajectory in ours}) == 4, "members differ"
        for part in ("observations", "drawn", "rewards", "over", "fresh"):
            assert stacked(ours[2:3], part) == stacked(theirs, part)
        hermit.collector.close()
        hermit.collector.bands.clear()
        state, single = school.generation(state), hermit.generation(single)
    assert encode(alone(state, 2)) == encode(single)
    for each in (school, hermit):
        each.close()


def test_members_differ_from_the_first_bit_on_and_a_seed_decides_all() -> None:
    one, two, three = (School(population=3, seed=seed) for seed in (0, 0, 1))
    first, again, other = (school.generations(2) for school in (one, two, three))
    assert encode(first) == encode(again) != encode(other)
    starts = [member.parameters.tobytes() for member in one.state.members]
    assert len(set(starts)) == 3
    orders = [one.ppo.order(0, member, remembers=False) for member in first.members]
    assert not np.array_equal(orders[0], orders[1])
    for school in (one, two, three):
        school.close()


def test_a_state_that_was_written_and_read_is_the_same() -> None:
    school = School(PENDULUM, LSTM(hidden=(6,)), population=2, staleness=1, normalise_rewards=True)
    state = school.generations(3)
    read = decode(encode(state), PPOState)
    assert encode(read) == encode(state)
    assert encode(school.generations(2, read)) == encode(school.generations(2, state))
    school.close()


def test_the_best_member_is_deployed() -> None:
    school = School(population=3)
    state = school.generations(3)
    scores = [member.score for member in state.members]
    assert all(score is not None for score in scores)
    best = int(np.argmax(scores))
    champion = school.ppo.champion(state)
    size = school.model.policy.space.size
    np.testing.assert_array_equal(champion.values, state.members[best].parameters[:size])
    assert state.best.id == best
    assert school.state.best.id == 0, "before there is anything to tell them apart by"
    school.close()


def test_members_as_an_axis_of_one_execution_learn_what_they_learn_apart() -> None:
    """As on an accelerator: to float tolerance, since sums may be taken in another order."""
    school = School(population=3, kl_stop=0.5)
    state = school.ppo.begin(school.state)
    trajectories = school.collect(state)
    apart = [school.learn(state, place, trajectory) for place, trajectory in enumerate(trajectories)]
    trainer = Trainer(school.ppo, school.model, 1, together=True)
    futures = [
        trainer.start(state.seed, member, trajectory, None)
        for member, trajectory in zip(state.members, trajectories, strict=True)
    ]
    trainer.go()
    together = [future.result(60) for future in futures]
    trainer.close()
    school.close()
    for one, other in zip(apart, together, strict=True):
        np.testing.assert_allclose(one.parameters, other.parameters, atol=2e-5)
        assert one.count == other.count > 0
        assert one.metrics == pytest.approx(other.metrics, rel=1e-2, abs=1e-4)
