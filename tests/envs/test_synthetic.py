"""Synthetic functions: where their best points are, what those are worth, and that every strategy can use them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.agent import load_agent
from rookery.envs import Env, arena, known_ids, make
from rookery.envs.synthetic import FUNCTIONS, SyntheticArena
from rookery.errors import UserError
from rookery.experiment import load_experiment
from rookery.run import start

every_function = pytest.mark.parametrize("name", FUNCTIONS)


def worth(spec: Env, points: np.ndarray, seeds: list[int] | None = None) -> np.ndarray:
    """The rewards of these points, an episode each."""
    batch = make(spec, seeds or [0] * len(points))
    batch.reset()
    batch.receive()
    batch.send(points.astype(np.float32), np.arange(len(points), dtype=np.int32))
    step = batch.receive()
    assert step.terminated.all()
    return step.rewards


@every_function
@pytest.mark.parametrize("dimensions", [1, 2, 30])
def test_the_best_point_is_worth_zero_and_all_others_less(name: str, dimensions: int) -> None:
    spec = Env(id=f"synthetic:{name}", options={"dimensions": dimensions})
    best = SyntheticArena(spec).best
    assert np.abs(best).max() < 2
    assert worth(spec, best[None])[0] == pytest.approx(0, abs=2e-3)
    others = best + np.random.default_rng(0).uniform(-4, 4, (500, dimensions))
    assert (worth(spec, others) < 0).all()


def test_values_known_from_the_literature() -> None:
    at_ones = {"sphere": 4.0, "rastrigin": 4.0, "rosenbrock": 4 - 1.0, "griewank": None, "ackley": 3.6253849}
    for name, value in at_ones.items():
        if value is not None and name != "rosenbrock":
            assert FUNCTIONS[name](np.ones((1, 4)))[0] == pytest.approx(value)
    assert FUNCTIONS["rosenbrock"](np.full((1, 4), -1.0))[0] == pytest.approx(3.0)
    assert FUNCTIONS["ellipsoid"](np.eye(3))[[0, 2]] == pytest.approx([1.0, 1e6])


def test_noise_follows_from_seed_and_point() -> None:
    spec = Env(id="synthetic:sphere", options={"noise": 0.5})
    points = np.repeat(np.random.default_rng(0).normal(size=(1000, 10)), 2, axis=0)
    noisy = worth(spec, points) - worth(Env(id="synthetic:sphere"), points)
    np.testing.assert_array_equal(noisy[::2], noisy[1::2])
    assert noisy.std() == pytest.approx(0.5, rel=0.1)
    other = worth(spec, points, [1] * len(points)) - worth(Env(id="synthetic:sphere"), points)
    assert abs(np.corrcoef(noisy[::2], other[::2])[0, 1]) < 0.2


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Env(id="synthetic:spere"), "Did you mean 'synthetic:sphere'"),
        (Env(id="synthetic:sphere", options={"dimension": 3}), "Did you mean 'dimensions'"),
        (Env(id="synthetic:sphere", options={"dimensions": 0}), "env.options of synthetic:sphere: .* >= 1"),
        (Env(id="synthetic:sphere", options={"noise": "much"}), "env.options of synthetic:sphere: .*float"),
        (Env(id="synthetic:sphere", hide=(0,)), "shows nothing that could be hidden"),
    ],
    ids=str,
)
def test_what_cannot_be_made_is_one_line(spec: Env, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        arena(spec)
    assert "\n" not in str(caught.value)
    assert spec.id in known_ids()["synthetic"] or "spere" in spec.id


def test_functions_cannot_be_drawn() -> None:
    with pytest.raises(UserError, match="cannot be drawn"):
        arena(Env(id="synthetic:sphere")).batch([0], render=True)


@pytest.mark.parametrize(
    "overrides",
    [[], ["algorithm.type=nevergrad", "algorithm.sigma=0.5"], ["algorithm.type=evosax", "strategy=CMA_ES"]],
    ids=["es", "nevergrad", "evosax"],
)
def test_every_strategy_finds_the_bottom_of_the_bowl(overrides: list[str], tmp_path: Path) -> None:
    experiment = load_experiment("sphere", [*overrides, "stop.seconds=60"])
    assert start(experiment, tmp_path, "one", "one", "quiet") == 0
    agent = load_agent(tmp_path, "one", "best")
    best = SyntheticArena(experiment.env).best
    assert np.square(agent.vector - best).sum() < 0.001
    assert agent.evaluate(1).mean >= -0.001
