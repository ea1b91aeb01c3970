"""Evolution strategies: the mathematics of the update, and what it costs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.evolution import ES, ESState, gaussian
from rookery.evolution.es import StepLimit
from rookery.evolution.optimisers import SGD, Adam
from rookery.evolution.shaping import shape
from rookery.genomes import LowRank, Materialiser, Parameter, ParameterSpace
from rookery.rollout.results import Result
from rookery.store.codec import decode, encode

SPACE = ParameterSpace.flat(30)
START = np.linspace(-1, 1, 30, dtype=np.float32)
Sphere = Callable[..., list[Result]]


def generation(
    strategy: ES, state: ESState, sphere: Sphere, **changes: Any
) -> tuple[ESState, NDArray[np.float64]]:
    """The state after one more generation, and its gradient as the plain sum that a textbook writes."""
    state, asked = strategy.ask(state)
    results = [Result(**{**_fields(result), **changes}) for result in sphere(strategy, state, asked)]
    vectors = Materialiser(SPACE)([candidate.genome for candidate in asked], state.theta).astype(np.float64)
    noise = (vectors - state.theta) / state.sigma
    weights = shape(results, strategy.shaping).astype(np.float64)
    return strategy.tell(state, results), (weights[:, None] * noise).sum(axis=0) / strategy.population


def _fields(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__struct_fields__}


PLAIN = SGD(momentum=0.0)


@pytest.mark.parametrize("population", [2, 15, 16])
@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("shaping", ["centered_rank", "sign", "centered_sign_rank"])
def test_the_step_is_the_sum_of_noise_weighted_by_what_it_earned(
    population: int, mirrored: bool, shaping: Any, sphere: Sphere
) -> None:
    strategy = ES(population=population, mirrored=mirrored, shaping=shaping, optimiser=PLAIN, lr=0.5)
    state = strategy.init(2, SPACE, START)
    after, gradient = generation(strategy, state, sphere)
    np.testing.assert_allclose(after.theta - state.theta, 0.5 * gradient, rtol=1e-3, atol=1e-5)
    assert after.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-3)
    assert after.update_norm == pytest.approx(0.5 * np.linalg.norm(gradient), rel=1e-3)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_summing_in_pieces_gives_the_same_up_to_rounding(
    rows: int, sphere: Sphere, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = ES(population=30)
    state, asked = strategy.ask(strategy.init(2, SPACE, START))
    results = sphere(strategy, state, asked)
    whole = strategy.tell(state, results)
    monkeypatch.setattr(gaussian, "_CHUNK_BYTES", rows * START.nbytes)
    np.testing.assert_allclose(strategy.tell(state, results).theta, whole.theta, rtol=1e-5, atol=1e-6)


def test_mirrored_pairs_share_a_group_and_an_odd_one_stands_alone() -> None:
    strategy = ES(population=5)
    _, asked = strategy.ask(strategy.init(0, SPACE, START))
    assert [candidate.group for candidate in asked] == [0, 0, 1, 1, 2]
    offsets = Materialiser(SPACE)([candidate.genome for candidate in asked], START) - START
    np.testing.assert_allclose(offsets[0], -offsets[1], atol=1e-6)
    np.testing.assert_allclose(offsets[2], -offsets[3], atol=1e-6)
    assert offsets.std() == pytest.approx(0.1, rel=0.3)


def test_noise_is_new_in_every_generation(sphere: Sphere) -> None:
    strategy = ES(population=4)
    state = strategy.init(0, SPACE, START)
    names = set()
    for _ in range(3):
        state, asked = strategy.ask(state)
        names |= {(candidate.genome.generation, candidate.genome.index) for candidate in asked}
        state = strategy.tell(state, sphere(strategy, state, asked))
    assert len(names) == 6


def test_sigma_and_learning_rate_decay_to_their_floor(sphere: Sphere) -> None:
    strategy = ES(
        population=8, optimiser=PLAIN, lr=1.0, lr_decay=0.5, lr_min=0.2, sigma=0.4, sigma_decay=0.5, sigma_min=0.15
    )
    state = strategy.init(0, SPACE, START)
    for lr, sigma in ((1.0, 0.4), (0.5, 0.2), (0.25, 0.15), (0.2, 0.15)):
        assert strategy.telemetry(state)["sigma"] == pytest.approx(sigma)
        state, gradient = generation(strategy, state, sphere)
        assert state.update_norm == pytest.approx(lr * np.linalg.norm(gradient), rel=1e-3)


def test_weight_decay_pulls_towards_zero_in_its_way(sphere: Sphere) -> None:
    equal = {"fitness": 1.0, "signs": 1.0}  # no gradient: what remains is the decay
    for mode, factor in (("decoupled", 1 - 0.5 * 0.1), ("coupled", 1 - 0.5 * 0.1)):
        strategy = ES(population=8, optimiser=PLAIN, lr=0.5, decay=0.1, decay_mode=mode)  # type: ignore[arg-type]
        after, _ = generation(strategy, strategy.init(0, SPACE, START), sphere, **equal)
        np.testing.assert_allclose(after.theta, factor * START, rtol=1e-5)
    strategy = ES(population=8, optimiser=Adam(), lr=0.5, decay=0.1, decay_mode="coupled")
    after, _ = generation(strategy, strategy.init(0, SPACE, START), sphere, **equal)
    np.testing.assert_allclose(after.theta, START - 0.5 * np.sign(START), rtol=1e-3)


def test_momentum_goes_on_and_adam_takes_steps_of_its_rate() -> None:
    gradient = np.array([1.0, -2.0], np.float32)
    sgd = SGD(momentum=0.5)
    state, moved = sgd.init(2), []
    for _ in range(3):
        update, state = sgd.ascend(state, gradient, 0.1)
        moved.append(update / gradient)
    np.testing.assert_allclose(moved, [[0.05, 0.05], [0.075, 0.075], [0.0875, 0.0875]], rtol=1e-5)
    adam = Adam()
    state = adam.init(2)
    for _ in range(5):
        update, state = adam.ascend(state, gradient, 0.1)
        np.testing.assert_allclose(update, [0.1, -0.1], rtol=1e-3)
    assert state.step == 5


@pytest.mark.parametrize(("start", "growth", "then"), [(10, 1.5, 15), (1, 1.5, 2), (10, 1.05, 11)])
def test_the_step_limit_grows_once_enough_episodes_reach_it(
    start: int, growth: float, then: int, sphere: Sphere
) -> None:
    strategy = ES(population=8, step_limit=StepLimit(start=start, growth=growth, share=0.5))
    state = strategy.init(0, SPACE, START)
    assert {candidate.max_steps for candidate in strategy.ask(state)[1]} == {start}
    episodes = {"lengths": (start,) * 4, "returns": (0.0,) * 4}
    below, _ = generation(strategy, state, sphere, limited=1, **episodes)
    assert strategy.telemetry(below)["step_limit"] == start
    reached, _ = generation(strategy, below, sphere, limited=2, **episodes)
    assert strategy.telemetry(reached)["step_limit"] == then
    assert {candidate.max_steps for candidate in strategy.ask(reached)[1]} == {then}


def test_without_a_step_limit_candidates_have_none() -> None:
    strategy = ES(population=2)
    state, asked = strategy.ask(strategy.init(0, SPACE))
    assert [candidate.max_steps for candidate in asked] == [None, None]
    assert "step_limit" not in strategy.telemetry(state)


def test_an_update_of_a_million_parameters_stays_in_bounded_memory() -> None:
    strategy = ES(population=64)
    state, asked = strategy.ask(strategy.init(0, ParameterSpace.flat(1_000_000)))
    results = [Result(id=candidate.id, fitness=float(candidate.id)) for candidate in asked]
    tracemalloc.start()
    try:
        state = strategy.tell(state, results)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert state.generation == 1
    assert peak < 250 * 2**20


@pytest.mark.parametrize("rank", [1, 2])
def test_low_rank_noise_is_recombined_and_climbs(rank: int) -> None:
    space = ParameterSpace((Parameter("w", (6, 4), 1.0), Parameter("b", (4,))))
    strategy = ES(population=32, rank=rank, optimiser=PLAIN, sigma=0.1, lr=1.0)
    start = state = strategy.init(2, space, np.ones(space.size, np.float32))
    materialise = Materialiser(space)
    for _ in range(60):
        before, asked = strategy.ask(state)
        assert all(isinstance(candidate.genome, LowRank) for candidate in asked)
        vectors = materialise([candidate.genome for candidate in asked], before.theta)
        earned = -np.square(vectors).sum(axis=1)
        results = [Result(id=c.id, fitness=float(f)) for c, f in zip(asked, earned, strict=True)]
        state = strategy.tell(decode(encode(before), ESState), results)
        noise = (vectors - before.theta) / before.sigma
        gradient = shape(results, strategy.shaping) @ noise / strategy.population
        np.testing.assert_allclose(state.theta - before.theta, gradient, rtol=1e-2, atol=1e-4)
    np.testing.assert_array_equal(materialise([strategy.champion(state)], state.theta)[0], state.theta)
    assert np.square(state.theta).sum() < 0.1 * np.square(start.theta).sum()
