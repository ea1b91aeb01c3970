"""Where the time of `lander-nevergrad` goes, and what the adapter adds to Nevergrad's own ask and tell.

`simulating` and `searching` are shares of the wall time of whole generations through the fleet: those in which an
environment is stepped or waited for, and those inside Nevergrad's ask and tell. `overhead` compares generations of
the strategy alone, results made up, with a bare loop over the same optimiser: ask, tell, recommendation.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from rookery.envs.envpool import EnvPoolBatch
from rookery.evolution import Nevergrad
from rookery.evolution.generation import Progress, absorb, plan
from rookery.experiment import Experiment, load_experiment
from rookery.genomes import ParameterSpace
from rookery.policies import Moments, Policy
from rookery.rollout.results import Result
from rookery.rollout.shared import SharedEvaluator

GENERATIONS = 20
ROUNDS = 5
SIZES = {"CMA": 296, "DiagonalCMA": 1476}


def measure() -> list[dict[str, Any]]:
    """A row for each optimiser alone, and one for the run."""
    import nevergrad  # noqa: F401  (what it brings in is to be limited as well: both sides have one thread)

    with threadpool_limits(1):
        return [*(_overhead(name, size) for name, size in SIZES.items()), _shares()]


def _shares() -> dict[str, Any]:
    experiment = load_experiment("lander-nevergrad")
    import nevergrad

    with closing(SharedEvaluator(experiment.env, experiment.policy, experiment.engine)) as evaluator:
        progress = _begun(experiment)
        clock = {"simulating": 0.0, "searching": 0.0}
        base = nevergrad.optimizers.base.Optimizer
        with (
            _timed(EnvPoolBatch, ("send", "receive", "reset"), clock, "simulating"),
            _timed(base, ("ask", "tell"), clock, "searching"),
        ):
            begin = time.perf_counter()
            for _ in range(GENERATIONS):
                planned = plan(experiment, progress)
                trials = [*planned.candidates, *planned.champion]
                progress = absorb(experiment, progress, planned, evaluator.evaluate(planned.context, trials))
            whole = time.perf_counter() - begin
    shares = {name: round(seconds / whole, 3) for name, seconds in clock.items()}
    return {"what": "lander-nevergrad", **shares, "together": round(sum(clock.values()) / whole, 3)}


def _begun(experiment: Experiment) -> Progress:
    from rookery.envs import arena

    policy = Policy(experiment.policy, arena(experiment.env).spaces)
    return Progress(0, 0, 0, experiment.strategy.init(0, policy.space), Moments.empty(policy.inputs))


@contextmanager
def _timed(kind: type, names: tuple[str, ...], clock: dict[str, float], part: str) -> Any:
    """Add the time that is spent in methods of a class to a part of the clock; a call within one counts once."""
    originals = {name: getattr(kind, name) for name in names}
    inside = [False]

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if inside[0]:
                return method(*arguments, **options)
            inside[0], begin = True, time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                clock[part] += time.perf_counter() - begin
                inside[0] = False

        return call

    for name, method in originals.items():
        setattr(kind, name, timed(method))
    try:
        yield
    finally:
        for name, method in originals.items():
            setattr(kind, name, method)


def _overhead(optimizer: str, size: int) -> dict[str, Any]:
    import nevergrad

    gc.collect()
    gc.freeze()  # else what is left of one optimiser is looked through while another one is timed
    strategy = Nevergrad(optimizer=optimizer, population=64)
    state = strategy.init(0, ParameterSpace.flat(size))
    bare = nevergrad.optimizers.registry[optimizer](
        nevergrad.p.Array(init=np.zeros(size)).set_mutation(sigma=0.1), num_workers=64
    )
    losses = np.random.default_rng(0).normal(size=64).tolist()
    ours, theirs = [], []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(GENERATIONS):
            state, asked = strategy.ask(state)
            state = strategy.tell(state, [Result(id=c.id, fitness=-v) for c, v in zip(asked, losses, strict=True)])
        between = time.perf_counter()
        for _ in range(GENERATIONS):
            candidates = [bare.ask() for _ in range(64)]
            for candidate, loss in zip(candidates, losses, strict=True):
                bare.tell(candidate, loss)
            bare.provide_recommendation()
        ours.append(between - begin)
        theirs.append(time.perf_counter() - between)
    overhead = statistics.median(a / b for a, b in zip(ours, theirs, strict=True)) - 1
    per_generation = 1e3 * statistics.median(theirs) / GENERATIONS
    return {
        "what": f"{optimizer}, {size} parameters",
        "bare_milliseconds": round(per_generation, 1),
        "overhead": round(overhead, 3),
    }
