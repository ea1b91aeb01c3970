"""A member of Stable-Baselines3's: whole wherever it is, and changed where the library reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.utils import FloatSchedule

from rookery.envs import Env
from rookery.errors import UserError
from rookery.evolution.explore import Perturb
from rookery.evolution.pbt import PBT, PBTState
from rookery.fleet import wire
from rookery.genomes import Vector
from rookery.learning.ppo import apply_hyperparameters
from rookery.learning.sb3 import SB3, SB3Member, SB3State, deployed
from rookery.learning.sb3_nursery import SB3Nursery
from rookery.policies import MLP
from rookery.settings import Range
from rookery.store.codec import decode, encode

CARTPOLE, PENDULUM = Env(id="CartPole-v1"), Env(id="Pendulum-v1", max_steps=20)
SMALL = {"policy_kwargs": {"net_arch": [8]}}
EPISODES = (1, 2)

LEARNERS = {
    "PPO": (
        CARTPOLE,
        SB3(
            keywords={"n_steps": 16, **SMALL},
            population=2,
            envs=2,
            normalise=True,
            learning_rate=1e-3,
            gamma=0.9,
            gae_lambda=0.8,
            clip_range=0.3,
            clip_range_vf=0.4,
            ent_coef=0.01,
            vf_coef=0.6,
            max_grad_norm=0.7,
            target_kl=0.5,
            n_epochs=2,
            batch_size=16,
        ),
    ),
    "SAC": (
        PENDULUM,
        SB3(
            algorithm="SAC",
            keywords={"learning_starts": 32, "buffer_size": 500, "n_steps": 2, **SMALL},
            population=2,
            envs=2,
            rollout=20,
            learning_rate=1e-3,
            gamma=0.9,
            ent_coef=0.2,
            tau=0.01,
            batch_size=8,
            gradient_steps=2,
            target_update_interval=2,
        ),
    ),
    "DQN": (
        CARTPOLE,
        SB3(
            algorithm="DQN",
            keywords={"learning_starts": 8, "buffer_size": 500, **SMALL},
            population=2,
            envs=2,
            rollout=20,
            horizon=1000,
            learning_rate=1e-3,
            gamma=0.9,
            tau=0.5,
            batch_size=8,
            max_grad_norm=5,
            gradient_steps=2,
            target_update_interval=10,
            exploration_fraction=0.5,
            exploration_initial_eps=0.9,
            exploration_final_eps=0.1,
        ),
    ),
    "TD3": (
        PENDULUM,
        SB3(
            algorithm="TD3",
            keywords={"learning_starts": 8, "buffer_size": 500, "action_noise": 0.1, **SMALL},
            population=2,
            envs=2,
            rollout=20,
            learning_rate=1e-3,
            policy_delay=2,
            target_policy_noise=0.3,
            target_noise_clip=0.4,
        ),
    ),
    "A2C": (
        CARTPOLE,
        SB3(algorithm="A2C", keywords=SMALL, population=2, envs=2, learning_rate=1e-3, gae_lambda=0.9),
    ),
}


def nursery(name: str, **changes: Any) -> SB3Nursery:
    env, learner = LEARNERS[name]
    return SB3Nursery(env, MLP(), 1, None, replace(learner, **changes), 5)


def newborn(name: str) -> tuple[SB3Member, ...]:
    return LEARNERS[name][1].found(CARTPOLE, MLP(), 5, None).members


def reared(name: str, updates: int = 2) -> tuple[SB3Nursery, SB3Member, SB3Member]:
    """A nursery with two members that have learned."""
    here = nursery(name)
    here.adopt(newborn(name))
    one, other = (raised.member for raised in here.rear([0, 1], updates, EPISODES))
    return here, one, other


def same(one: SB3Member, other: SB3Member) -> bool:
    return encode(one) == encode(other)


def explored(member: SB3Member) -> dict[str, float]:
    """Other values for all hyperparameters."""
    halved = {name: value / 2 for name, value in member.hyperparameters.items()}
    whole = {name: float(max(1, round(value))) for name, value in halved.items() if name in SB3.WHOLE}
    return halved | whole


def travelled(member: SB3Member) -> SB3Member:
    """The member after it was sent to somebody."""
    return wire.unpack(memoryview(bytes(wire.pack(member).joined()))).read(SB3Member)


def stored(member: SB3Member) -> SB3Member:
    return decode(encode(member), SB3Member)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_member_is_the_same_after_any_journey(name: str) -> None:
    here, one, _ = reared(name)
    for journey in (travelled, stored):
        arrived = journey(one)
        assert same(arrived, one)
        there = nursery(name)
        there.adopt([arrived])
        assert same(there.give(0), one)
        model = there._model(0)
        model.restore(arrived)
        assert same(model.read(arrived), one)
        assert model.effective(one.hyperparameters) == one.hyperparameters
    here.close()


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_what_a_member_learns_is_the_same_wherever_it_lives(name: str) -> None:
    here, one, other = reared(name)
    there = nursery(name)
    there.adopt([travelled(other), travelled(one)])
    (gone_on,) = there.rear([0], 2, EPISODES)
    (stayed,) = here.rear([0], 2, EPISODES)
    assert same(gone_on.member, stayed.member)
    assert gone_on.earned == stayed.earned
    assert stayed.member.steps == 2 * one.steps > 0


@pytest.mark.parametrize("name", LEARNERS)
def test_a_child_acts_and_learns_as_its_parent_would(name: str) -> None:
    here, one, other = reared(name)
    here.take(1, travelled(one))
    child = here.give(1)
    assert (child.id, child.age, child.steps) == (1, other.age, other.steps)
    assert np.array_equal(deployed(child), deployed(one))
    assert child.hyperparameters == one.hyperparameters
    if name in ("PPO", "A2C"):  # with one and the same name, and so with one and the same experience
        there = nursery(name)
        there.adopt([replace(child, id=0, age=one.age, steps=one.steps, episodes=one.episodes)])
        (again,) = there.rear([0], 1, EPISODES)
        (parent,) = here.rear([0], 1, EPISODES)
        assert same(again.member, parent.member)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("journey", [lambda member: member, travelled, stored], ids=["here", "sent", "stored"])
def test_hyperparameters_have_effect_after_exploiting_and_exploring(
    name: str, journey: Callable[[SB3Member], SB3Member]
) -> None:
    here, one, _ = reared(name, 1)
    here.take(1, one)
    wanted = explored(one)
    effective = here.tune(1, wanted)
    assert effective == here.learner.settings(here.give(1)) == wanted
    there = here if journey(one) is one else nursery(name)
    there.adopt([journey(here.give(1))])
    assert there.tune(1, {}) == wanted, "what is restored undoes nothing"
    there.rear([1], 1, EPISODES)
    assert there._model(1).effective(wanted) == wanted, "nor does learning"


SENSITIVE = {"target_kl": 1e-9, "clip_range": 1e-3, "clip_range_vf": 1e-3, "max_grad_norm": 1e-2}


@pytest.mark.parametrize(
    ("name", "hyperparameter"), [(name, each) for name in LEARNERS for each in newborn(name)[0].hyperparameters]
)
def test_an_update_is_that_of_an_algorithm_made_with_the_value(
    learned: Callable[[str], SB3Member], name: str, hyperparameter: str
) -> None:
    one = learned(name)
    value = SENSITIVE.get(hyperparameter, explored(one)[hyperparameter])

    def after(member: SB3Member, **made_with: float) -> dict[str, Any]:
        there = nursery(name, **made_with)
        there.adopt([member])
        (raised,) = there.rear([0], 2, EPISODES)
        return {name: array.astype(np.float32) for name, array in raised.member.arrays.items()}

    tuned = after(stored(apply_hyperparameters(one, {hyperparameter: value})))
    made = after(replace(one, hyperparameters={}), **{hyperparameter: _whole(hyperparameter, value)})
    assert all(np.array_equal(tuned[key], made[key]) for key in made)
    untouched = after(one)
    assert any(not np.array_equal(tuned[key], untouched[key]) for key in made), "and it is one that matters"


@pytest.fixture(scope="module")
def learned() -> Callable[[str], SB3Member]:
    """A member of a learner after an update."""
    return cache(lambda name: reared(name, 1)[1])


def _whole(name: str, value: float) -> float:
    return int(value) if name in SB3.WHOLE else value


def test_the_library_is_seen_to_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    here, one, _ = reared("PPO", 1)
    here.take(1, one)
    wanted = explored(one) | {"target_kl": 1e9}
    here.tune(1, wanted)
    algorithm = here._model(1).algorithm
    seen: dict[str, set[float]] = {}
    step, compute, asked = (
        torch.optim.Adam.step,
        RolloutBuffer.compute_returns_and_advantage,
        FloatSchedule.__call__,
    )

    def stepping(optimiser: Any, *args: Any, **kwargs: Any) -> Any:
        seen.setdefault("learning_rate", set()).update(group["lr"] for group in optimiser.param_groups)
        return step(optimiser, *args, **kwargs)

    def computing(buffer: Any, *args: Any, **kwargs: Any) -> None:
        seen.setdefault("gamma", set()).add(buffer.gamma)
        seen.setdefault("gae_lambda", set()).add(buffer.gae_lambda)
        compute(buffer, *args, **kwargs)

    def asking(schedule: Any, progress: float) -> float:
        value = asked(schedule, progress)
        for name in ("clip_range", "clip_range_vf"):
            if getattr(algorithm, name) is schedule:
                seen.setdefault(name, set()).add(value)
        return value

    monkeypatch.setattr(torch.optim.Adam, "step", stepping)
    monkeypatch.setattr(RolloutBuffer, "compute_returns_and_advantage", computing)
    monkeypatch.setattr(FloatSchedule, "__call__", asking)
    here.rear([1], 2, EPISODES)
    names = ("learning_rate", "gamma", "gae_lambda", "clip_range", "clip_range_vf")
    assert seen == {name: {wanted[name]} for name in names}
    assert here._model(1).normaliser.gamma == wanted["gamma"], "rewards are discounted alike where they are scaled"


def test_a_learned_entropy_coefficient_travels_with_its_optimiser() -> None:
    env, learner = LEARNERS["SAC"]
    here = SB3Nursery(env, MLP(), 1, None, replace(learner, ent_coef=None), 5)
    here.adopt([replace(member, hyperparameters={"learning_rate": 1e-3}) for member in newborn("SAC")])
    (raised,) = here.rear([0], 1, EPISODES)
    assert raised.member.arrays["log_ent_coef"] != 0
    here.take(1, travelled(raised.member))
    here.tune(1, {"learning_rate": 0.25})
    model = here._model(1)
    assert model.algorithm.log_ent_coef.item() == raised.member.arrays["log_ent_coef"]
    (group,) = model.algorithm.ent_coef_optimizer.param_groups
    assert group["lr"] == 0.25
    (slot,) = model.algorithm.ent_coef_optimizer.state.values()
    assert slot["step"] == raised.member.arrays["ent_coef_optimizer/0/step"] > 0


def test_what_is_deployed_acts_as_the_library_does() -> None:
    here, one, other = reared("PPO")
    assert one.normaliser is not None
    assert one.normaliser.observations is not None
    assert one.normaliser.observations.count > 64
    seen = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    for member in (one, other):
        model = here._model(member.id)
        model.restore(member)
        wanted, _ = model.algorithm.predict(model.normaliser.normalize_obs(seen), deterministic=True)
        here.parameters([Vector(deployed(member))], np.zeros(0, np.float32))
        actions, _ = here.policy.act({}, seen[None, :, None])
        assert np.array_equal(actions.reshape(-1), wanted)


def test_a_member_off_policy_plays_before_it_learns_again() -> None:
    here, one, _ = reared("DQN")
    there = nursery("DQN")
    there.adopt([travelled(one)])
    (raised,) = there.rear([0], 1, EPISODES)
    replayed = there._model(0).algorithm.replay_buffer
    assert raised.steps == 8 + 40, "as many steps as before it learned for the first time, then its own"
    assert replayed.size() * 2 == raised.steps
    (stayed,) = here.rear([0], 1, EPISODES)
    assert stayed.steps == 40


def test_selection_copies_and_changes_members() -> None:
    gene = Range(low=1e-5, high=1e-1, scale="log")
    pbt = PBT(learner=LEARNERS["PPO"][1], patience=0, explore=Perturb(resample=0))
    _, one, other = reared("PPO", 1)
    state = PBTState(SB3State(5, (one, other)))
    state, (selection,) = pbt.select(state, {0: [1.0], 1: [9.0]}, {"learning_rate": gene})
    child = state.learner.members[0]
    assert (selection.child, selection.parent) == (0, 1)
    assert child.hyperparameters["learning_rate"] == selection.after["learning_rate"]
    assert selection.after["learning_rate"] in (pytest.approx(0.8e-3), pytest.approx(1.2e-3))
    assert np.array_equal(deployed(child), deployed(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "PP0"}, "there is no 'PP0'. Did you mean 'PPO'?"),
        ({"algorithm": "no_such_package:PPO"}, "cannot import 'no_such_package'"),
        ({"keywords": {"n_step": 3}}, "settings.n_step: PPO has no such argument. Did you mean 'n_steps'?"),
        ({"tau": 0.1}, "algorithm.learner.tau: PPO has no such argument"),
        ({"policy": "MlpPolic"}, "Policy MlpPolic unknown"),
        ({"rollout": 3}, "PPO has settings.n_steps instead"),
        ({"algorithm": "SAC", "keywords": {}}, "cannot be used like this"),
    ],
)
def test_what_the_library_cannot_do_is_one_line(changes: dict[str, Any], message: str) -> None:
    learner = replace(SB3(keywords={"n_steps": 8}, envs=2, batch_size=16), **changes)
    if changes.get("algorithm") == "SAC":
        learner = SB3(algorithm="SAC")
    with pytest.raises(UserError) as refused:
        SB3Nursery(CARTPOLE, MLP(), 1, None, learner, 0)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
