"""Evaluating pixel policies on Pong against EnvPool alone stepping as many environments with as many threads.

Sixteen environments: one for each of 16 policies, 4 for each of 4, one for each of 16 that share their products.
A rate is that of stepping: the difference of a long and a short evaluation, which leaves out the making of
environments and parameters. `inline` is one process with two threads, `process` two processes with one each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from rookery.envs import Env
from rookery.envs import envpool as backend
from rookery.fleet import Inline, Process
from rookery.genomes import Genome, LowRank, SignedSeed
from rookery.policies import Nature, Policy
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Candidate, Context, Trial
from rookery.rollout.shared import SharedEvaluator

ENV = Env(id="Pong-v5")
NETWORK = Nature()
ENVIRONMENTS, THREADS, ROUNDS = 16, 2, 7
SHORT, LONG = 40, 240  # steps
CASES = ((16, None), (4, None), (16, 1))  # policies, rank


def measure() -> list[dict[str, Any]]:
    """One row per case; medians over alternating rounds."""
    with threadpool_limits(1):
        return [_case(policies, rank) for policies, rank in CASES]


def _case(policies: int, rank: int | None) -> dict[str, Any]:
    policy = Policy(NETWORK, Evaluator(ENV, NETWORK).arena.spaces)
    context = Context(policy.space.initial(np.random.default_rng(0)))
    inline, spread, alone = [], [], []
    engines = Inline(threads=THREADS), Process(workers=THREADS)
    with (
        closing(SharedEvaluator(ENV, NETWORK, engines[0])) as one,
        closing(SharedEvaluator(ENV, NETWORK, engines[1])) as two,
    ):
        for _ in range(ROUNDS):
            inline.append(_stepping(lambda steps: one.evaluate(context, _trials(policies, rank, steps))))
            spread.append(_stepping(lambda steps: two.evaluate(context, _trials(policies, rank, steps))))
            alone.append(_stepping(_envpool))
    row: dict[str, Any] = {"policies": policies, "episodes": ENVIRONMENTS // policies, "rank": rank or "full"}
    for name, rates in (("inline", inline), ("process", spread), ("envpool", alone)):
        row[name] = round(statistics.median(rates))
    for name, rates in (("inline", inline), ("process", spread)):
        row[f"{name}_ratio"] = round(statistics.median(a / b for a, b in zip(rates, alone, strict=True)), 2)
    return row


def _trials(policies: int, rank: int | None, steps: int) -> list[Trial]:
    def genome(number: int) -> Genome:
        name = 0, 0, number // 2, 1 - 2 * (number % 2), 0.02
        return LowRank(*name, rank) if rank else SignedSeed(*name)

    seeds = tuple(range(ENVIRONMENTS // policies))
    return [Trial(Candidate(n, genome(n), max_steps=steps), seeds) for n in range(policies)]


def _envpool(steps: int) -> None:
    pool = backend.library().make(
        ENV.id, "gymnasium", num_envs=ENVIRONMENTS, num_threads=THREADS, seed=list(range(ENVIRONMENTS))
    )
    pool.reset()
    ids = np.arange(ENVIRONMENTS, dtype=np.int32)
    for actions in np.random.default_rng(0).integers(6, size=(steps, ENVIRONMENTS), dtype=np.int32):
        pool.step(actions, ids)
    pool.close()


def _stepping(work: Callable[[int], object]) -> float:
    """Environment steps per second."""
    short, long = _timed(lambda: work(SHORT)), _timed(lambda: work(LONG))
    return (LONG - SHORT) * ENVIRONMENTS / (long - short)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
