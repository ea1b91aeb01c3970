"""Strategies of other libraries: what is asked of them is in the state, and nowhere else."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rookery.errors import UserError
from rookery.evolution import Evosax, Nevergrad, catalogue, evosax, nevergrad
from rookery.evolution.strategy import AnyStrategy
from rookery.genomes import ParameterSpace
from rookery.rollout.results import Result
from rookery.store.codec import decode, encode

SPACE = ParameterSpace.flat(6)
START = np.full(6, 1.0, np.float32)
Sphere = Callable[..., list[Result]]
CMAS = ["CMA", "DiagonalCMA", "CMApara"]


def advance(strategy: AnyStrategy, state: Any, sphere: Sphere, generations: int) -> Any:
    for _ in range(generations):
        state, asked = strategy.ask(state)
        state = strategy.tell(state, sphere(strategy, state, asked))
    return state


def forget(state: Any) -> Any:
    """The state as another process would have it: loaded, and with no optimiser kept."""
    nevergrad._LIVE.clear()
    return decode(encode(state), type(state))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyframes in every few generations."""
    monkeypatch.setattr(nevergrad, "_KEYFRAME", 7)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("optimizer", [*CMAS, "PSO", "TwoPointsDE", "OnePlusOne", "TBPSA"])
def test_an_optimiser_that_was_forgotten_is_built_again_to_the_last_bit(optimizer: str, sphere: Sphere) -> None:
    strategy = Nevergrad(optimizer=optimizer, population=12, sigma=0.3)
    begun = advance(strategy, strategy.init(1, SPACE, START), sphere, 17)
    without = advance(strategy, begun, sphere, 40)
    again = advance(strategy, forget(begun), sphere, 40)
    assert encode(without) == encode(again)
    assert (again.keyframe is not None) == (optimizer in CMAS)


@pytest.mark.parametrize("optimizer", CMAS)
def test_a_keyframe_stands_for_all_that_was_told_before(
    optimizer: str, sphere: Sphere, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, best = Nevergrad(optimizer=optimizer, population=12, sigma=0.3), []
    for every in (10, 10**9):
        monkeypatch.setattr(nevergrad, "_KEYFRAME", every)
        state = advance(strategy, strategy.init(1, SPACE, START), sphere, 17)
        state = advance(strategy, forget(state), sphere, 20)
        assert len(state.losses) == 12 * (37 % every)
        best.append(state.best.tobytes())
    assert best[0] == best[1]


@pytest.mark.parametrize(
    "strategy",
    [Nevergrad(population=12), Nevergrad(optimizer="DiscreteOnePlusOne", population=3), Evosax(population=12)],
    ids=["cma", "one that uses the global generator", "evosax"],
)
def test_no_global_generator_decides_anything_or_is_moved(strategy: AnyStrategy, sphere: Sphere) -> None:
    ends = []
    for disturbance in (0, 1):
        nevergrad._LIVE.clear()
        state = strategy.init(5, SPACE, START)
        for number in range(12):
            np.random.seed(disturbance + number)  # noqa: NPY002
            random.seed(disturbance + number)
            before = np.random.get_state()[1].tobytes(), random.getstate()  # noqa: NPY002
            state = advance(strategy, state, sphere, 1)
            assert before == (np.random.get_state()[1].tobytes(), random.getstate())  # noqa: NPY002
        ends.append(encode(state))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("strategy", "population"),
    [
        (Nevergrad(), 9),
        (Nevergrad(optimizer="TwoPointsDE"), 30),
        (Nevergrad(optimizer="PSO"), 40),
        (Nevergrad(optimizer="Cobyla"), 1),
        (Nevergrad(population=20), 20),
    ],
    ids=str,
)
def test_a_population_that_is_not_given_is_the_optimisers_own(strategy: Nevergrad, population: int) -> None:
    state = strategy.init(0, SPACE)
    assert state.population == population
    assert len(strategy.ask(state)[1]) == population


def test_the_budget_reaches_the_optimiser_and_the_first_candidates_are_as_wide_as_sigma(sphere: Sphere) -> None:
    strategy = Nevergrad(optimizer="OldCMA", population=400, sigma=0.02)
    values = np.stack([c.genome.values for c in strategy.ask(strategy.init(0, SPACE, START))[1]])  # type: ignore[union-attr]
    assert values.std() == pytest.approx(0.02, rel=0.1)
    assert values.mean() == pytest.approx(1.0, abs=0.01)
    ends = [
        advance(s, s.init(0, SPACE, START), sphere, 3).best
        for s in (Nevergrad(population=25, budget=40), Nevergrad(population=25, budget=4000))
    ]
    assert not np.array_equal(*ends), "CMA chooses a variant that suits the budget"


def test_a_centre_is_what_evosax_deploys_where_it_has_one(sphere: Sphere) -> None:
    strategy = Evosax(strategy="SNES", population=16, sigma=0.3)
    state = advance(strategy, strategy.init(0, SPACE, START), sphere, 2)
    assert not any(np.array_equal(state.best, c.genome.values) for c in strategy.ask(state)[1])  # type: ignore[union-attr]
    genetic = Evosax(strategy="SimpleGA", population=16, sigma=0.3)
    state, asked = genetic.ask(genetic.init(0, SPACE, START))
    results = sphere(genetic, state, asked)
    best = max(results, key=lambda result: result.fitness).id
    np.testing.assert_array_equal(genetic.tell(state, results).best, asked[best].genome.values)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        (Nevergrad(optimizer="CMMA"), r"algorithm.optimizer: Nevergrad has no 'CMMA'\. Did you mean .*'CMA'"),
        (Nevergrad(optimizer="NGOpt"), "algorithm.optimizer: Nevergrad's NGOpt .* algorithm.budget"),
        (
            Nevergrad(optimizer="Cobyla", population=4),
            "algorithm.population: Cobyla takes one candidate at a time",
        ),
        (Evosax(strategy="OpnES"), r"algorithm.strategy: evosax has no 'OpnES'\. Did you mean .*'Open_ES'"),
        (Evosax(population=15), "Open_?ES cannot be used like this: Population size must be even"),
        (Evosax(strategy="SimpleGA", lr=0.1), "algorithm.lr: evosax's SimpleGA takes no optimiser"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line_before_anything_begins(strategy: AnyStrategy, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        strategy.init(0, SPACE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("module", "extra"), [(nevergrad, "nevergrad"), (evosax, "evosax")])
def test_a_library_that_is_missing_is_named_with_its_extra(
    module: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module._library.cache_clear()
    for name in (extra, "evosax.algorithms"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=rf"pip install 'rookery\[{extra}\]'"):
        module.names()
    assert catalogue.catalogue()[extra] == []
    assert f"pip install 'rookery[{extra}]'" in catalogue.describe(catalogue.catalogue())
    monkeypatch.undo()
    module._library.cache_clear()
    assert module.names()
