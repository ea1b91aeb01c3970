"""Evaluating candidates, policy included, against EnvPool alone doing the same steps with the same threads.

The work of one evaluation (every action, in its order, with its shrinking set of live environments) is recorded,
and EnvPool alone replays it from memory. `..._ratio` compares the two on identical work, done in this process and
by two worker processes that have a thread and half of the environments each. `..._of_full` compares with EnvPool
stepping all of its environments all the time, which no evaluation of whole episodes can do to the end.
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
from rookery.fleet import Process
from rookery.genomes import SignedSeed
from rookery.policies import MLP, Moments
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Candidate, Context, Trial
from rookery.rollout.shared import SharedEvaluator

THREADS = 2
ROUNDS = 7
PROBLEMS = (("LunarLander-v3", 256, 32), ("BipedalWalker-v3", 128, 32), ("HalfCheetah-v4", 64, 64))

Sent = list[tuple[Any, Any]]


def measure() -> list[dict[str, Any]]:
    """One row per environment; medians over alternating rounds."""
    with threadpool_limits(1):
        return [_compare(*problem) for problem in PROBLEMS]


def _compare(env: str, environments: int, width: int) -> dict[str, Any]:
    network = MLP(hidden=(width, width))
    evaluator = Evaluator(Env(id=env), network, THREADS)
    centre = evaluator.policy.space.initial(np.random.default_rng(0))
    context = Context(centre, Moments.empty(evaluator.policy.inputs))
    genomes = [SignedSeed(0, 0, number // 2, 1 - 2 * (number % 2), 0.1) for number in range(environments)]
    trials = [Trial(Candidate(i, genome), (1000,), observe=True) for i, genome in enumerate(genomes)]
    seeds = [1000] * environments
    sent = _record(lambda: evaluator.evaluate(context, trials), environments)
    steps = sum(len(ids) for _, ids in sent)
    inline, spread, alone, full = [], [], [], []
    with closing(SharedEvaluator(evaluator.env, network, Process(workers=THREADS))) as shared:
        shared.evaluate(context, trials)
        for _ in range(ROUNDS):
            inline.append(_timed(lambda: evaluator.evaluate(context, trials)))
            spread.append(_timed(lambda: shared.evaluate(context, trials)))
            alone.append(_timed(lambda: _replay(env, seeds, sent)))
            full.append(_full(env, seeds, sent))
    row = {"env": env, "environments": environments, "steps": steps}
    for name, times in (("inline", inline), ("process", spread), ("envpool", alone)):
        row[name] = round(steps / statistics.median(times))
    row["envpool_full"] = round(statistics.median(full))
    for name, times in (("inline", inline), ("process", spread)):
        row[f"{name}_ratio"] = round(statistics.median(b / a for a, b in zip(times, alone, strict=True)), 3)
        row[f"{name}_of_full"] = round(row[name] / row["envpool_full"], 3)
    return row


def _record(work: Callable[[], object], environments: int) -> Sent:
    """The actions that `work` sends to its pool, and whom it sends them to."""
    sent: Sent = []
    send = backend.EnvPoolBatch.send

    def note(self: Any, actions: Any, ids: Any) -> None:
        shaped = np.ascontiguousarray(actions, self.action_dtype).reshape(len(ids), *self.action_shape)
        sent.append((shaped.copy(), ids.copy()))
        send(self, actions, ids)

    backend.EnvPoolBatch.send = note  # type: ignore[method-assign]
    try:
        work()
    finally:
        backend.EnvPoolBatch.send = send  # type: ignore[method-assign]
    assert len(sent[0][1]) == environments, "one pool"
    return sent


def _pool(env: str, seeds: list[int]) -> Any:
    pool = backend.library().make(env, "gymnasium", num_envs=len(seeds), num_threads=THREADS, seed=seeds)
    pool.reset()
    return pool


def _replay(env: str, seeds: list[int], sent: Sent) -> None:
    pool = _pool(env, seeds)
    for actions, ids in sent:
        pool.step(actions, ids)


def _full(env: str, seeds: list[int], sent: Sent, seconds: float = 1.5) -> float:
    """Steps per second of the plain loop: every environment, every step, reset by EnvPool when it is over."""
    pool, full = _pool(env, seeds), [pair for pair in sent if len(pair[1]) == len(seeds)]
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        pool.step(*full[count % len(full)])
        count += 1
    return count * len(seeds) / (time.perf_counter() - start)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
