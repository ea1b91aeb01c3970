"""The contract of every strategy: functions over frozen state that maximise, whatever the order of the results."""

from __future__ import annotations

import typing
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.evolution import ES, GA, Evosax, Nevergrad, Novelty, RandomSearch, Searcher
from rookery.evolution.es import StepLimit
from rookery.evolution.optimisers import SGD
from rookery.evolution.strategy import AnyStrategy
from rookery.genomes import Materialiser, ParameterSpace, SeedChain
from rookery.policies import Moments
from rookery.rollout.results import WORST, Candidate, Result
from rookery.store.codec import decode, encode

Sphere = Callable[..., list[Result]]

STRATEGIES: dict[str, AnyStrategy] = {
    "es": ES(population=16),
    "es odd": ES(population=15),
    "es unmirrored": ES(population=16, mirrored=False),
    "es of one": ES(population=1),
    "es of two": ES(population=2),
    "es sgd": ES(population=16, optimiser=SGD(), lr=1.0),
    "es sign": ES(population=16, shaping="sign"),
    "es centered sign rank": ES(population=16, shaping="centered_sign_rank"),
    "es coupled decay": ES(population=16, decay=0.01, decay_mode="coupled"),
    "es decoupled decay": ES(population=16, decay=0.01),
    "es decaying": ES(population=16, sigma_decay=0.99, sigma_min=0.01, lr_decay=0.99, lr_min=0.001),
    "es low rank": ES(population=16, rank=1),
    "es step limit": ES(population=16, step_limit=StepLimit(start=5)),
    "ga": GA(population=16, truncation=5, sigma=0.1, elites=3),
    "ga of one": GA(population=1, sigma=0.1),
    "ga of one parent": GA(population=16, truncation=1, sigma=0.1, elites=1),
    "ga decaying": GA(population=16, truncation=5, sigma=0.2, sigma_decay=0.98, sigma_min=0.05),
    "ga steady": GA(population=16, truncation=5, sigma=0.1, elites=3, mode="steady", window=5),
    "ga steady one by one": GA(population=16, truncation=5, sigma=0.1, mode="steady", window=1),
    "ga steady with all out": GA(population=16, truncation=5, sigma=0.1, mode="steady", window=16),
    "random search": RandomSearch(population=200, elites=3),
    "random search steady": RandomSearch(population=200, elites=3, mode="steady", window=20),
    "novelty nsra": Novelty(population=16),
    "novelty nsr": Novelty(population=16, variant="nsr", centres=2),
    "novelty ns": Novelty(population=15, variant="ns", archive=5, neighbours=3),
    "nevergrad cma": Nevergrad(population=16, sigma=0.3),
    "nevergrad cma with a budget": Nevergrad(population=25, budget=2000, sigma=0.3),
    "nevergrad diagonal cma": Nevergrad(optimizer="DiagonalCMA", sigma=0.3),
    "nevergrad de": Nevergrad(optimizer="TwoPointsDE", sigma=0.3),
    "nevergrad pso": Nevergrad(optimizer="PSO", population=40, sigma=0.3),
    "nevergrad one plus one": Nevergrad(optimizer="OnePlusOne", population=1, sigma=0.3),
    "nevergrad sequential": Nevergrad(optimizer="Cobyla", sigma=0.3, budget=1000),
    "nevergrad random": Nevergrad(optimizer="RandomSearch", population=16),
    "evosax openes": Evosax(population=16, sigma=0.1, lr=0.05),
    "evosax snes": Evosax(strategy="SNES", population=16, sigma=0.3),
    "evosax cma-es": Evosax(strategy="CMA_ES", population=16, sigma=0.3),
    "evosax pgpe": Evosax(strategy="PGPE", population=16, sigma=0.1, lr=0.05),
    "evosax differential evolution": Evosax(strategy="DifferentialEvolution", population=16, sigma=1.0),
    "evosax simple ga": Evosax(strategy="SimpleGA", population=16, sigma=0.3),
}
CANNOT_SEARCH = (
    "es of one",  # a rank among one says nothing
    "novelty ns",  # novelty alone looks for no top
    "nevergrad random",  # it samples around zero without end
)
GENERATIONS = {
    "es of two": 400,
    "ga of one": 400,
    "novelty nsra": 400,
    "novelty nsr": 400,
}  # in which to climb; 150 otherwise
SPACE = ParameterSpace.flat(6)
START = np.full(6, 1.0, np.float32)

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)


def advance(strategy: AnyStrategy, state: Any, sphere: Sphere, generations: int) -> Any:
    end = state.generation + generations
    while state.generation < end:
        state, asked = strategy.ask(state)
        state = strategy.tell(state, sphere(strategy, state, asked))
    return state


def champion(strategy: AnyStrategy, state: Any) -> np.ndarray[Any, Any]:
    make = Materialiser(SPACE)
    return make([strategy.champion(state)], strategy.centre(state), strategy.lineage(state))[0]


def size(strategy: AnyStrategy, state: Any) -> int:
    """Candidates per generation; where a strategy leaves that open, its state says."""
    return strategy.population or int(state.population)


def test_every_registered_strategy_is_tested_here() -> None:
    registered = typing.get_args(Searcher) or (Searcher,)
    assert {type(strategy) for strategy in STRATEGIES.values()} == set(registered)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if "steady" not in name])
