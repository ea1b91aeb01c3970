"""The `rookery` command: each subcommand is a few lines that call the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.exceptions import TyperException

from rookery.errors import RookeryError, UserError, did_you_mean
from rookery.ranks import speak_for_all_ranks

app = typer.Typer(
    help="Breeds reinforcement-learning agents. Try: rookery run lander",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Runs = Annotated[Path, typer.Option("--runs", envvar="ROOKERY_RUNS", help="Directory of the runs.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name or directory of a run.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as lr=0.01 seed=3.")]
Changes = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as stop.score=250 stop.steps=null.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and the final line.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
EngineName = Annotated[str | None, typer.Option("--engine", help="Where the work is done: the same as engine=.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="How many workers: engine.workers=.")]
Which = Annotated[str, typer.Option("--checkpoint", help="latest, best, or a generation.")]
MaybeRun = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or directory of a run.")]
GenomeText = Annotated[
    str | None, typer.Option("--genome", metavar="TEXT", help="In place of a run: what `rookery show` prints.")
]
Trust = Annotated[bool, typer.Option("--trust", help="Let the text of a genome name an environment of your own.")]
Axis = Literal["steps", "generations", "seconds"]
Kind = Literal["curves", "lineage", "schedules", "population", "toy"]
RUNS = Path("runs")


@app.command()
def run(
    source: Annotated[str, typer.Argument(metavar="PRESET|FILE", help="A preset's name or a YAML file.")],
    overrides: Overrides = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; PRESET-1, -2, ... if none is given.")] = None,
    engine: EngineName = None,
    workers: Workers = None,
    runs: Runs = RUNS,
    quiet: Quiet = False,
) -> None:
    """Carry out an experiment, and watch it."""
    from rookery.experiment import load_experiment

    experiment = load_experiment(source, _changes(overrides, engine, workers))
    from rookery.run import start

    raise typer.Exit(start(experiment, runs, name, Path(source).stem, "quiet" if quiet else "auto"))


@app.command()
def resume(
    run: RunName,
    overrides: Changes = None,
    engine: EngineName = None,
    workers: Workers = None,
    runs: Runs = RUNS,
    quiet: Quiet = False,
) -> None:
    """Go on with a run from its newest checkpoint; stop, checkpoint and engine may be changed."""
    from rookery.experiment import load_experiment, override_experiment
    from rookery.store.directory import RunDirectory

    directory = RunDirectory.open(runs, run)
    experiment = load_experiment(str(directory.experiment_path))
    if changes := _changes(overrides, engine, workers):
        experiment = override_experiment(experiment, changes, ("stop", "checkpoint", "engine"))
    from rookery.run import resume as go_on

    raise typer.Exit(go_on(directory, experiment, runs, "quiet" if quiet else "auto"))


@app.command("list")
def list_runs(runs: Runs = RUNS, as_json: AsJson = False) -> None:
    """The runs, oldest first."""
    from rookery.store.directory import RunDirectory
    from rookery.store.summary import print_table, summarise

    summaries = [summarise(directory) for directory in RunDirectory.all(runs)]
    if as_json:
        _print_json(summaries)
    elif summaries:
        print_table(summaries)
    else:
        print(f"no runs in '{runs}' yet; `rookery run lander` makes one")


@app.command()
def show(run: RunName, runs: Runs = RUNS, as_json: AsJson = False) -> None:
    """A run: how it stands, its checkpoints, its champion's genome, its experiment."""
    from rookery.agent import describe_genome
    from rookery.store.directory import RunDirectory
    from rookery.store.summary import print_details, summarise

    directory = RunDirectory.open(runs, run)
    text, why_not = describe_genome(directory)
    if as_json:
        _print_json({**_plain(summarise(directory)), "genome": text})
    else:
        print_details(summarise(directory), text or f"none: {why_not}", directory.experiment_path.read_text())


@app.command()
def evaluate(
    run: MaybeRun = None,
    genome: GenomeText = None,
    episodes: Annotated[int, typer.Option(min=1, help="Fresh episodes.")] = 100,
    checkpoint: Which = "best",
    number: Annotated[int, typer.Option("--seed", min=0, help="Another number draws other episodes.")] = 0,
    unseen: Annotated[bool, typer.Option("--unseen", help="On what training never shows.")] = False,
    trust: Trust = False,
    runs: Runs = RUNS,
    as_json: AsJson = False,
) -> None:
    """Measure a run's agent, or that of a genome, on fresh episodes."""
    from rookery.agent import find_agent

    report = find_agent(runs, run, genome, checkpoint, trust).evaluate(episodes, number, unseen)
    if as_json:
        _print_json(report)
        return
    kind = "unseen" if unseen else "fresh"
    score = f"{report.mean:.2f} ± {report.std:.2f} over {episodes} {kind} episodes"
    share = "" if report.normalised is None else f", normalised {report.normalised:.3f}"
    print(f"{report.run}, generation {report.checkpoint}: {score}{share}")
    spread = f"min {report.min:.2f}, median {report.median:.2f}, max {report.max:.2f}"
    print(f"{spread}; {report.mean_length:.0f} steps each")


@app.command()
def render(
    run: MaybeRun = None,
    genome: GenomeText = None,
    out: Annotated[Path | None, typer.Option(help="An .mp4 or .gif file [default: RUN.mp4].")] = None,
    checkpoint: Which = "best",
    episodes: Annotated[int, typer.Option(min=1, help="How many, one after the other.")] = 1,
    number: Annotated[int, typer.Option("--seed", min=0, help="Another number draws other episodes.")] = 0,
    fps: Annotated[int, typer.Option(min=1, help="Frames per second.")] = 50,
    trust: Trust = False,
    runs: Runs = RUNS,
) -> None:
    """Film a run's agent, or that of a genome; the run may still be going on."""
    from rookery.agent import find_agent
    from rookery.observers.video import check_video_path, write_video

    agent = find_agent(runs, run, genome, checkpoint, trust)
    path = out or Path(f"{agent.name}.mp4")
    check_video_path(path)
    write_video(agent.frames(episodes, number), path, fps)
    print(f"{path}: {agent.name}, generation {agent.progress.generation}")


