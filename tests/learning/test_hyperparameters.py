"""Hyperparameters are data: a change counts from the very next update on, and compiles nothing again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env
from rookery.errors import UserError
from rookery.learning.ppo import PPO, Member, apply_hyperparameters
from rookery.policies import LSTM, MLP
from rookery.policies.actor_critic import ActorCritic
from rookery.rollout.collect import Trajectory
from tests.learning.members import School


class Lesson:
    """A rollout, and what a member would become by it with one hyperparameter or another."""

    def __init__(self, school: School) -> None:
        self.school = school
        (self.trajectory,) = school.collect(school.state)

    def learned(self, trajectory: Trajectory | None = None, **hyperparameters: float) -> Member:
        return self.school.learn(self.school.state, 0, trajectory or self.trajectory, **hyperparameters)

    def moved(self, **hyperparameters: float) -> Any:
        """How far the parameters went."""
        return self.learned(**hyperparameters).parameters.astype(np.float64) - self.start

    @property
    def start(self) -> Any:
        return self.school.state.members[0].parameters

    def part(self, vector: Any, name: str) -> Any:
        return self.school.model.space.split(vector)[name]


@pytest.fixture(scope="module")
def one_step() -> Iterator[Lesson]:
    """One step of the optimiser on the whole rollout, everything that can be switched on switched on."""
    school = School(minibatch=64, epochs=1, clip_value=10.0, kl_stop=100.0, entropy=0.01)
    yield Lesson(school)
    assert school.trainer.program._cache_size() == 1, "no change has compiled anything"
    school.close()


@pytest.fixture(scope="module")
def steps() -> Iterator[Lesson]:
    """Sixteen steps, in the course of which probabilities and values move."""
    school = School(minibatch=16, epochs=4, clip_value=10.0, kl_stop=100.0, entropy=0.01, lr=0.01)
    yield Lesson(school)
    assert school.trainer.program._cache_size() == 1, "no change has compiled anything"
    school.close()


def test_the_learning_rate_scales_the_step(one_step: Lesson) -> None:
    np.testing.assert_allclose(one_step.moved(lr=0.002), 2 * one_step.moved(lr=0.001), atol=1e-7)


def test_gamma_and_lambda_decide_how_far_advantages_look(one_step: Lesson) -> None:
    """Without a tomorrow, a return is a reward: CartPole pays the same for every step, so its mean is all."""
    lost = one_step.learned(gamma=0.0, value=1.0)
    school, first = one_step.school, one_step.trajectory
    values = school.model.both(school.model.space.split(one_step.start), first.observations[:-1], ())[1]
    counted = ~first.over[:-1]
    assert lost.metrics["value_loss"] == pytest.approx(np.mean((values - 1.0)[counted] ** 2), rel=1e-4)
    far, near = (one_step.learned(gae_lambda=value).metrics["value_loss"] for value in (1.0, 0.0))
    assert far > near, "returns that trust rewards are further away from a young critic's values"
    myopic = (one_step.learned(gamma=0.0, gae_lambda=value).parameters for value in (0.0, 1.0))
    np.testing.assert_array_equal(*myopic)


def test_the_weight_of_values_moves_the_critic_alone(one_step: Lesson) -> None:
    """One step of Adam hides a gradient's length, which its own first moment does not."""
    with_value, without = (one_step.learned(value=v, gradient_norm=1e9) for v in (0.5, 0.0))
    half, whole = (one_step.part(member.mean, "value w") for member in (with_value, without))
    assert np.abs(half).max() > 0
    assert not whole.any()
    np.testing.assert_allclose(
        one_step.part(one_step.learned(value=1.0, gradient_norm=1e9).mean, "value w"), 2 * half, rtol=1e-5
    )
    for name in ("w0", "w"):
        one, other = (one_step.part(member.mean, name) for member in (with_value, without))
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_the_entropy_bonus_spreads_the_choices(steps: Lesson) -> None:
    spread, narrow = (steps.learned(entropy=v, value=0.0).metrics["entropy"] for v in (10.0, 0.0))
    assert spread > narrow


def test_the_clip_range_holds_probabilities(steps: Lesson) -> None:
    tight, loose = (steps.learned(clip=value) for value in (0.001, 10.0))
    assert tight.metrics["clipped"] > loose.metrics["clipped"] == 0
    assert tight.metrics["kl"] < loose.metrics["kl"]


def test_the_clip_range_of_values_holds_values(steps: Lesson) -> None:
    def distance(**hyperparameters: float) -> float:
        model, seen = steps.school.model, steps.trajectory.observations
        vectors = (steps.start, steps.learned(**hyperparameters).parameters)
        before, after = (model.both(model.space.split(vector), seen, ())[1] for vector in vectors)
        return float(np.abs(after - before).mean())

    assert distance(clip_value=0.001) < 0.5 * distance(clip_value=100.0)


