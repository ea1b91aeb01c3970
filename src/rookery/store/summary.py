"""What there is to say about a run on disk, for lists and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from rookery.envs.procgen import called
from rookery.errors import UserError
from rookery.observers.text import compact, duration, number
from rookery.store.ancestry import families
from rookery.store.directory import RunDirectory
from rookery.store.events import History, history, read_events
from rookery.store.plot import PlottedRun
from rookery.store.plot_population import PlottedPopulation


class Summary(msgspec.Struct, frozen=True):
    """How a run stands."""

    name: str
    directory: str
    env: str
    algorithm: str
    seed: int
    state: str
    generation: int
    steps: int
    seconds: float
    score: float | None
    score_std: float | None
    unseen: float | None
    checkpoints: tuple[int, ...]


def summarise(run: RunDirectory) -> Summary:
    """Read what a run's files say."""
    written = _written(run)
    past = read_history(run)
    last = past.generations[-1] if past.generations else None
    best = past.best
    return Summary(
        name=run.name,
        directory=str(run.path),
        env=_env(_flat(written)),
        algorithm=written["algorithm"]["type"],
        seed=written["seed"],
        state=_state(run, past),
        generation=last.generation if last else 0,
        steps=last.steps if last else 0,
        seconds=last.seconds if last else 0.0,
        score=best.score if best else None,
        score_std=best.std if best else None,
        unseen=best.unseen if best else None,
        checkpoints=tuple(run.checkpoints()),
    )


def plotted(runs: Sequence[RunDirectory]) -> list[PlottedRun]:
    """Runs as the plot wants them: those that differ only by their seed are one group."""
    settings = [_flat(_written(run)) for run in runs]
    groups = [_without(_APART, flat) for flat in settings]
    labels = _labels(groups)
    return [
        PlottedRun(run.name, label, read_history(run), flat["stop.score"])
        for run, label, flat in zip(runs, labels, settings, strict=True)
    ]


def plotted_population(run: RunDirectory) -> PlottedPopulation:
    """A run's population as its plots want it."""
    flat = _flat(_written(run))
    ranges = [path.removesuffix(".scale") for path in flat if path.endswith(".scale")]
    scales = {path.removeprefix(_LEARNER): flat[f"{path}.scale"] for path in ranges if f"{path}.low" in flat}
    together = flat.get("algorithm.mode") == "sync"
    return PlottedPopulation(run.name, families(run.name, read_history(run), together), scales)


def print_table(summaries: list[Summary]) -> None:
    """The runs as a table."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column in ("run", "env", "algorithm", "seed", "state"):
        table.add_column(column, overflow="fold")
    unseen = ["unseen"] if any(run.unseen is not None for run in summaries) else []
    for column in ("gen", "steps", "time", "score", *unseen):
        table.add_column(column, justify="right")
    for run in summaries:
        scores = ["" if score is None else number(score) for score in (run.score, run.unseen)]
        row = (run.name, run.env, run.algorithm, str(run.seed), run.state, str(run.generation))
        table.add_row(*row, compact(run.steps), duration(run.seconds), *scores[: 1 + len(unseen)])
    Console().print(table)


def print_details(summary: Summary, genome: str, experiment: str) -> None:
    """All about one run."""
    print_table([summary])
    kept = ", ".join(map(str, summary.checkpoints)) or "none"
    console = Console(highlight=False)
    console.print(f"directory {summary.directory}; checkpoints {kept}", soft_wrap=True)
    console.print(f"genome {genome}\n", soft_wrap=True, markup=False)
    console.print(experiment, end="", soft_wrap=True, markup=False)


# What does not make two runs different experiments.
_APART = ("seed", "description", "engine.", "checkpoint.", "stop.")
_LEARNER = "algorithm.learner."  # before the name of a hyperparameter
_LABEL = 24  # letters of a value in a label


def _labels(groups: Sequence[dict[str, Any]]) -> list[str]:
    """`env algorithm`, and behind it what differs between groups that would be called the same."""
    names = [f"{_env(group)} {group['algorithm.type']}" for group in groups]
    labels = []
    for name, group in zip(names, groups, strict=True):
        rivals = [other for other_name, other in zip(names, groups, strict=True) if other_name == name]
        apart = [key for key in group if any(other.get(key) != group[key] for other in rivals)]
        told = " ".join(f"{key.rpartition('.')[2]}={_brief(group[key])}" for key in apart)
        labels.append(f"{name} {told}".strip())
    return labels


def _brief(value: Any) -> str:
    """A value that fits into a label."""
    text = str(value)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def _env(flat: dict[str, Any]) -> str:
    """What an environment is called."""
    game = flat.get("env.procgen.game")
    return called(game, flat["env.procgen.distribution"]) if game else str(flat["env.id"])


def _written(run: RunDirectory) -> dict[str, Any]:
    """The experiment as the run's own file has it: complete, so that nothing needs to be known of its parts."""
    written = yaml.safe_load(run.experiment_path.read_text())
    if not isinstance(written, dict):
        raise UserError(f"{run.experiment_path} is no experiment")
    return written


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def _without(prefixes: tuple[str, ...], flat: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flat.items() if not key.startswith(prefixes)}


def read_history(run: RunDirectory) -> History:
    """What counts of a run."""
    return history(read_events(run.events_path) if run.events_path.exists() else [])


def _state(run: RunDirectory, past: History) -> str:
    if run.is_locked():
        return "running"
    return "complete" if past.complete else "stopped"