def test_it_asks_for_a_population_and_then_for_nothing_until_all_is_told(name: str, sphere: Sphere) -> None:
    strategy = STRATEGIES[name]
    state = strategy.init(0, SPACE)
    seen: set[int] = set()
    for _ in range(3):
        state, asked = strategy.ask(state)
        ids = {candidate.id for candidate in asked}
        assert sum(not candidate.fresh for candidate in asked) == size(strategy, state)
        assert len(asked) == len(ids)
        assert not ids & seen
        seen |= ids
        results = sphere(strategy, state, asked)
        for result in results:
            assert strategy.ask(state)[1] == []
            state = strategy.tell(state, [result])


@pytest.mark.parametrize("name", [name for name in STRATEGIES if "steady" in name])
def test_a_steady_one_asks_for_as_many_as_were_told_and_knows_which_are_out(name: str, sphere: Sphere) -> None:
    strategy: Any = STRATEGIES[name]
    state = strategy.init(0, SPACE)
    out: list[tuple[Candidate, SeedChain]] = []
    asked_of: Counter[int | None] = Counter()
    while state.generation < 3:
        state, asked = strategy.ask(state)
        out += [(candidate, strategy.lineage(state).whole(candidate.genome)) for candidate in asked]
        assert len(out) == strategy.window
        assert strategy.ask(state)[1] == []
        for candidate in asked:
            assert candidate.id == asked_of.total()
            asked_of[candidate.generation] += 1
        again = [(c, strategy.lineage(state).whole(c.genome)) for c in strategy.out(state)]
        assert [(c.id, c.generation, c.fresh, chain) for c, chain in again] == [
            (c.id, c.generation, c.fresh, chain) for c, chain in out
        ]
        state = strategy.tell(state, sphere(strategy, state, [again[0][0]]))
        del out[0]
    assert all(asked_of[generation] > strategy.population for generation in range(3))


@every_strategy
def test_results_may_come_in_any_order_in_parts_twice_and_among_strangers(
    strategy: AnyStrategy, sphere: Sphere
) -> None:
    one = other = advance(strategy, strategy.init(3, SPACE, START), sphere, 2)
    old = sphere(strategy, one, strategy.ask(strategy.init(3, SPACE, START))[1])
    rng = np.random.default_rng(0)
    for _ in range(3):
        one, asked = strategy.ask(one)
        results = sphere(strategy, one, asked)
        ahead = results[-1].id - results[0].id + 1
        new = [replace(result, id=result.id + ahead, fitness=1e9) for result in results]
        one = strategy.tell(one, results)

        other, _ = strategy.ask(other)
        shuffled = [results[number] for number in rng.permutation(len(results))]
        half = len(shuffled) // 2
        for part in (old, shuffled[:half], [*new, *shuffled[:half][::-1], *old], [], new, shuffled[half - 1 :]):
            other = strategy.tell(other, part)
        other = strategy.tell(other, shuffled)
        assert encode(one) == encode(other)
        old = results


@every_strategy
def test_what_is_told_before_anything_was_asked_changes_nothing(strategy: AnyStrategy, sphere: Sphere) -> None:
    state = strategy.init(3, SPACE, START)
    _, asked = strategy.ask(state)
    assert encode(strategy.tell(state, sphere(strategy, state, asked))) == encode(state)


@every_strategy
def test_a_state_that_was_stored_and_loaded_goes_on_the_same(strategy: AnyStrategy, sphere: Sphere) -> None:
    state = advance(strategy, strategy.init(1, SPACE, START), sphere, 3)
    state, asked = strategy.ask(state)
    results = sphere(strategy, state, asked)
    broken = replace(results[0], fitness=WORST, signs=WORST, returns=(float("nan"),), error="it broke")
    watched = replace(results[-1], moments=Moments(2, np.arange(3.0), np.arange(3.0)))
    told = [watched, broken] if len(results) > 1 else []
    rest = results[1:-1] if len(results) > 1 else results
    state = strategy.tell(state, told)
    loaded = decode(encode(state), type(state))
    assert encode(loaded) == encode(state)

    ends = [advance(strategy, strategy.tell(middle, rest), sphere, 3) for middle in (state, loaded)]
    assert encode(ends[0]) == encode(ends[1])
    assert strategy.telemetry(ends[0]) == strategy.telemetry(ends[1])


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in CANNOT_SEARCH])
def test_it_climbs_to_the_top_of_a_sphere(name: str, sphere: Sphere) -> None:
    strategy = STRATEGIES[name]
    state = advance(strategy, strategy.init(0, SPACE, START), sphere, GENERATIONS.get(name, 150))
    assert np.square(champion(strategy, state)).sum() < 0.05 * np.square(START).sum()


@every_strategy
def test_it_begins_where_it_is_told_to(strategy: AnyStrategy) -> None:
    np.testing.assert_array_equal(champion(strategy, strategy.init(0, SPACE, START)), START)


@every_strategy
@pytest.mark.parametrize("fitness", [3.5, WORST, -1e300], ids=["equal", "failed", "huge"])
def test_a_generation_that_tells_nothing_leaves_a_champion_that_can_act(
    strategy: AnyStrategy, fitness: float
) -> None:
    state = strategy.init(0, SPACE, START)
    for _ in range(3):
        state, asked = strategy.ask(state)
        same = [Result(id=c.id, fitness=fitness, signs=fitness if fitness == WORST else 1.0) for c in asked]
        state = strategy.tell(state, same)
    assert np.isfinite(champion(strategy, state)).all()
    assert all(np.isfinite(value) for value in strategy.telemetry(state).values())


@every_strategy
def test_its_seed_decides_everything(strategy: AnyStrategy, sphere: Sphere) -> None:
    one, again, other = (advance(strategy, strategy.init(seed, SPACE), sphere, 4) for seed in (7, 7, 8))
    assert encode(one) == encode(again)
    assert not np.array_equal(champion(strategy, one), champion(strategy, other))
