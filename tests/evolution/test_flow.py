"""A steady flow: candidates are under way across boundaries, and a resumed run asks for the same ones again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rookery.errors import UserError
from rookery.evolution import GA
from rookery.evolution.flow import flow
from rookery.evolution.generation import Progress, absorb
from rookery.experiment import Experiment, load_experiment
from rookery.genomes import ParameterSpace
from rookery.rollout.results import Context, Result, Trial
from rookery.store.codec import decode, encode

SPACE = ParameterSpace.flat(4)


class Tank:
    """Evaluates by number, and remembers what it was sent and how many were out whenever a result was taken."""

    def __init__(self) -> None:
        self.sent: dict[int, Trial] = {}
        self.out: set[int] = set()
        self.levels: list[int] = []

    def send(self, context: Context, trials: Sequence[Trial]) -> None:
        assert context.moments is None
        for trial in trials:
            if trial.candidate.id not in self.out:
                self.sent[trial.candidate.id] = trial
                self.out.add(trial.candidate.id)

    def take(self, candidate: int) -> Result:
        self.levels.append(sum(number >= 0 for number in self.out))
        self.out.remove(candidate)
        seeds = self.sent[candidate].seeds
        return Result(id=candidate, fitness=float(seeds[0] % 97 + candidate % 7), returns=(1.0,), lengths=(3,))


def steady() -> tuple[Experiment, GA, Progress]:
    words = ["mode=steady", "window=5", "population=12", "truncation=3", "elites=2", "champion_share=0.2"]
    experiment = load_experiment("cartpole-ga", words)
    strategy = experiment.algorithm
    assert isinstance(strategy, GA)
    return experiment, strategy, Progress(0, 0, 0, strategy.init(0, SPACE), None)


def after(generations: int, stop_at: int | None = None) -> tuple[Progress, list[Tank]]:
    """A run of so many generations; at `stop_at` it goes on from disk, with nothing under way."""
    experiment, strategy, progress = steady()
    tanks = [Tank()]
    for generation in range(generations):
        if generation == stop_at:
            progress = decode(encode(progress), Progress)
            tanks.append(Tank())
        planned, results = flow(experiment, strategy, progress, tanks[-1])
        assert len(planned.champion) == 2
        assert len(results) == len(planned.candidates) + 2
        progress = absorb(experiment, progress, planned, results)
    return progress, tanks


def test_the_window_is_full_all_the_time_also_across_boundaries() -> None:
    progress, (tank,) = after(4)
    assert progress.generation == 4
    levels = [level for level in tank.levels if level]
    assert set(levels) <= {4, 5}
    assert levels.count(4) == 4 * 2, "only while the champion's own results are taken at a boundary"
    assert len(tank.out) == 4


def test_every_candidate_has_the_episodes_of_its_own_generation() -> None:
    _, (tank,) = after(3)
    by_generation: dict[int | None, set[tuple[int, ...]]] = {}
    for trial in tank.sent.values():
        if trial.candidate.id >= 0 and not trial.candidate.fresh:
            by_generation.setdefault(trial.candidate.generation, set()).add(trial.seeds)
    assert all(len(seeds) == 1 for seeds in by_generation.values())
    assert len(set.union(*by_generation.values())) == len(by_generation) == 4


def test_a_run_that_was_stopped_at_a_boundary_asks_for_the_same_again() -> None:
    whole, (tank,) = after(5)
    resumed, (before, then) = after(5, stop_at=2)
    assert encode(resumed) == encode(whole)
    assert before.out <= then.sent.keys()
    assert {**before.sent, **then.sent}.keys() == tank.sent.keys()
    assert all(tank.sent[number].seeds == trial.seeds for number, trial in then.sent.items() if number >= 0)


def test_statistics_of_observations_are_refused_in_one_line() -> None:
    with pytest.raises(UserError, match=r"algorithm\.mode=steady needs policy\.normaliser=null"):
        load_experiment("cartpole", ["algorithm=ga", "mode=steady"])
