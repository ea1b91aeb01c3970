"""The one place that wires an experiment to its evaluator, algorithm and observers, and carries it out."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from threadpoolctl import threadpool_limits

from rookery import __version__
from rookery.agent import load_agent
from rookery.envs import arena
from rookery.errors import RookeryError, UserError
from rookery.evolution.generation import Progress, Score, fresh_episodes, judge, score
from rookery.evolution.pbt import PBT
from rookery.experiment import Experiment, experiment_yaml, load_experiment
from rookery.learning.ppo import Actor
from rookery.observers import events
from rookery.observers.bus import Bus
from rookery.observers.checkpoint import CheckpointWriter
from rookery.observers.progress import progress as screen
from rookery.observers.tensorboard import TensorBoard
from rookery.policies import Policy
from rookery.pursuits import Pursuit, Round, pursue
from rookery.ranks import refuse_copies
from rookery.replay import replaying
from rookery.rollout.evaluate import check_alike
from rookery.rollout.results import Context, Result, Trial
from rookery.signals import StopRequestedError, StopSignals
from rookery.store.directory import RunDirectory
from rookery.store.events import EventLog, History, history, read_events
from rookery.store.files import write_whole
from rookery.streams import stream

Display = Literal["auto", "live", "plain", "quiet"]

_PATIENCE = 3  # generations from one validation to the next that a score at the target asks for


def start(experiment: Experiment, runs: Path, name: str | None, stem: str, display: Display = "auto") -> int:
    """Carry out a new run; returns the exit code."""
    notices = []
    if experiment.replay:
        experiment, said = replaying(experiment, runs)
        notices.append(said)
    _refuse_genes(experiment)
    refuse_copies(experiment.engine.name)
    with threadpool_limits(1):
        if experiment.engine.serve():
            return 0
        if experiment.unseen:
            check_alike(arena(experiment.env).spaces, arena(experiment.unseen).spaces)
        inherited = _inherit(experiment, runs) if experiment.policy.init_from else None
        with closing(pursue(experiment)) as pursuit:
            progress = pursuit.begin(inherited)
            run = RunDirectory.create(runs, name, stem, experiment_yaml(experiment))
            with run.locked():
                sitting = _Sitting(run, experiment, pursuit, progress, history([]), notices)
                return sitting.carry_out(_resume_command(run, runs), display)


def resume(run: RunDirectory, experiment: Experiment, runs: Path, display: Display = "auto") -> int:
    """Go on with a run from its newest whole checkpoint; returns the exit code."""
    refuse_copies(experiment.engine.name)
    with threadpool_limits(1):
        if experiment.engine.serve():
            return 0
        with run.locked(), closing(pursue(experiment)) as pursuit:
            return _go_on(run, experiment, pursuit).carry_out(_resume_command(run, runs), display)


def _go_on(run: RunDirectory, experiment: Experiment, pursuit: Pursuit) -> _Sitting:
    """The next sitting of a run, from its newest whole checkpoint."""
    if experiment != load_experiment(str(run.experiment_path)):
        write_whole(run.experiment_path, experiment_yaml(experiment).encode())
    progress, notices = run.load("latest", Progress)
    past = history(read_events(run.events_path))
    return _Sitting(run, experiment, pursuit, progress, past, notices)


class _Sitting:
    """A run from one boundary until a stop condition is met, a signal comes, or something fails."""

    def __init__(
        self,
        run: RunDirectory,
        experiment: Experiment,
        pursuit: Pursuit,
        progress: Progress,
        past: History,
        notices: Sequence[str] = (),
    ) -> None:
        self.run, self.experiment, self.pursuit, self.progress = run, experiment, pursuit, progress
        self.evaluator = pursuit.evaluator
        self.past, self.notices = past, notices
        self.earlier = max(
            (g.seconds for g in past.generations if g.generation <= progress.generation), default=0.0
        )
        self.began = time.monotonic()
        self.bus = Bus()
        self.signals = StopSignals()
        self.best = progress.best

    @property
    def seconds(self) -> float:
        """How long the run has been running, earlier sittings included."""
        return self.earlier + time.monotonic() - self.began

    def carry_out(self, resume_command: str, display: Display) -> int:
        """Run, and leave a checkpoint whatever ends it."""
        try:
            with self.signals:
                self._attach(display)
                try:
                    reason = self._generations()
                except StopRequestedError as stop:
                    self._boundary(final=True)
                    self._end(f"{stop} received", resume_command)
                    return stop.exit_code
                self._boundary(final=True)
                self._end(reason)
                return 0
        finally:
            self.bus.close()

    def _generations(self) -> str:
        """The loop; returns the stop condition that was met."""
        while True:
            self._boundary()
            self.signals.check()
            if reason := self._limit_reached():
                self._validate(at_end=True)
                return reason
            made = self._made()
            if reason := self._goes_too_far(made.steps):
                self._validate(at_end=True)
                return reason
            self._check_failures(made.failures, made.hopeless, f"generation {self.progress.generation + 1}")
            if self._validation_due(made.score):
                self._validate()
            if self._solved():
                return f"score {self.experiment.stop.score:g} reached"
            self.progress = made.after(self.progress)
            self._report(made)

    def _made(self) -> Round:
        """What the next generation comes to; where that fails, the one before it is on disk."""
        try:
            with self._evaluating():
                return self.pursuit.generation(self.progress)
        except RookeryError:
            self._boundary(final=True)
            raise

    def _evaluate(self, context: Context, trials: Sequence[Trial]) -> list[Result]:
        with self._evaluating():
            return self.evaluator.evaluate(context, trials)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """A signal may come at any moment; what became of workers meanwhile is said afterwards."""
        with self.signals.interruptible():
            yield
        for line in self.evaluator.fleet.news():
            self._notice(line)

    def _limit_reached(self) -> str | None:
        stop, progress = self.experiment.stop, self.progress
        for name, limit, value in (
            ("generations", stop.generations, progress.generation),
            ("steps", stop.steps, progress.steps),
            ("seconds", stop.seconds, self.seconds),
        ):
            if limit is not None and value >= limit:
                return f"{int(limit):,} {name} reached" if limit == int(limit) else f"{limit:g} {name} reached"
        return None

    def _goes_too_far(self, steps: int) -> str | None:
        """Why a generation is not to count, where an experiment wants no step beyond its limit."""
        stop = self.experiment.stop
        if stop.overshoot or stop.steps is None or self.progress.steps + steps <= stop.steps:
            return None
        return f"the next generation would go beyond {stop.steps:,} steps"

    def _validation_due(self, champion: float | None) -> bool:
        """Every so often; and near the target, once training took as much time as the last validation did."""
        progress, last, target = self.progress, self.progress.validated, self.experiment.stop.score
        since = progress.generation - last.generation if last else progress.generation
        every = self.experiment.evaluation.validate_every
        rested = last is None or (since >= _PATIENCE and progress.steps - last.steps >= last.taken)
        at_target = target is not None and champion is not None and champion >= target
        return (every > 0 and since >= every) or (at_target and rested)

    def _validate(self, at_end: bool = False) -> None:
        """Measure the champion on fresh episodes, unless that was done in this generation.

        What is measured because a limit was reached stays out of the progress, so that a run which goes on to a
        later limit is the run that was given that limit from the start.
        """
        progress = self.progress
        if progress.validated and progress.validated.generation == progress.generation:
            return
        measured = self._measure()
        unseen = self._measure(unseen=True) if self.experiment.unseen else None
        judged, best = judge(progress, measured)
        self.best = judged.best
        if not at_end:
            self.progress = judged
        self.bus.publish(
            events.Validated(
                **self._now(),
                generation=measured.generation,
                steps=measured.steps,
                score=measured.mean,
                std=measured.std,
                episodes=measured.episodes,
                best=best,
                taken=measured.taken + (unseen.taken if unseen else 0),
                unseen=unseen.mean if unseen else None,
                unseen_std=unseen.std if unseen else None,
                score_range=self.experiment.score_range,
            )
        )
        self._boundary(best=best)

    def _measure(self, unseen: bool = False) -> Score:
        """What the champion earns on fresh episodes."""
        experiment, progress = self.experiment, self.progress
        episodes = experiment.evaluation.validation_episodes
        results = self._evaluate(
            *fresh_episodes(experiment, progress, "validation", progress.generation, episodes, unseen)
        )
        errors = [result.error for result in results if result.error]
        self._check_failures(errors, len(errors) == len(results), "the validation")
        return score(progress, results, experiment.env.reward_scale)

    def _solved(self) -> bool:
        validated, target = self.progress.validated, self.experiment.stop.score
        if validated is None or target is None or validated.generation != self.progress.generation:
            return False
        return validated.sure >= target

    def _check_failures(self, failures: Sequence[str], hopeless: bool, batch: str) -> None:
        """Say which evaluations failed; raise when the experiment wants it or when nothing else is left."""
        if not failures:
            return
        if hopeless or self.experiment.evaluation.on_error == "stop":
            self._boundary(final=True)
            whole = "every evaluation failed; the first: " if hopeless and len(failures) > 1 else ""
            raise RookeryError(f"{whole}{failures[0]}")
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        self._notice(f"{failures[0]}{more}: counted as the worst of {batch}")

    def _report(self, made: Round) -> None:
        where = {**self._now(), "generation": self.progress.generation, "steps": self.progress.steps}
        for kind, fields in made.told:
            self.bus.publish(kind(**where, **fields))
        self.bus.publish(
            events.Generation(
                **self._now(),
                generation=self.progress.generation,
                steps=self.progress.steps,
                episodes=self.progress.episodes,
                fitness_min=float(made.earned.min()),
                fitness_mean=float(made.earned.mean()),
                fitness_max=float(made.earned.max()),
                score=made.score,
                episode_length=made.episode_length,
                steps_per_second=made.steps / sum(made.times.values()),
                times=made.times,
                failed=made.failed,
                telemetry=self.experiment.source.telemetry(self.progress.strategy),
                fleet=self.evaluator.fleet.stats(),
            )
        )

    def _attach(self, display: Display) -> None:
        """Bring in the observers, and tell them where the run stands."""
        run, experiment, keep = self.run, self.experiment, self.experiment.checkpoint
        log = EventLog(run.events_path)
        writer = CheckpointWriter(run, keep.every, keep.seconds, keep.keep, self.bus.publish)
        shown = screen(
            display,
            name=run.name,
            env=experiment.env.name,
            algorithm=experiment.kind,
            stop=experiment.stop,
            past=self.past,
        )
        for observer in (log, TensorBoard(run.tensorboard_path), writer, shown):
            self.bus.add(observer)
        self.bus.publish(
            events.Started(
                **self._now(),
                name=run.name,
                directory=str(run.path),
                generation=self.progress.generation,
                steps=self.progress.steps,
                version=__version__,
                engine=self.evaluator.fleet.engine.name,
                workers=len(self.evaluator.fleet.workers),
            )
        )
        for message in self.notices:
            self._notice(message)

    def _boundary(self, final: bool = False, best: bool = False) -> None:
        self.bus.publish(events.Boundary(self.progress, self.seconds, final=final, best=best))

    def _notice(self, message: str) -> None:
        self.bus.publish(events.Notice(**self._now(), message=message))

    def _end(self, reason: str, resume_command: str | None = None) -> None:
        self.bus.publish(
            events.Ended(
                **self._now(),
                generation=self.progress.generation,
                steps=self.progress.steps,
                reason=reason,
                complete=resume_command is None,
                score=self.best.mean if self.best else None,
                resume=resume_command,
            )
        )

    def _now(self) -> dict[str, Any]:
        return {"time": time.time(), "seconds": self.seconds}


def _inherit(experiment: Experiment, runs: Path) -> Actor:
    """The best policy of another run, carried over into this one's network, and its moments."""
    policy = Policy(experiment.policy, arena(experiment.env).spaces)
    source = load_agent(runs, str(experiment.policy.init_from), "best")
    if misfit := policy.misfit(source.policy) or policy.space.misfit(source.policy.space):
        raise UserError(f"policy.init_from={experiment.policy.init_from}: {misfit}")
    ours, theirs = (getattr(p.network, "activation", None) for p in (policy, source.policy))
    if ours != theirs:
        raise UserError(f"policy.init_from={experiment.policy.init_from}: its activation is {theirs}, not {ours}")
    vector = policy.space.grow(source.vector, source.policy.space, stream(experiment.seed, "grow"))
    moments = source.progress.moments
    return Actor(vector, moments.widen(policy.inputs) if moments else None)


def _refuse_genes(experiment: Experiment) -> None:
    if experiment.genes and not isinstance(experiment.algorithm, PBT):
        name = next(iter(experiment.genes))
        raise UserError(
            f"{name} is a range, and algorithm.type={experiment.kind} varies no hyperparameters: give it one value"
        )


def _resume_command(run: RunDirectory, runs: Path) -> str:
    usual = Path(os.environ.get("ROOKERY_RUNS", "runs"))
    where = "" if runs.resolve() == usual.resolve() else f" --runs {shlex.quote(str(runs))}"
    return f"rookery resume {shlex.quote(run.name)}{where}"
