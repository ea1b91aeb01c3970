"""What a user sees of a run: a live panel, plain lines for a log, or almost nothing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rookery.observers.events import Boundary, Ended, Event, Generation, Notice, Observer, Started, Validated
from rookery.observers.panel import StatusPanel
from rookery.observers.status import Status, Stop
from rookery.observers.text import compact, duration, number
from rookery.store.events import History

Mode = Literal["auto", "live", "plain", "quiet"]

# Each drawing takes the interpreter away from the run for some milliseconds; the eye wants no more than this.
_REFRESHES_PER_SECOND = 4
_SECONDS_BETWEEN_LINES = 2.0


def progress(
    mode: Mode = "auto",
    *,
    name: str,
    env: str,
    algorithm: str,
    stop: Stop,
    console: Console | None = None,
    errors: Console | None = None,
    past: History | None = None,
) -> Observer:
    """The observer for `mode`; "auto" is live on a terminal, else plain. `past` is what a resumed run did."""
    console = console or Console()
    errors = errors or Console(stderr=True)
    status = Status(name=name, env=env, algorithm=algorithm, stop=stop, past=past)
    if mode == "auto":
        mode = "live" if _can_be_live(console) else "plain"
    match mode:
        case "live":
            return Lively(status, console)
        case "plain":
            return Plain(status, console)
        case "quiet":
            return Quiet(status, console, errors)


def _can_be_live(console: Console) -> bool:
    """Whether the terminal can redraw, and show block characters."""
    return console.is_terminal and not console.is_dumb_terminal and not console.options.ascii_only


class Lively:
    """A panel that is redrawn in place; it stays on the screen when the run is over."""

    def __init__(self, status: Status, console: Console) -> None:
        self._status = status
        self._console = console
        panel = StatusPanel(status)
        self._live = Live(
            get_renderable=lambda: panel,
            console=console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="crop",
        )

    def on(self, event: Event | Boundary) -> None:
        """Note what happened; the panel is drawn by its own clock."""
        self._status.see(event)
        match event:
            case Started():
                self._live.start(refresh=True)
            case Notice():
                _print(self._console, event.message, "yellow")
            case Ended():
                self._live.stop()
                _print_end(self._console, self._status, event)
            case _:
                pass

    def close(self) -> None:
        """Give the terminal back, whatever happened."""
        self._status.closed = True
        self._live.stop()


class Plain:
    """Lines of aligned `key value` text, at most one in two seconds, without colour."""

    def __init__(self, status: Status, console: Console) -> None:
        self._status = status
        self._console = console
        self._printed: Generation | None = None
        self._printed_at = -float("inf")

    def on(self, event: Event | Boundary) -> None:
        """Print the event if it is due."""
        self._status.see(event)
        match event:
            case Started():
                _print(self._console, self._opening(event))
            case Generation() if event.time - self._printed_at >= _SECONDS_BETWEEN_LINES:
                self._print_generation(event)
            case Notice():
                _print(self._console, f"notice: {event.message}")
            case Ended():
                self.close()
                _print_end(self._console, self._status, event)
            case _:
                pass

    def close(self) -> None:
        """Print the last generation, if it was not due when it came."""
        last = self._status.last
        if last is not None and last is not self._printed:
            self._print_generation(last)

    def _opening(self, event: Started) -> str:
        """What is run, and from where it goes on."""
        several = f"{event.workers} {event.engine} workers" if event.workers != 1 else f"one {event.engine} worker"
        workers = "inline" if (event.engine, event.workers) == ("inline", 1) else several
        since = f", resumed at generation {event.generation}" if event.generation else ""
        return f"{self._status.name}: {self._status.env}, {self._status.algorithm}, {workers}{since}"

    def _print_generation(self, event: Generation) -> None:
        """One line, with as many of the columns as the console is wide."""
        self._printed, self._printed_at = event, event.time
        best, left = self._status.best, self._status.remaining()
        columns = [
            f"generation {event.generation:>5}",
            f"score {number(event.score) if event.score is not None else 'none':>7}",
            f"best {number(best.score) if best else 'none':>7}",
            *([f"unseen {number(best.unseen):>7}"] if best and best.unseen is not None else []),
            f"steps {compact(event.steps):>6}",
            f"time {duration(event.seconds):>7}",
            f"left {duration(left) if left is not None else 'unknown':>7}",
            *self._among(event),
            f"steps/s {compact(event.steps_per_second):>6}",
        ]
        line = columns[0]
        for column in columns[1:]:
            if len(line) + 2 + len(column) > self._console.width:
                break
            line += "  " + column
        _print(self._console, line)

    def _among(self, event: Generation) -> list[str]:
        """How the population fares."""
        if self._status.ranks is None:
            return [f"fitness {number(event.fitness_mean):>7}"]
        worst, median, _ = self._status.ranks
        return [
            f"median {number(median):>7}",
            f"worst {number(worst):>7}",
            f"copies {self._status.copies:>4}",
        ]


class Quiet:
    """Notices on the error stream, and one line at the end."""

    def __init__(self, status: Status, console: Console, errors: Console) -> None:
        self._status = status
        self._console = console
        self._errors = errors

    def on(self, event: Event | Boundary) -> None:
        """Print what cannot be left out."""
        self._status.see(event)
        match event:
            case Notice():
                _print(self._errors, f"notice: {event.message}")
            case Ended():
                _print(self._console, "; ".join((outcome(event), *result(self._status, event))))
            case _:
                pass

    def close(self) -> None:
        """Nothing is held."""


def outcome(event: Ended) -> str:
    """How a sitting ended."""
    return f"{'finished' if event.complete else 'stopped'}: {event.reason}"


def result(status: Status, event: Ended) -> list[str]:
    """What came out, what it cost, and what to type next."""
    if status.best is not None:
        best = status.best
        score = f"score {number(best.score)} ± {number(best.std)} over {best.episodes} episodes{further(best)}"
    elif event.score is not None:
        score = f"score {number(event.score)}, not validated"
    else:
        score = "no score yet"
    cost = f"{event.generation} generations, {compact(event.steps)} steps, {duration(event.seconds)}"
    return [score, cost, f"next: {'  or  '.join(next_commands(status, event))}"]


def further(validated: Validated) -> str:
    """What else a validation says: its score normalised, and what was earned on what training never shows."""
    shares = {name: f", normalised {value:.3f}" for name, value in validated.normalised.items()}
    text = shares.get("score", "")
    if validated.unseen is not None and validated.unseen_std is not None:
        earned = f"{number(validated.unseen)} ± {number(validated.unseen_std)}"
        text += f"; unseen {earned}{shares.get('unseen', '')}"
    return text


def next_commands(status: Status, event: Ended) -> list[str]:
    """The commands that make sense now, ready to be copied."""
    if not event.complete and event.resume:
        return [event.resume]
    where = ""
    if status.started is not None:
        parent = Path(status.started.directory).resolve().parent
        if parent != Path(os.environ.get("ROOKERY_RUNS") or "runs").resolve():
            where = f" --runs {shlex.quote(str(Path(status.started.directory).parent))}"
    name = shlex.quote(status.name)
    return [f"rookery render {name}{where}", f"rookery evaluate {name}{where}"]


def _print_end(console: Console, status: Status, event: Ended) -> None:
    """Outcome, result and next commands, each command on a line of its own."""
    score, cost, _ = result(status, event)
    _print(console, outcome(event), "bold green" if event.complete else "bold yellow")
    _print(console, f"{score}; {cost}")
    for label, command in zip(("next: ", "      "), next_commands(status, event), strict=False):
        _print(console, label + command, wrap=False)


def _print(console: Console, message: str, style: str = "", wrap: bool = True) -> None:
    """One message, wrapped at words on a terminal; a log and a command to be copied keep it on one line."""
    encoding = console.encoding
    shown = message.encode(encoding, "replace").decode(encoding)
    console.print(Text(shown, style), soft_wrap=not (wrap and console.is_terminal), highlight=False)
