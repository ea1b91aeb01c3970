"""Genomes that are chains of seeds: individuals per second on the head, and long chains beside short ones."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from msgspec.structs import replace

from rookery.evolution import GA, BreedingState
from rookery.genomes import Child, Lineage, Link, Materialiser, ParameterSpace, SeedChain, keyframes
from rookery.rollout.results import Result

ROUNDS = 7
POPULATION, LINKS = 5_000, 500
SPACE = ParameterSpace.flat(100_000)
SHORT, LONG = 10, 1_000
NOWHERE = np.zeros(0, np.float32)


def measure() -> list[dict[str, Any]]:
    """The head with one generation after the other, and a worker that has seen nothing before."""
    return [_head(), _materialising()]


def _head() -> dict[str, Any]:
    """A generation asked, told and selected, its keyframes included."""
    strategy = GA(population=POPULATION)
    state, rng = _grown(strategy), np.random.default_rng(0)
    seconds = []
    for _ in range(ROUNDS):
        fitness = rng.random(2 * POPULATION).tolist()
        start = time.perf_counter()
        state, asked = strategy.ask(state)
        results = [
            Result(id=candidate.id, fitness=value) for candidate, value in zip(asked, fitness, strict=False)
        ]
        state = strategy.tell(state, results)
        seconds.append(time.perf_counter() - start)
    rate = POPULATION / statistics.median(seconds)
    return {"what": f"head, population {POPULATION}, {LINKS} links", "individuals_per_second": round(rate)}


def _grown(strategy: GA) -> BreedingState:
    """A search with parents and finalists of long chains, which were one until ten links ago."""
    trunk = tuple(Link(generation, generation, 0.002) for generation in range(LINKS - 10))
    family = tuple(
        SeedChain(0, 1, (*trunk, *(Link(LINKS - 10 + place, number, 0.002) for place in range(10))))
        for number in range(strategy.truncation)
    )
    state = strategy.init(0, ParameterSpace.flat(1_000))
    finalists = family[: strategy.elites + 1]
    return replace(
        state,
        generation=LINKS,
        fitness=np.full(strategy.population + len(finalists), np.nan),
        parents=family,
        finalists=finalists,
        keyframes=keyframes(family, (), state.space, state.start),
    )


def _materialising() -> dict[str, Any]:
    """Chains made by a worker that starts cold, with the keyframes that travel with them."""
    chains = {links: _chain(links) for links in (SHORT, LONG)}
    published = {
        links: Lineage((chain,), keyframes([chain], (), SPACE, NOWHERE)) for links, chain in chains.items()
    }
    seconds: dict[int, list[float]] = {links: [] for links in chains}
    for _ in range(ROUNDS):
        for links, lineage in published.items():
            make = Materialiser(SPACE)
            start = time.perf_counter()
            make([Child(0, None)], NOWHERE, lineage)
            seconds[links].append(time.perf_counter() - start)
    short, long = (statistics.median(seconds[links]) for links in (SHORT, LONG))
    ratio = statistics.median(b / a for a, b in zip(seconds[SHORT], seconds[LONG], strict=True))
    return {
        "what": f"a chain of {LONG} links over one of {SHORT}, {SPACE.size} parameters",
        "short_ms": round(short * 1000, 2),
        "long_ms": round(long * 1000, 2),
        "ratio": round(ratio, 2),
    }


def _chain(links: int) -> SeedChain:
    return SeedChain(0, 1, tuple(Link(generation, generation % 1000, 0.002) for generation in range(links)))
