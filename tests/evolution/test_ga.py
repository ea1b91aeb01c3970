"""Deep GA: who becomes a parent, who becomes the elite, and how small a state is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rookery.evolution import GA, BreedingState, RandomSearch
from rookery.genomes import Child, ParameterSpace, SeedChain
from rookery.rollout.results import WORST, Candidate, Result
from rookery.store.codec import encode

SPACE = ParameterSpace.flat(4)
SMALL = GA(population=6, truncation=3, sigma=0.1, elites=2, elite_episodes=4)


def generation(strategy: GA, state: BreedingState, earned: Any) -> tuple[BreedingState, list[Candidate]]:
    """A generation in which `earned(number, candidate)` is the fitness of each candidate."""
    state, asked = strategy.ask(state)
    results = [Result(id=c.id, fitness=float(earned(number, c))) for number, c in enumerate(asked)]
    return strategy.tell(state, results), asked


def by_place(*fitness: float) -> Any:
    return lambda number, _: fitness[number]


def whole(strategy: GA, state: BreedingState, asked: list[Candidate]) -> list[SeedChain]:
    genomes = [c.genome for c in asked if isinstance(c.genome, Child | SeedChain)]
    return [strategy.lineage(state).whole(genome) for genome in genomes]


def test_the_first_generation_is_fresh_and_the_best_of_it_are_parents() -> None:
    state = SMALL.init(0, SPACE)
    state, asked = generation(SMALL, state, by_place(1, 5, 2, 4, 3, 0, 9))
    first = [c.genome for c in asked if not c.fresh]
    assert len({g.root for g in first if isinstance(g, SeedChain)} | {0}) == 7
    assert state.parents == (SeedChain(0, 0), first[1], first[3])
    _, children = SMALL.ask(state)
    chains = whole(SMALL, state, [c for c in children if not c.fresh])
    assert {SeedChain(c.seed, c.root) for c in chains} <= set(state.parents)
    assert all(len(c.links) == 1 for c in chains)
    assert len({c.links[0].index for c in chains}) == 6


def test_parents_are_chosen_evenly() -> None:
    strategy = GA(population=3000, truncation=3, elites=1)
    state, _ = generation(strategy, strategy.init(0, SPACE), lambda number, _: -number)
    _, asked = strategy.ask(state)
    counts = np.bincount([c.genome.parent for c in asked if isinstance(c.genome, Child) and c.genome.link])
    assert counts.sum() == 3000
    assert (abs(counts - 1000) < 120).all()


def test_an_elite_is_not_kept_for_one_lucky_score() -> None:
    """A child whose one score was splendid is validated on fresh episodes, shows nothing there, and is gone."""
    state, asked = generation(SMALL, SMALL.init(0, SPACE), by_place(1e9, 5, 2, 4, 3, 0, 1))
    lucky, steady = asked[0].genome, asked[1].genome
    assert state.elite == SeedChain(0, 0), "nobody has been validated yet"
    assert state.finalists == (SeedChain(0, 0), lucky, steady)
    state, asked = generation(SMALL, state, by_place(0, 0, 0, 0, 0, 0, 1, -3, 7))
    validations = [c for c in asked if c.fresh]
    assert [c.fresh for c in validations] == [4, 4, 4]
    assert len({(c.group, c.generation) for c in validations}) == 1, "they share their episodes"
    assert state.elite == steady
    assert state.validated == 7
    assert lucky not in (*state.parents, *state.finalists)


def test_an_elite_that_was_lucky_when_it_was_validated_has_to_show_it_again() -> None:
    state, asked = generation(SMALL, SMALL.init(0, SPACE), by_place(9, 8, 0, 0, 0, 0, 0))
    first = asked[0].genome
    state, asked = generation(SMALL, state, by_place(9, 8, 0, 0, 0, 0, 0, 1e9, 5))
    assert state.elite == first
    child = state.finalists[1]
    state, _ = generation(SMALL, state, by_place(0, 0, 0, 0, 0, 0, 4, 6, 5))
    assert state.elite == child


def test_an_elite_survives_unchanged_while_nobody_is_better_and_failures_never_are() -> None:
    state, _ = generation(SMALL, SMALL.init(0, SPACE), by_place(1, 2, 3, 4, 5, 6, 0))
    elite = state.elite
    for fitness in (2.0, WORST):
        state, _ = generation(SMALL, state, lambda number, c, f=fitness: f if c.fresh else number)
        assert state.elite == elite
        assert elite in state.parents


def test_sigma_decays_and_stays_above_its_least() -> None:
    strategy = GA(population=4, truncation=1, sigma=0.5, sigma_decay=0.5, sigma_min=0.2, elites=1)
    state = strategy.init(0, SPACE)
    found = []
    for _ in range(4):
        state, asked = generation(strategy, state, lambda number, c: -number)
        found += [c.genome.link.sigma for c in asked[:1] if isinstance(c.genome, Child) and c.genome.link]
    assert found == pytest.approx([0.25, 0.2, 0.2])


def test_candidates_stay_tiny_and_a_state_grows_with_its_parents_only() -> None:
    strategy = GA(population=500, truncation=5, elites=2)
    state = strategy.init(0, SPACE)
    rng = np.random.default_rng(0)
    for _ in range(60):
        state, asked = generation(strategy, state, lambda number, c: rng.random())
    assert max(len(chain.links) for chain in state.parents) > 20
    assert max(len(encode(c)) for c in asked) < 400
    assert len(encode(state)) < 40_000
    assert len(state.keyframes) <= 8


def test_random_search_never_has_parents_and_keeps_the_best_that_stands_its_test() -> None:
    strategy = RandomSearch(population=4, elites=1, elite_episodes=3)
    state = strategy.init(0, SPACE)
    roots: list[int | None] = []
    for _ in range(3):
        state, asked = strategy.ask(state)
        children = [c.genome for c in asked if isinstance(c.genome, SeedChain)]
        roots += [genome.root for genome in children]
        assert len(children) == 4
        results = [Result(id=c.id, fitness=float(number)) for number, c in enumerate(asked)]
        state = strategy.tell(state, results)
    assert len(set(roots)) == 12
    assert state.elite.root == roots[7], "the challenger of the second generation, as validated in the third"
    assert state.parents == ()


def test_a_window_larger_than_a_generation_is_refused() -> None:
    with pytest.raises(ValueError, match="window is at most the population, which is 8; got 9"):
        GA(population=8, mode="steady", window=9)
