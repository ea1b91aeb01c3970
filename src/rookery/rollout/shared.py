"""Evaluation by a fleet: trials are shared out among the workers; results come in the order of the trials."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rookery.envs import Env
from rookery.fleet import ActorSpec, EngineSpec, Fleet, Inline
from rookery.policies import PolicySpec
from rookery.rollout.results import Context, Result, Trial

_EPISODES = 64  # of a part, from which on smaller parts cost little and even out the load
_PARTS = 4  # for each worker


class SharedEvaluator:
    """What `Evaluator` does, done by many. Which worker does what is not to be seen in any bit of the results."""

    def __init__(self, env: Env, network: PolicySpec, engine: EngineSpec) -> None:
        arguments = {"env": env, "network": network, "threads": engine.worker_threads}
        actor = ActorSpec("rookery.rollout.evaluate:Evaluator", arguments)
        self.fleet = Fleet(actor, engine, timeout=None if isinstance(engine, Inline) else engine.deadline)
        try:
            self.fleet.assemble()
        except BaseException:
            self.fleet.close()
            raise

    def evaluate(self, context: Context, trials: Sequence[Trial]) -> list[Result]:
        """Results in the order of the trials."""
        workers = len(self.fleet.ready())
        published = self.fleet.publish("context", context)
        bounds = pairwise(_bounds(trials, workers))
        parts: dict[int, list[Result]] = dict(
            self.fleet.map("evaluate", [(published, trials[start:end]) for start, end in bounds])
        )
        return [result for number in range(len(parts)) for result in parts[number]]

    def close(self) -> None:
        self.fleet.close()


def _bounds(trials: Sequence[Trial], workers: int) -> list[int]:
    """Where to cut: one part for each worker, or a few where there is enough to do; all about equally many."""
    episodes = sum(len(trial.seeds) for trial in trials)
    per_worker = max(1, min(_PARTS, episodes // (workers * _EPISODES))) if workers > 1 else 1
    parts = max(1, min(len(trials), workers * per_worker))
    cuts: list[int] = np.linspace(0, len(trials), parts + 1).round().astype(int).tolist()
    return cuts