def test_long_gradients_are_shortened(one_step: Lesson) -> None:
    whole, short = (one_step.learned(gradient_norm=value) for value in (1e9, 0.01))
    norm = whole.metrics["gradient_norm"]
    assert norm == pytest.approx(np.linalg.norm(whole.mean) / 0.1, rel=1e-4)
    assert short.metrics["gradient_norm"] == pytest.approx(norm), "told as it was"
    assert np.linalg.norm(short.mean) / 0.1 == pytest.approx(0.01, rel=1e-4)


def test_an_update_ends_where_it_has_gone_far_enough(steps: Lesson) -> None:
    whole, early, at_once = (steps.learned(kl_stop=value) for value in (100.0, 0.0005, 1e-12))
    assert whole.count == 16
    assert 1 < early.count < 16
    assert at_once.count == 2, "the first step has nothing to be compared with"
    assert early.metrics["kl"] < whole.metrics["kl"]


def test_a_state_knows_its_changes(one_step: Lesson) -> None:
    """What is set is what is read back, and it is what the next update uses."""
    member = one_step.school.state.members[0]
    assert set(member.hyperparameters) == set(PPO.DYNAMIC)
    values = {name: 0.5 * value for name, value in member.hyperparameters.items()}
    changed = apply_hyperparameters(member, values)
    assert changed.hyperparameters == values
    assert member.hyperparameters != values
    assert one_step.school.ppo.settings(changed) == values
    state = replace(one_step.school.state, members=(changed,))
    learned = one_step.school.learn(state, 0, one_step.trajectory)
    np.testing.assert_array_equal(learned.parameters, one_step.learned(**values).parameters)
    assert learned.hyperparameters == values, "and still is afterwards"


def test_unknown_hyperparameters_are_refused_in_one_line() -> None:
    school = School()
    for name in ("learning_rate", "clip_value", "minibatch"):
        with pytest.raises(UserError) as error:
            apply_hyperparameters(school.state.members[0], {"lr": 0.1, name: 0.1})
        assert str(error.value).startswith(
            f"{name} is no hyperparameter of this member; it has lr, gamma, gae_lambda, clip, value, entropy, "
            "gradient_norm"
        )
        assert "\n" not in str(error.value)
    school.close()


@pytest.mark.parametrize(("name", "schedule"), [("lr", "lr_anneal"), ("clip", "clip_anneal")])
def test_schedules_fall_to_zero_and_stay_there(name: str, schedule: str) -> None:
    ppo = PPO(**{schedule: 1000})
    member = Member(
        id=0,
        parameters=np.zeros(1, np.float32),
        mean=np.zeros(1, np.float32),
        square=np.zeros(1, np.float32),
        hyperparameters={"lr": 0.1, "clip": 0.2},
        worlds=School().state.members[0].worlds,
    )
    used = [ppo.settings(replace(member, steps=steps)) for steps in (0, 250, 1000, 5000)]
    start = member.hyperparameters[name]
    assert [values[name] for values in used] == pytest.approx([start, 0.75 * start, 0.0, 0.0])
    (other,) = {"lr", "clip"} - {name}
    assert {values[other] for values in used} == {member.hyperparameters[other]}


def test_what_anneals_is_told() -> None:
    school = School(lr_anneal=640)
    state = school.generations(3)
    (member,) = state.members
    assert 0 < member.steps <= 192
    following = school.generation(state).members[0]
    assert following.metrics["lr"] == pytest.approx(3e-4 * (1 - member.steps / 640))
    assert school.ppo.telemetry(state)["lr"] == pytest.approx(member.metrics["lr"])
    school.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"envs": 4, "rollout": 10, "minibatch": 16},
            "minibatch=16 does not divide envs * rollout = 4 * 10 = 40; ",
        ),
        ({"minibatch": 64, "accumulate": 3}, "accumulate=3 does not divide minibatch=64; accumulate=2 does"),
    ],
)
def test_sizes_that_do_not_divide_are_refused_with_those_that_do(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ValueError, match="does not divide") as error:
        PPO(**settings)
    assert str(error.value).startswith(said)


def test_a_policy_that_remembers_wants_whole_sequences() -> None:
    school = School()
    model = ActorCritic(LSTM(hidden=(4,)), school.arena.spaces)
    ppo = PPO(envs=4, rollout=16, minibatch=8)
    with pytest.raises(UserError, match="whole sequences") as error:
        ppo.init(0, model)
    assert str(error.value).endswith("minibatch=16 accumulate=1 is")
    replace(ppo, minibatch=16).init(0, model)
    school.close()


def test_what_a_learner_cannot_have_is_refused() -> None:
    spaces = School().arena.spaces
    with pytest.raises(UserError, match="=shared sees what the policy remembers"):
        ActorCritic(LSTM(hidden=(4,)), spaces, "separate")
    pendulum = School(Env(id="Pendulum-v1")).arena.spaces
    noisy = MLP(action=replace(MLP().action, noise=0.1))
    with pytest.raises(UserError, match="std is where it starts"):
        ActorCritic(noisy, pendulum)
