"""A generation of a steady strategy: results are told in the order of the candidates, and each makes it ask again.

Candidates are under way across the boundary between two generations. Which they are is in the strategy's state, so
a run that goes on from a boundary asks for the same again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from rookery.evolution.breeding import Breeding, BreedingState
from rookery.evolution.generation import Plan, Progress, champion, surroundings, trials
from rookery.experiment import Experiment
from rookery.rollout.results import Context, Result, Trial


class Stream(Protocol):
    """Evaluates what it is sent, each candidate once, while others are being asked for."""

    def send(self, context: Context, trials: Sequence[Trial]) -> None: ...

    def take(self, candidate: int) -> Result: ...


def flow(
    experiment: Experiment, strategy: Breeding, progress: Progress, stream: Stream
) -> tuple[Plan, list[Result]]:
    """Evaluate and tell a generation; what was planned in the end, and its results, the champion's last."""
    state = progress.strategy
    assert isinstance(state, BreedingState)
    context, own = surroundings(experiment, progress), champion(experiment, progress, strategy.population)
    for number, trial in enumerate(own):  # each with an id of its own, by which its result is taken
        own[number] = replace(trial, candidate=replace(trial.candidate, id=trial.candidate.id - number))
    stream.send(context, own)
    waiting = deque(trials(experiment, progress, strategy.out(state)))
    stream.send(context, list(waiting))
    told: list[Trial] = []
    results: list[Result] = []
    while state.generation == progress.generation:
        state, asked = strategy.ask(state)
        more = trials(experiment, progress, asked)
        stream.send(context, more)
        waiting += more
        told.append(waiting.popleft())
        results.append(stream.take(told[-1].candidate.id))
        state = strategy.tell(state, results[-1:])
    results += [stream.take(trial.candidate.id) for trial in own]
    return Plan(state, context, told, own), results
