"""Experiments side by side: the same number of environment steps each, over several seeds."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from rookery.errors import UserError
from rookery.experiment import Checkpoint, Experiment, Stop, experiment_yaml, load_experiment
from rookery.fleet.specs import Inline
from rookery.observers.text import compact, duration, number
from rookery.run import resume, start
from rookery.significance import mann_whitney
from rookery.store.directory import RunDirectory
from rookery.store.events import History, history, read_events
from rookery.store.picture import check_path
from rookery.store.plot import PlottedRun, plot_runs

_WIDTH = 160  # of a table that is not on a terminal
_OVERRIDE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*=")
_VARIANT = re.compile(r":(?=[A-Za-z_][A-Za-z0-9_.]*=)")


class Contestant(NamedTuple):
    """What is compared: a preset or file with its own overrides, by the name that was typed."""

    label: str
    source: str
    overrides: list[str]


class Row(msgspec.Struct, frozen=True):
    """How one contestant did: what its final champions earn on fresh episodes, and what a run costs on average.

    `steps` are those that training consumed; validations took `validation_steps` more.
    """

    name: str
    runs: tuple[str, ...]
    scores: tuple[float, ...]
    mean: float
    std: float
    best: float
    steps: int
    validation_steps: int
    steps_per_second: float
    seconds: float


class Pair(msgspec.Struct, frozen=True):
    """Two contestants: by how much the first is ahead, and how likely chance alone would part them so far."""

    one: str
    other: str
    difference: float
    p: float


class Comparison(msgspec.Struct, frozen=True):
    """All of it."""

    budget: int
    seeds: int
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]


def contestants(words: Sequence[str]) -> tuple[list[Contestant], list[str]]:
    """Contestants, and overrides for all of them, from words such as `lander lander:sigma=0.1:lr=0.02 seed=3`."""
    shared = [word for word in words if _OVERRIDE.match(word)]
    found = []
    for word in words:
        if word not in shared:
            source, *overrides = _VARIANT.split(word)
            found.append(Contestant(word, source, overrides))
    labels = [contestant.label for contestant in found]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise UserError(f"'{repeated[0]}' is there twice; a variant is written {repeated[0]}:key=value")
    if not found:
        raise UserError("name at least one preset or file; a variant of one is written lander:sigma=0.1")
    return found, shared


def compare(words: Sequence[str], seeds: int, budget: int, runs: Path, out: Path | None) -> Comparison | int:
    """Carry out what is not there yet, and compare; the exit code instead if a signal has stopped it."""
    if out is not None:
        check_path(out)
    found, shared = contestants(words)
    wanted = [(who, _experiments(who, shared, seeds, budget)) for who in found]
    members: dict[str, list[RunDirectory]] = {}
    for who, experiments in wanted:
        for experiment in experiments:
            run, code = _carry_out(who, experiment, runs)
            if code:
                return code
            members.setdefault(who.label, []).append(run)
    rows = tuple(_row(label, mine, budget) for label, mine in members.items())
    if out is not None:
        plot_runs([PlottedRun(run.name, label, past(run)) for label, mine in members.items() for run in mine], out)
    pairs = [
        Pair(one.name, other.name, one.mean - other.mean, mann_whitney(one.scores, other.scores))
        for one, other in combinations(rows, 2)
    ]
    return Comparison(budget, seeds, rows, tuple(pairs))


def describe(comparison: Comparison) -> None:
    """Print tables for a person."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("experiment", overflow="fold")
    for column in ("score", "std", "best", "steps", "validation", "steps/s", "time"):
        table.add_column(column, justify="right")
    for row in comparison.rows:
        scores = (number(row.mean), number(row.std), number(row.best))
        costs = (compact(row.steps), compact(row.validation_steps), compact(row.steps_per_second))
        table.add_row(row.name, *scores, *costs, duration(row.seconds))
    console.print(table)
    for pair in comparison.pairs:
        ahead, behind = (pair.one, pair.other) if pair.difference >= 0 else (pair.other, pair.one)
        by = number(abs(pair.difference))
        console.print(f"{ahead} over {behind}: {by}, p = {pair.p:.2g}", highlight=False, soft_wrap=True)


def past(run: RunDirectory) -> History:
    """What a run has done."""
    return history(read_events(run.events_path))


def _experiments(who: Contestant, shared: Sequence[str], seeds: int, budget: int) -> list[Experiment]:
    """A contestant's experiments, which end where the budget does and nowhere else."""
    experiment = load_experiment(who.source, [*shared, *who.overrides])
    if experiment.engine.name == "mpi":
        raise UserError("engine=mpi carries out one run for each mpiexec, and a comparison has many")
    stop = Stop(steps=budget, overshoot=False)
    return [replace(experiment, stop=stop, seed=experiment.seed + number) for number in range(seeds)]


def _carry_out(who: Contestant, experiment: Experiment, runs: Path) -> tuple[RunDirectory, int]:
    """The run of an experiment, begun, continued or found; and an exit code if it was stopped."""
    name = _name(who, experiment)
    if (there := _written(runs, name)) and _steps(there) > _steps(experiment):
        name = f"{name}-{experiment.stop.steps}"  # its final champion has seen more than it should here
        there = _written(runs, name)
    with redirect_stdout(sys.stderr):
        if there is None:
            return RunDirectory(runs / name), start(experiment, runs, name, name, "quiet")
        run = RunDirectory(runs / name)
        if _steps(there) == _steps(experiment) and past(run).complete:
            return run, 0
        return run, resume(run, replace(there, stop=experiment.stop, engine=experiment.engine), runs, "quiet")


def _name(who: Contestant, experiment: Experiment) -> str:
    """A name that says what a run is, and that no other experiment has."""
    deciding = replace(experiment, description="", stop=Stop(), engine=Inline(), checkpoint=Checkpoint())
    digest = blake2b(experiment_yaml(deciding).encode(), digest_size=4).hexdigest()
    spoken = re.sub(r"[^A-Za-z0-9.]+", "-", " ".join([Path(who.source).stem, *who.overrides])).strip("-.")
    return f"{spoken}-{digest}-seed{experiment.seed}"


def _written(runs: Path, name: str) -> Experiment | None:
    path = runs / name / "experiment.yaml"
    return load_experiment(str(path)) if path.exists() else None


def _steps(experiment: Experiment) -> int:
    return experiment.stop.steps or 0


def _row(label: str, runs: Sequence[RunDirectory], budget: int) -> Row:
    pasts = [past(run) for run in runs]
    if not all(entry.generations for entry in pasts):
        raise UserError(f"--budget={budget}: a generation of {label} takes more steps than that")
    scores = tuple(entry.validated[-1].score for entry in pasts)
    steps = sum(entry.generations[-1].steps for entry in pasts)
    seconds = sum(entry.ended[-1].seconds for entry in pasts)
    return Row(
        name=label,
        runs=tuple(run.name for run in runs),
        scores=scores,
        mean=float(np.mean(scores)),
        std=float(np.std(scores)),
        best=max(scores),
        steps=round(steps / len(runs)),
        validation_steps=round(sum(v.taken for entry in pasts for v in entry.validated) / len(runs)),
        steps_per_second=steps / seconds,
        seconds=seconds / len(runs),
    )
