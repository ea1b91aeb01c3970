"""The compiled update is PPO's, as it would be written down step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Env
from rookery.learning.ppo import Member, PPOState
from rookery.learning.update import remember
from rookery.policies import LSTM, MLP, Actions, Elman, Network, Normaliser
from rookery.rollout.collect import Trajectory
from tests.learning.members import CARTPOLE, SMALL, School

SHORT = replace(CARTPOLE, max_steps=12)
PENDULUM = Env(id="Pendulum-v1", max_steps=9)
LEVERS = Env(id="tests.environments:Levers")
SCALED = MLP(hidden=(8,), normaliser=Normaliser(clip=2.0))

SETUPS: dict[str, tuple[Env, Network, dict[str, Any]]] = {
    "discrete": (SHORT, SMALL, {}),
    "discrete, shared critic": (SHORT, SMALL, {"critic": "shared"}),
    "discrete, large steps": (SHORT, SMALL, {"lr": 0.05, "entropy": 0.01, "epochs": 4}),
    "multi-discrete": (LEVERS, SMALL, {"entropy": 0.02}),
    "continuous": (PENDULUM, SCALED, {"entropy": 0.01, "std": 0.5, "lr": 0.01}),
    "continuous, shared critic": (PENDULUM, SCALED, {"critic": "shared", "gradient_norm": 100.0}),
    "continuous, binned": (PENDULUM, MLP(hidden=(8,), action=Actions(bins=5)), {}),
    "clipped values": (SHORT, SMALL, {"clip_value": 0.05, "lr": 0.05}),
    "stopped early": (SHORT, SMALL, {"kl_stop": 0.01, "lr": 0.02, "epochs": 4}),
    "advantages as they are": (SHORT, SMALL, {"normalise_advantages": False}),
    "in parts": (SHORT, SMALL, {"accumulate": 4}),
}


@pytest.fixture(scope="module", params=SETUPS.values(), ids=SETUPS)
def school(request: pytest.FixtureRequest) -> Iterator[School]:
    env, network, settings = request.param
    made = School(env, network, **{"minibatch": 16, **settings})
    yield made
    made.close()


def second(school: School) -> tuple[PPOState, Trajectory]:
    """A generation after the first, where Adam and the normaliser remember something, and its rollout."""
    state = school.generation(school.state)
    (trajectory,) = school.collect(state)
    return state, trajectory


def test_an_update_is_the_one_that_is_written_down(school: School) -> None:
    state, trajectory = second(school)
    learned = school.learn(state, 0, trajectory)
    member = state.members[0]
    wanted, steps = by_hand(school, member, trajectory, school.ppo.order(state.seed, member, remembers=False))
    assert learned.count == member.count + (steps if school.ppo.kl_stop else school.ppo.epochs * 4)
    assert (steps < school.ppo.epochs * 4) == (school.ppo.kl_stop is not None)
    moved = np.abs(wanted - member.parameters).max()
    np.testing.assert_allclose(learned.parameters, wanted, atol=1e-3 * moved)


def by_hand(
    school: School, member: Member, trajectory: Trajectory, order: NDArray[np.int32]
) -> tuple[NDArray[np.float64], int]:
    """The parameters after an update, and the steps of the optimiser that it took."""
    settings = school.ppo
    rows = written_down(school, member, trajectory)
    parameters = member.parameters.astype(np.float64)
    mean, square, count = member.mean.astype(np.float64), member.square.astype(np.float64), member.count
    slope = jax.jit(jax.grad(lambda vector, part: loss(school, vector, part)))
    chance = jax.jit(lambda vector, part: log_probability(school, vector, part))
    for taken, chosen in enumerate(order.reshape(-1, order.shape[-1])):
        part = {name: value[chosen] for name, value in rows.items()}
        part["weight"], counted = part["advantage"], part["advantage"][part["counts"]]
        if settings.normalise_advantages:
            part["weight"] = (part["advantage"] - counted.mean()) / counted.std()
        gradient = np.asarray(slope(jnp.asarray(parameters, jnp.float32), part), np.float64)
        gradient *= min(1.0, settings.gradient_norm / np.linalg.norm(gradient))
        difference = np.asarray(chance(jnp.asarray(parameters, jnp.float32), part)) - part["before"]
        count += 1
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        step = mean / (1 - 0.9**count) / (np.sqrt(square / (1 - 0.999**count)) + 1e-5)
        parameters = parameters - settings.lr * step
        away = (np.exp(difference) - 1 - difference)[part["counts"]].mean()
        if settings.kl_stop and away > 1.5 * settings.kl_stop:
            return parameters, taken + 1
    return parameters, len(order.reshape(-1, order.shape[-1]))


def written_down(school: School, member: Member, trajectory: Trajectory) -> dict[str, NDArray[Any]]:
    """What each step of a rollout is learned from, all steps of all environments one after the other."""
    settings = school.ppo
    seen = trajectory.observations
    if member.moments is not None:
        normaliser = school.model.network.normaliser
        assert normaliser is not None
        mean, std = member.moments.statistics(normaliser.floor)
        seen = np.clip((seen - mean) / std, -normaliser.clip, normaliser.clip)
    vector = jnp.asarray(member.parameters)
    values = np.asarray(forward(school, vector, seen)[1], np.float64)
    steps, envs = trajectory.rewards.shape
    advantage = np.zeros((steps + 1, envs))
    for step in reversed(range(steps)):
        ahead = np.where(trajectory.terminated[step], 0, values[step + 1])
        surprise = trajectory.rewards[step] + settings.gamma * ahead - values[step]
        later = np.where(trajectory.over[step + 1], 0, advantage[step + 1])
        advantage[step] = surprise + settings.gamma * settings.gae_lambda * later
    rows = {
        "seen": seen[:-1],
        "drawn": trajectory.drawn,
        "value": values[:-1],
        "advantage": advantage[:-1],
        "return": advantage[:-1] + values[:-1],
        "counts": ~trajectory.over[:-1],
    }
    flat = {name: value.reshape(steps * envs, *value.shape[2:]) for name, value in rows.items()}
    return flat | {"before": np.asarray(log_probability(school, vector, flat))}


def forward(school: School, vector: Any, seen: Any) -> tuple[Any, Any]:
    """Outputs and values of a network with one hidden layer."""
    of = school.model.space.split(vector)
    hidden = jnp.tanh(seen @ of["w0"] + of["b0"])
    own = jnp.tanh(seen @ of["critic w0"] + of["critic b0"]) if "critic w0" in of else hidden
    return hidden @ of["w"] + of["b"], (own @ of["value w"] + of["value b"])[..., 0]


def chances(school: School, outputs: Any) -> list[Any]:
    """The logarithms of the probabilities of every choice, a part for each group of them."""
    ends = np.cumsum(school.model.distribution.head.groups)[:-1]
    return [jax.nn.log_softmax(part) for part in jnp.split(outputs, ends, axis=-1)]


def log_probability(school: School, vector: Any, part: Any) -> Any:
    outputs, _ = forward(school, vector, part["seen"])
    if "log std" in school.model.space.split(vector):
        std = jnp.exp(school.model.space.split(vector)["log std"])
        return jax.scipy.stats.norm.logpdf(part["drawn"], outputs, std).sum(axis=-1)
    rows = np.arange(len(outputs))
    return sum(chance[rows, part["drawn"][:, n]] for n, chance in enumerate(chances(school, outputs)))


def entropy(school: School, vector: Any, part: Any) -> Any:
    outputs, _ = forward(school, vector, part["seen"])
    if "log std" in school.model.space.split(vector):
        return (school.model.space.split(vector)["log std"] + 0.5 * np.log(2 * np.pi) + 0.5).sum()
    return -sum((jnp.exp(chance) * chance).sum(axis=-1) for chance in chances(school, outputs))


def loss(school: School, vector: Any, part: Any) -> Any:
    """What a step of the optimiser makes smaller."""
    settings = school.ppo
    ratio = jnp.exp(log_probability(school, vector, part) - part["before"])
    held = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = jnp.minimum(ratio * part["weight"], held * part["weight"])
    _, values = forward(school, vector, part["seen"])
    miss = (values - part["return"]) ** 2
    if settings.clip_value:
        near = jnp.clip(values, part["value"] - settings.clip_value, part["value"] + settings.clip_value)
        miss = jnp.maximum(miss, (near - part["return"]) ** 2)
    total = settings.value * miss - gain - settings.entropy * entropy(school, vector, part)
    return total.mean(where=part["counts"])


def remembering(kind: Callable[..., Network]) -> School:
    """A learner that remembers, whose episodes end in the middle of its sequences."""
    return School(SHORT, kind(hidden=(6,), output_scale=1.0, normaliser=None), lr=0.01)


LOOKS = {
    "discrete": lambda: School(SHORT, SMALL, envs=6, minibatch=96),
    "multi-discrete": lambda: School(LEVERS, SMALL, minibatch=64),
    "continuous": lambda: School(PENDULUM, SCALED, minibatch=64),
    "elman": lambda: remembering(Elman),
    "lstm": lambda: remembering(LSTM),
}


@pytest.fixture(scope="module", params=LOOKS.values(), ids=LOOKS)
def observer(request: pytest.FixtureRequest) -> Iterator[School]:
    made = request.param()
    yield made
    made.close()


def test_what_learns_sees_the_probabilities_that_acting_drew_from(observer: School) -> None:
    """In JAX as in NumPy, with memories and statistics as they were then: the first ratio of an update is 1."""
    state, trajectory = second(observer)
    still = observer.learn(state, 0, trajectory, lr=0.0)
    assert abs(still.metrics["kl"]) < 1e-6
    assert still.metrics["clipped"] == 0
    moved = observer.learn(state, 0, trajectory, lr=0.05)
    assert moved.metrics["kl"] > 1e-4


@pytest.mark.parametrize("kind", [Elman, LSTM])
def test_a_sequence_looked_back_at_is_what_acting_went_through(kind: Callable[..., Network]) -> None:
    school = remembering(kind)
    state, trajectory = second(school)
    assert trajectory.over[2:-2].any(), "an episode ends in the middle"
    member = state.members[0]
    of = school.model.space.split(member.parameters)
    carry, outputs = trajectory.carry, []
    for step in range(school.ppo.rollout):
        carry = tuple(np.where(trajectory.fresh[step][:, None], 0, part).astype(np.float32) for part in carry)
        put_out, carry = school.model.outputs(of, trajectory.observations[step], carry)
        outputs.append(put_out)
    for mine, kept in zip(carry, trajectory.carried, strict=True):
        np.testing.assert_allclose(mine, kept, atol=1e-6)
    looked, _ = remember(school.model, of, trajectory.observations, trajectory.fresh, trajectory.carry)
    np.testing.assert_allclose(np.asarray(looked)[:-1], outputs, atol=1e-5)
    school.close()


def test_steps_that_only_begin_an_episode_teach_nothing() -> None:
    school = School(SHORT, SMALL)
    state, trajectory = second(school)
    begins = trajectory.over[:-1]
    assert begins.any()
    other = replace(
        trajectory,
        drawn=np.where(begins[..., None], 1 - trajectory.drawn, trajectory.drawn),
        rewards=np.where(begins, 1e3, trajectory.rewards).astype(np.float32),
    )
    one, two = (school.learn(state, 0, each) for each in (trajectory, other))
    np.testing.assert_array_equal(one.parameters, two.parameters)
    assert one.metrics == two.metrics
    school.close()


def test_parts_of_a_minibatch_come_to_the_same_as_the_whole() -> None:
    for network in (SMALL, LSTM(hidden=(6,), normaliser=None)):
        learned = []
        for parts in (1, 4):
            school = School(SHORT, network, envs=8, minibatch=64, accumulate=parts)
            state, trajectory = second(school)
            learned.append(school.learn(state, 0, trajectory))
            school.close()
        whole, joined = learned
        np.testing.assert_allclose(joined.parameters, whole.parameters, atol=1e-5)
        assert joined.metrics == pytest.approx(whole.metrics, abs=1e-4, rel=1e-3)


def test_the_returns_of_an_update_are_explained_by_the_values_or_not() -> None:
    """1 is all of their variance; values that know nothing explain none."""
    school = School(SHORT, SMALL)
    state, trajectory = second(school)
    before = school.learn(state, 0, trajectory).metrics["explained_variance"]
    for _ in range(60):
        state = replace(state, members=(school.learn(state, 0, trajectory, lr=0.01),))
    assert before < 0.5 < school.learn(state, 0, trajectory).metrics["explained_variance"] <= 1
    school.close()
