"""The one place that wires an experiment to its evaluator, algorithm and observers, and carries it out."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rookery import __version__
from rookery.agent import load_agent
from rookery.envs import arena
from rookery.errors import RookeryError, UserError
from rookery.evolution.breeding import is_steady
from rookery.evolution.flow import flow
from rookery.evolution.generation import Plan, Progress, Score, absorb, fresh_episodes, judge, plan, score
from rookery.experiment import Experiment, experiment_yaml, load_experiment
from rookery.observers import events
from rookery.observers.bus import Bus
from rookery.observers.checkpoint import CheckpointWriter
from rookery.observers.progress import progress as screen
from rookery.observers.tensorboard import TensorBoard
from rookery.policies import Moments, Policy
from rookery.ranks import refuse_copies
from rookery.rollout.evaluate import check_alike
from rookery.rollout.results import Context, Result, Trial
from rookery.rollout.shared import SharedEvaluator, Stream
from rookery.signals import StopRequestedError, StopSignals
from rookery.store.directory import RunDirectory
from rookery.store.events import EventLog, History, history, read_events
from rookery.store.files import write_whole
from rookery.streams import stream

Display = Literal["auto", "live", "plain", "quiet"]

_PATIENCE = 3  # generations from one validation to the next that a score at the target asks for


def start(experiment: Experiment, runs: Path, name: str | None, stem: str, display: Display = "auto") -> int:
    """Carry out a new run; returns the exit code."""
    _refuse_genes(experiment)
    refuse_copies(experiment.engine.name)
    with threadpool_limits(1):
        if experiment.engine.serve():
            return 0
        progress = _begin(experiment, runs)
        with closing(_evaluator(experiment)) as evaluator:
            run = RunDirectory.create(runs, name, stem, experiment_yaml(experiment))
            with run.locked():
                sitting = _Sitting(run, experiment, evaluator, progress, history([]))
                return sitting.carry_out(_resume_command(run, runs), display)


def resume(run: RunDirectory, experiment: Experiment, runs: Path, display: Display = "auto") -> int:
    """Go on with a run from its newest whole checkpoint; returns the exit code."""
    refuse_copies(experiment.engine.name)
    with threadpool_limits(1):
        if experiment.engine.serve():
            return 0
        with run.locked(), closing(_evaluator(experiment)) as evaluator:
            return _go_on(run, experiment, evaluator).carry_out(_resume_command(run, runs), display)


def _go_on(run: RunDirectory, experiment: Experiment, evaluator: SharedEvaluator) -> _Sitting:
    """The next sitting of a run, from its newest whole checkpoint."""
    if experiment != load_experiment(str(run.experiment_path)):
        write_whole(run.experiment_path, experiment_yaml(experiment).encode())
    progress, notices = run.load("latest", Progress)
    past = history(read_events(run.events_path))
    return _Sitting(run, experiment, evaluator, progress, past, notices)


class _Sitting:
    """A run from one boundary until a stop condition is met, a signal comes, or something fails."""

    def __init__(
        self,
        run: RunDirectory,
        experiment: Experiment,
        evaluator: SharedEvaluator,
        progress: Progress,
        past: History,
        notices: Sequence[str] = (),
    ) -> None:
        self.run, self.experiment, self.evaluator, self.progress = run, experiment, evaluator, progress
        self.past, self.notices = past, notices
        self.earlier = max(
            (g.seconds for g in past.generations if g.generation <= progress.generation), default=0.0
        )
        self.began = time.monotonic()
        self.bus = Bus()
        self.signals = StopSignals()
        self.best = progress.best
        self.stream: Stream | None = None

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
            started = time.monotonic()
            planned, asked, results = self._generation()
            evaluated = time.monotonic()
            if reason := self._goes_too_far(results):
                self._validate(at_end=True)
                return reason
            self._check_failures(planned, results)
            champion = self._champion_score(planned, results)
            if self._validation_due(champion):
                self._validate()
            if self._solved():
                return f"score {self.experiment.stop.score:g} reached"
            telling = time.monotonic()
            self.progress = absorb(self.experiment, self.progress, planned, results)
            times = (asked - started, evaluated - asked, time.monotonic() - telling)
            self._report(planned, results, champion, times)

    def _generation(self) -> tuple[Plan, float, list[Result]]:
        """A generation's plan, when it was ready, and what became of it."""
        strategy = self.experiment.strategy
        if is_steady(strategy):
            began = time.monotonic()
            self.stream = self.stream or self.evaluator.stream(strategy.window)
            with self._evaluating():
                flowed, results = flow(self.experiment, strategy, self.progress, self.stream)
            return flowed, began, results
        planned = plan(self.experiment, self.progress)
        asked = time.monotonic()
        return planned, asked, self._evaluate(planned.context, [*planned.candidates, *planned.champion])

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

    def _goes_too_far(self, results: Sequence[Result]) -> str | None:
        """Why a generation is not to be told, where an experiment wants no step beyond its limit."""
        stop = self.experiment.stop
        taken = self.progress.steps + sum(result.steps for result in results)
        if stop.overshoot or stop.steps is None or taken <= stop.steps:
            return None
        return f"the next generation would go beyond {stop.steps:,} steps"

    def _validation_due(self, champion: float | None) -> bool:
        generation, last, target = (
            self.progress.generation,
            self.progress.validated,
            self.experiment.stop.score,
        )
        since = generation - last.generation if last else generation
        every = self.experiment.evaluation.validate_every
        at_target = target is not None and champion is not None and champion >= target
        return (every > 0 and since >= every) or (at_target and (last is None or since >= _PATIENCE))

    def _validate(self, at_end: bool = False) -> None:
        """Measure the champion on fresh episodes, unless that was done in this generation.

        What is measured because a limit was reached stays out of the progress, so that a run which goes on to a
        later limit is the run that was given that limit from the start.
        """
        progress = self.progress
        if progress.validated and progress.validated.generation == progress.generation:
            return
        measured, taken = self._measure()
        unseen, taken_too = self._measure(unseen=True) if self.experiment.unseen else (None, 0)
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
                taken=taken + taken_too,
                unseen=unseen.mean if unseen else None,
                unseen_std=unseen.std if unseen else None,
                score_range=self.experiment.score_range,
            )
        )
        self._boundary(best=best)

    def _measure(self, unseen: bool = False) -> tuple[Score, int]:
        """What the champion earns on fresh episodes, and in how many steps."""
        experiment, progress = self.experiment, self.progress
        episodes = experiment.evaluation.validation_episodes
        results = self._evaluate(
            *fresh_episodes(experiment, progress, "validation", progress.generation, episodes, unseen)
        )
        self._check_failures(None, results)
        measured = score(progress, results, experiment.env.reward_scale)
        return measured, sum(result.steps for result in results)

    def _solved(self) -> bool:
        validated, target = self.progress.validated, self.experiment.stop.score
        if validated is None or target is None or validated.generation != self.progress.generation:
            return False
        return validated.sure >= target

    def _check_failures(self, planned: Plan | None, results: Sequence[Result]) -> None:
        """Say which evaluations failed; raise when the experiment wants it or when nothing else is left."""
        failed = [result.error for result in results if result.error]
        if not failed:
            return
        everything = all(result.error for result in (planned.own(results) if planned else results))
        if everything or self.experiment.evaluation.on_error == "stop":
            self._boundary(final=True)
            whole = "every evaluation failed; the first: " if everything and len(results) > 1 else ""
            raise RookeryError(f"{whole}{failed[0]}")
        more = f" (and {len(failed) - 1} more of {len(results)})" if len(failed) > 1 else ""
        batch = f"generation {self.progress.generation + 1}" if planned else "the validation"
        self._notice(f"{failed[0]}{more}: counted as the worst of {batch}")

    def _champion_score(self, planned: Plan, results: Sequence[Result]) -> float | None:
        whole = [r.fitness for r in results[len(planned.candidates) :] if not r.failed]
        return float(np.mean(whole)) / self.experiment.env.reward_scale if whole else None

    def _report(
        self,
        planned: Plan,
        results: Sequence[Result],
        champion: float | None,
        times: tuple[float, float, float],
    ) -> None:
        own = planned.own(results)
        earned = np.array([r.fitness for r in own if not r.failed]) / self.experiment.env.reward_scale
        steps, ended = sum(r.steps for r in results), sum(len(r.lengths) for r in results)
        ask, evaluate, tell = times
        self.bus.publish(
            events.Generation(
                **self._now(),
                generation=self.progress.generation,
                steps=self.progress.steps,
                episodes=self.progress.episodes,
                fitness_min=float(earned.min()),
                fitness_mean=float(earned.mean()),
                fitness_max=float(earned.max()),
                score=champion,
                episode_length=steps / ended,
                steps_per_second=steps / evaluate,
                ask_seconds=ask,
                evaluate_seconds=evaluate,
                tell_seconds=tell,
                failed=sum(r.failed for r in own),
                telemetry=self.experiment.strategy.telemetry(self.progress.strategy),
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


def _evaluator(experiment: Experiment) -> SharedEvaluator:
    env, engine, behaviour = experiment.env, experiment.engine, experiment.behaviour
    return SharedEvaluator(env, experiment.policy, engine, behaviour, experiment.unseen)


def _begin(experiment: Experiment, runs: Path) -> Progress:
    """A run before its first generation."""
    spaces = arena(experiment.env).spaces
    policy = Policy(experiment.policy, spaces)
    if experiment.unseen:
        check_alike(spaces, arena(experiment.unseen).spaces)
    start, moments = None, Moments.empty(policy.inputs) if experiment.policy.normaliser else None
    if experiment.policy.init_from:
        start, inherited = _inherit(experiment, policy, runs)
        moments = inherited if moments is not None and inherited is not None else moments
    state = experiment.strategy.init(experiment.seed, policy.space, start)
    return Progress(0, 0, 0, state, moments)


def _inherit(experiment: Experiment, policy: Policy, runs: Path) -> tuple[NDArray[np.float32], Moments | None]:
    """The best policy of another run, carried over into this one's network, and its moments."""
    source = load_agent(runs, str(experiment.policy.init_from), "best")
    if misfit := policy.misfit(source.policy) or policy.space.misfit(source.policy.space):
        raise UserError(f"policy.init_from={experiment.policy.init_from}: {misfit}")
    ours, theirs = (getattr(p.network, "activation", None) for p in (policy, source.policy))
    if ours != theirs:
        raise UserError(f"policy.init_from={experiment.policy.init_from}: its activation is {theirs}, not {ours}")
    vector = policy.space.grow(source.vector, source.policy.space, stream(experiment.seed, "grow"))
    moments = source.progress.moments
    return vector, moments.widen(policy.inputs) if moments else None


def _refuse_genes(experiment: Experiment) -> None:
    if experiment.genes:
        name = next(iter(experiment.genes))
        raise UserError(
            f"{name} is a range, and algorithm.type={experiment.kind} varies no hyperparameters: give it one value"
        )


def _resume_command(run: RunDirectory, runs: Path) -> str:
    usual = Path(os.environ.get("ROOKERY_RUNS", "runs"))
    where = "" if runs.resolve() == usual.resolve() else f" --runs {shlex.quote(str(runs))}"
    return f"rookery resume {shlex.quote(run.name)}{where}"