@app.command()
def plot(
    run: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs; seeds of one experiment become one curve.")
    ],
    out: Annotated[Path, typer.Option(help="A .png, .svg or .pdf file.")] = Path("plot.png"),
    x: Annotated[Axis, typer.Option(help="What runs along the bottom of curves.")] = "steps",
    kind: Annotated[Kind, typer.Option(help="Of a population also its lineage, schedules, members.")] = "curves",
    runs: Runs = RUNS,
) -> None:
    """Draw the learning curves of one or more runs, or how one run's population went."""
    from rookery.store.directory import RunDirectory
    from rookery.store.plot import plot_runs
    from rookery.store.plot_population import plot_population
    from rookery.store.summary import plotted, plotted_population, summarise

    directories = [RunDirectory.open(runs, name) for name in run]
    if kind == "curves":
        plot_runs(plotted(directories), out, x)
    elif len(run) > 1 or x != "steps":
        raise UserError(f"--kind {kind} draws one run, over its members' steps: name one, without --x")
    elif kind == "toy":
        from rookery.evolution.variants import variants
        from rookery.experiment import load_experiment
        from rookery.store.plot_toy import plot_toy

        experiment = load_experiment(str(directories[0].experiment_path))
        plot_toy(variants(experiment, summarise(directories[0]).generation), out)
    else:
        plot_population(plotted_population(directories[0]), out, kind)
    print(out)


@app.command()
def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="PRESET|FILE[:KEY=VALUE]... [KEY=VALUE]...",
            help="What to compare, such as lander lander:sigma=0.1; overrides that stand alone are for all.",
        ),
    ],
    budget: Annotated[float, typer.Option(min=1, help="Environment steps of each run's training.")],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Draw the curves into a .png, .svg or .pdf file.")] = None,
    runs: Runs = RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare experiments over equally many environment steps; runs that are there already are used."""
    from rookery.compare import compare as carry_out
    from rookery.compare import describe

    found = carry_out(words, seeds, int(budget), runs, out)
    if isinstance(found, int):
        print("the same command again goes on with the comparison", file=sys.stderr)
        raise typer.Exit(found)
    _print_json(found) if as_json else describe(found)


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(metavar="[PRESET|FILE]", help="Show all keys of this one.")] = None,
    algorithms: Annotated[
        bool, typer.Option("--algorithms", help="List the algorithms, and what Nevergrad and evosax have.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The experiments that come with Rookery, or all keys of one."""
    from rookery.experiment import experiment_yaml, load_experiment, preset_description, preset_names

    if algorithms:
        from rookery.evolution.catalogue import catalogue, describe

        _print_json(catalogue()) if as_json else print(describe(catalogue()))
        return
    if name is not None:
        experiment = load_experiment(name)
        _print_json(experiment) if as_json else print(experiment_yaml(experiment, help=True), end="")
        return
    described = {preset: preset_description(preset) for preset in preset_names()}
    if as_json:
        _print_json(described)
        return
    width = max(map(len, described))
    for preset, description in described.items():
        print(f"{preset:<{width}}  {description}")


@app.command()
def envs(
    pattern: Annotated[str, typer.Argument(metavar="[TEXT]", help="Only ids that contain this.")] = "",
    as_json: AsJson = False,
) -> None:
    """The environments that can be named in env.id."""
    from rookery.envs import known_ids

    known = known_ids()
    known["gymnasium"] -= known["envpool"]
    found = {
        backend: sorted(name for name in ids if pattern.lower() in name.lower()) for backend, ids in known.items()
    }
    if as_json:
        _print_json(found)
        return
    if not any(found.values()):
        raise UserError(
            f"no environment id contains '{pattern}'.{did_you_mean(pattern, set().union(*known.values()))}"
        )
    for backend, ids in found.items():
        for name in ids:
            print(f"{name}  ({backend})")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """What works on this machine, and what to install for the rest."""
    from rookery.doctor import describe, examine

    report = examine()
    _print_json(report) if as_json else print(describe(report, sys.stdout.encoding))
    raise typer.Exit(0 if report.healthy else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; whatever was typed wrong is one line and exit code 2."""
    command: Any = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name="rookery", standalone_mode=False)
    except RookeryError as error:
        _fail(str(error), error.exit_code)
    except TyperException as error:
        if not error.format_message().strip():  # it was help that was asked for, and is printed
            sys.exit(error.exit_code)
        _fail(_explain(error, command), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; Python would complain about it at exit
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _changes(overrides: list[str] | None, engine: str | None, workers: int | None) -> list[str]:
    """Overrides, with the options that stand for some in front."""
    given = {"engine.type": engine, "engine.workers": workers}
    return [f"{key}={value}" for key, value in given.items() if value is not None] + (overrides or [])


def _fail(message: str, code: int) -> None:
    speak_for_all_ranks()
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _explain(error: Any, command: Any) -> str:
    """One line for what Typer has to say about the command line."""
    message = " ".join(error.format_message().split())
    given = getattr(error, "ctx", None)
    path = given.command_path if given else "rookery"
    if message.startswith("No such command"):
        typed = message.split("'")[1]
        message = f"no command '{typed}'.{did_you_mean(typed, command.commands)}"
    return f"{message} (`{path} --help` shows what there is)"


def _plain(value: Any) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _print_json(value: Any) -> None:
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
