"""How many workers one head can feed: the share of a core that it needs for workers that sleep.

`stream` keeps every worker busy, an evaluation a call, as strategies without generations do. `generations` is the
evolution strategy as `rookery run` does it, one candidate for each worker: noise, dispatch, results and update.
"""

from __future__ import annotations

import time
from contextlib import closing
from itertools import islice
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.sleepers import Sleepers
from rookery.agent import make_evaluator
from rookery.evolution.generation import Progress, absorb, plan
from rookery.experiment import Experiment, load_experiment
from rookery.policies import Moments
from rookery.rollout.shared import SharedEvaluator

SECONDS = 20.0
EVALUATION = 1.0
FLEETS = (500, 2000, 8000)


def measure() -> list[dict[str, Any]]:
    """Two rows per fleet."""
    with threadpool_limits(1):
        return [row for workers in FLEETS for row in (_stream(workers), _generations(workers))]


class _Meter:
    """Wall and processor time of this process since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def row(self, what: str, workers: int, evaluations: int) -> dict[str, Any]:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        return {
            "what": what,
            "workers": workers,
            "evaluations_per_second": round(evaluations / wall),
            "head_share_of_core": round(cpu / wall, 3),
            "head_microseconds_per_evaluation": round(1e6 * cpu / evaluations),
            "workers_busy": round(evaluations * EVALUATION / (workers * wall), 3),
        }


def _fleet(workers: int) -> SharedEvaluator:
    experiment = load_experiment("lander", [f"population={workers}", "champion_share=0"])
    return SharedEvaluator(experiment.env, experiment.policy, Sleepers(workers=workers, seconds=EVALUATION))


def _stream(workers: int) -> dict[str, Any]:
    experiment = load_experiment("lander", [f"population={workers}", "champion_share=0"])
    with closing(_fleet(workers)) as shared:
        planned = plan(experiment, _begin(experiment))
        context = shared.fleet.publish("context", planned.context)
        calls = ((context, [trial]) for _ in iter(int, 1) for trial in planned.candidates)
        results = shared.fleet.map("evaluate", calls)
        for _ in islice(results, 2 * workers):  # until everybody is at work
            pass
        meter = _Meter()
        for count, _ in enumerate(results, 1):
            if count % 100 == 0 and time.perf_counter() - meter.wall > SECONDS:
                return meter.row("stream", workers, count)
    raise AssertionError


def _generations(workers: int) -> dict[str, Any]:
    experiment = load_experiment("lander", [f"population={workers}", "champion_share=0"])
    with closing(_fleet(workers)) as shared:
        progress = _begin(experiment)
        meter = None
        while meter is None or time.perf_counter() - meter.wall < SECONDS:
            meter = meter or (_Meter() if progress.generation == 2 else None)
            planned = plan(experiment, progress)
            progress = absorb(experiment, progress, planned, shared.evaluate(planned.context, planned.candidates))
        return meter.row("generations", workers, (progress.generation - 2) * workers)


def _begin(experiment: Experiment) -> Progress:
    policy = make_evaluator(experiment).policy
    state = experiment.algorithm.init(experiment.seed, policy.space)
    return Progress(0, 0, 0, state, Moments.empty(policy.inputs))
