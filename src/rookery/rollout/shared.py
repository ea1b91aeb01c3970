"""Evaluation by a fleet: trials are shared out among the workers; results come in the order of the trials."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rookery.envs import Env
from rookery.fleet import ActorSpec, EngineSpec, Fleet, Inline
from rookery.fleet.dispatch import Task
from rookery.fleet.engine import Ref
from rookery.policies import PolicySpec
from rookery.rollout.results import Context, Result, Trial

_EPISODES = 64  # of a part, from which on smaller parts cost little and even out the load
_PARTS = 4  # for each worker
_AHEAD = 2  # calls of a stream for each worker


class SharedEvaluator:
    """What `Evaluator` does, done by many. Which worker does what is not to be seen in any bit of the results."""

    def __init__(
        self,
        env: Env,
        network: PolicySpec,
        engine: EngineSpec,
        unseen: Env | None = None,
        actor: str = "rookery.rollout.evaluate:Evaluator",
        **more: Any,
    ) -> None:
        """`actor` is the evaluator's class, and `more` what it takes beyond what all evaluators do."""
        arguments = {
            "env": env,
            "network": network,
            "threads": engine.worker_threads,
            "unseen": unseen,
            **more,
        }
        spec = ActorSpec(actor, arguments)
        self.fleet = Fleet(spec, engine, timeout=None if isinstance(engine, Inline) else engine.deadline)
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

    def stream(self, window: int) -> Stream:
        """For trials of which more are sent whenever a result is taken, so that about `window` are out."""
        return Stream(self.fleet, window)

    def close(self) -> None:
        self.fleet.close()


class Stream:
    """Trials that are under way: they are sent as they come up, and each result is taken by its candidate's id."""

    def __init__(self, fleet: Fleet, window: int) -> None:
        self.fleet, self.window = fleet, window
        self.context: tuple[Context, Ref] | None = None
        self.unsent: list[Trial] = []
        self.out: dict[int, tuple[Task, int]] = {}  # by candidate: its call, and its place in there

    def send(self, context: Context, trials: Sequence[Trial]) -> None:
        """Have trials evaluated; those that are under way already stay as they are."""
        if self.context is None or context is not self.context[0]:
            self._submit(len(self.unsent))
            self.context = context, self.fleet.publish("stream", context)
        waiting = {trial.candidate.id for trial in self.unsent}
        self.unsent += [t for t in trials if t.candidate.id not in self.out and t.candidate.id not in waiting]
        # A few together cost less each; two calls for each worker, so that it never waits for the head.
        together = max(1, self.window // (_AHEAD * max(1, len(self.fleet.workers))))
        while len(self.unsent) >= together:
            self._submit(together)

    def take(self, candidate: int) -> Result:
        """Wait for the result of a candidate that was sent."""
        if candidate not in self.out:
            self._submit(len(self.unsent))
        task, place = self.out.pop(candidate)
        self.fleet.wait([task])
        results: list[Result] = task.result()
        return results[place]

    def _submit(self, count: int) -> None:
        """The oldest of those that wait, as one call."""
        part, self.unsent = self.unsent[:count], self.unsent[count:]
        if part and self.context is not None:
            task = self.fleet.submit("evaluate", self.context[1], part)
            self.out |= {trial.candidate.id: (task, place) for place, trial in enumerate(part)}


def _bounds(trials: Sequence[Trial], workers: int) -> list[int]:
    """Where to cut: one part for each worker, or a few where there is enough to do; all about equally many."""
    episodes = sum(len(trial.seeds) for trial in trials)
    per_worker = max(1, min(_PARTS, episodes // (workers * _EPISODES))) if workers > 1 else 1
    parts = max(1, min(len(trials), workers * per_worker))
    cuts: list[int] = np.linspace(0, len(trials), parts + 1).round().astype(int).tolist()
    return cuts
