"""The live panel: how good the agent is, how long it will take and where the time goes, on one screen."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.box import ROUNDED
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.panel import Panel
from rich.text import Text

from rookery.fleet import FleetStats
from rookery.observers.status import Status
from rookery.observers.text import compact, duration, number

_KEY = 12
_BLOCKS = " ▁▂▃▄▅▆▇█"
_CHART = 7
_TELEMETRY = 4  # entries that are shown, in the algorithm's order
_PARTS = ("yellow", "cyan", "magenta", "green")
_Cell = tuple[str, Text]


class StatusPanel:
    """Draws a `Status` into whatever terminal it is printed to, never wider or higher than that."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One panel, its least important lines left out where the terminal is low."""
        # The last column stays free: some terminals wrap a line that fills it.
        width = max(12, options.max_width - 1)
        yield panel(self._status, width, max(3, console.height - 1))


def panel(status: Status, width: int, height: int) -> Panel:
    """The whole panel in at most `height` lines of `width` cells."""
    inner = width - 4
    room = height - 2
    head = _headline(status)
    cells = _grid(_cells(status), inner)
    bars = [line for line in (_time_bar(status, inner), _done_bar(status, inner)) if line is not None]
    tail = [_message(status)] if status.message else []
    free = room - 1 - len(cells) - len(bars) - len(tail)
    # Blank lines only where there is space to waste; a low terminal loses numbers before it loses the curve.
    gap = [Text()] if free >= 6 else []
    least = 3 if room >= 9 else 1 if room >= 4 else 0
    chart = _chart(status, inner, max(least, min(_CHART, free - 2 * len(gap))))
    lines = [head, *gap, *chart, *gap]
    lines += [*cells, *bars, *tail][: max(0, room - len(lines))]
    for line in lines:
        line.truncate(inner, overflow="ellipsis")
        line.no_wrap = True
    return Panel(
        Group(*lines),
        box=ROUNDED,
        width=width,
        padding=(0, 1),
        border_style="bright_black",
        title=_title(status, inner - 4),
        title_align="left",
        subtitle=_subtitle(status) if inner >= 60 else None,
        subtitle_align="right",
    )


def _title(status: Status, room: int) -> Text:
    """Name of the run, its environment and its algorithm."""
    title = Text(no_wrap=True)
    title.append(f" {status.name} ", "bold cyan")
    title.append(f" {status.env} · {status.algorithm} ", "default")
    title.truncate(max(1, room), overflow="ellipsis")
    return title


def _subtitle(status: Status) -> Text:
    """How to leave, until there is nothing to leave any more."""
    if status.ended is not None:
        done = "finished" if status.ended.complete else "stopped"
        return Text(f" {done} ", "green" if status.ended.complete else "yellow")
    return Text("" if status.closed else " Ctrl-C stops and saves ", "bright_black")


def _headline(status: Status) -> Text:
    """The score that counts: validated on fresh episodes, against the target."""
    line = Text(no_wrap=True)
    line.append("score".ljust(_KEY), "bright_black")
    target = status.stop.score
    best, latest = status.best, status.validated
    if best is None:
        line.append("not validated yet", "bright_black")
    else:
        reached = target is not None and best.score >= target
        line.append(number(best.score), "bold green" if reached else "bold")
        line.append(f" ± {number(best.std)} over {best.episodes} episodes", "default")
        if best.unseen is not None:
            line.append(f"  unseen {number(best.unseen)}", "bold")
        if latest is not None and latest is not best:
            line.append(f"  latest {number(latest.score)}", "bright_black")
    if target is not None:
        line.append(f"  target {number(target)}", "yellow")
    return line


def _chart(status: Status, width: int, height: int) -> list[Text]:
    """The score of the champion over the generations as a filled curve with its bounds to the left."""
    if height < 1:
        return []
    champion = bool(status.scores.values)
    series = status.scores if champion else status.fitness
    if not series.values:
        waiting = "waiting for the first generation" if status.ended is None else "no generation was finished"
        return [Text(waiting, "bright_black"), *(Text() for _ in range(height - 1))]
    top, bottom = number(series.high), number(series.low)
    label = max(_KEY - 2, cell_len(top), cell_len(bottom))
    columns = series.resampled(max(1, width - label - 2))
    span = series.high - series.low
    # The lowest value still fills one eighth of a cell, so that the curve has no holes.
    levels = [
        1 + round((value - series.low) / span * (8 * height - 1)) if span > 0 else 4 * height for value in columns
    ]
    lines = []
    for row in range(height):
        base = 8 * (height - 1 - row)
        line = Text(no_wrap=True)
        text = top if row == 0 else bottom if row == height - 1 else ""
        if row == height // 2 and height >= 3:
            text = "champion" if champion else "fitness"
        line.append(text[:label].rjust(label), "bright_black")
        line.append(" ┤" if text and row in (0, height - 1) else " │", "bright_black")
        line.append("".join(_BLOCKS[min(8, max(0, level - base))] for level in levels), "cyan")
        lines.append(line)
    return lines


def _cells(status: Status) -> list[_Cell]:
    """Key and value of every number, the most wanted first."""
    last, stop = status.last, status.stop
    limit = f" / {compact(stop.steps)}" if stop.steps is not None else ""
    cells = [
        ("generation", _value(str(status.generation), f" / {stop.generations}" if stop.generations else "")),
        ("steps", _value(compact(status.steps), limit)),
        ("elapsed", _value(duration(status.elapsed), f" / {duration(stop.seconds)}" if stop.seconds else "")),
        ("remaining", _remaining(status)),
    ]
    if last is None:
        return cells
    low, middle, high = map(number, status.ranks or (last.fitness_min, last.fitness_mean, last.fitness_max))
    fitness = Text.assemble((f"{low} … ", "bright_black"), (middle, "bold"), (f" … {high}", "bright_black"))
    cells += [
        ("steps/s", _value(compact(last.steps_per_second))),
        ("episode", _value(number(last.episode_length), " steps")),
        ("members" if status.population else "fitness", fitness),
        ("champion", _value("no score" if last.score is None else number(last.score))),
    ]
    if status.population:
        cells.append(("copies", _value(str(status.copies), f" among {len(status.population.members)} members")))
    if status.best is not None and (shares := status.best.normalised):
        unseen = f", unseen {shares['unseen']:.3f}" if "unseen" in shares else ""
        cells.append(("normalised", _value(f"{shares['score']:.3f}", unseen)))
    cells += [(_short(name), _value(number(value))) for name, value in list(last.telemetry.items())[:_TELEMETRY]]
    cells += _fleet(last.fleet)
    if status.failed:
        cells.append(("failed", Text(f"{status.failed} evaluations", "red")))
    return cells


def _fleet(stats: FleetStats | None) -> list[_Cell]:
    """How the workers fare, where there are several or something happened to them."""
    if stats is None or (stats.workers == 1 and not stats.lost):
        return []
    lost = f", {stats.lost} lost" if stats.lost else ""
    cells = [("workers", _value(str(stats.workers), lost)), ("idle", _value(f"{stats.idle:.0%}"))]
    if stats.reissued or stats.discarded:
        cells.append(("re-issued", _value(f"{stats.reissued} calls", f", {stats.discarded} results unused")))
    return cells


def _value(text: str, rest: str = "") -> Text:
    """A number to look at, and what it is measured against."""
    return Text.assemble((text, "bold"), (rest, "bright_black"))


def _remaining(status: Status) -> Text:
    """The time that is left, where anything but the score ends the run."""
    if status.ended is not None:
        return _value("none" if status.ended.complete else "can be resumed")
    left = status.remaining()
    if left is not None:
        return _value(duration(left), " at most" if status.stop.score is not None else "")
    only_score = status.stop.score is not None and status.fraction() is None
    return Text("until the target" if only_score else "unknown", "bright_black")


def _short(name: str) -> str:
    """A telemetry name that leaves a gap before its value."""
    plain = name.replace("_", " ").removesuffix(" norm").removesuffix(" variance")
    return plain if len(plain) < _KEY else plain[: _KEY - 2] + "…"


def _grid(cells: list[_Cell], width: int) -> list[Text]:
    """Cells in as many columns as fit."""
    columns = max(1, width // 36)
    size = width // columns
    lines = []
    for start in range(0, len(cells), columns):
        line = Text(no_wrap=True)
        for key, value in cells[start : start + columns]:
            cell = Text.assemble((key.ljust(_KEY), "bright_black"), value)
            cell.truncate(size - 1, overflow="ellipsis")
            cell.pad_right(size - cell.cell_len)
            line.append_text(cell)
        line.rstrip()
        lines.append(line)
    return lines


def _bar(parts: Iterable[tuple[float, str]], width: int) -> Text:
    """A bar of coloured shares; the edges are rounded, not the lengths, so that it is always `width` long."""
    bar = Text(no_wrap=True)
    total, drawn = 0.0, 0
    for share, style in parts:
        total += share
        edge = min(width, round(total * width))
        bar.append("━" * max(0, edge - drawn), style)
        drawn = max(drawn, edge)
    bar.append("─" * (width - drawn), "bright_black")
    return bar


def _time_bar(status: Status, width: int) -> Text | None:
    """Where the time goes."""
    shares = {name: share for name, share in status.shares().items() if math.isfinite(share)}
    if not shares:
        return None
    colours = dict(zip(shares, _PARTS, strict=False)) | {"other": "bright_black"}
    legend = Text(no_wrap=True)
    for name, share in shares.items():
        legend.append("  " if legend else "")
        legend.append(f"{name} ", colours[name])
        legend.append(f"{share:.0%}", "default")
    line = Text("time".ljust(_KEY), "bright_black", no_wrap=True)
    room = width - _KEY - legend.cell_len - 2
    if room >= 8:
        line.append_text(_bar(((share, colours[name]) for name, share in shares.items()), room))
        line.append("  ")
    line.append_text(legend)
    return line


def _done_bar(status: Status, width: int) -> Text | None:
    """How much of the run is done, where that can be said."""
    done = status.fraction()
    if done is None or width < _KEY + 14:
        return None
    line = Text("done".ljust(_KEY), "bright_black", no_wrap=True)
    line.append_text(_bar([(done, "green")], width - _KEY - 5))
    line.append(f" {done:4.0%}", "default")
    return line


def _message(status: Status) -> Text:
    """The latest checkpoint or notice."""
    text, _ = status.message or ("", 0.0)
    line = Text("last".ljust(_KEY), "bright_black", no_wrap=True)
    if status.ended is None:
        line.append(f"{status.age()} ago: ", "bright_black")
    line.append(" ".join(text.split()), "default")
    return line
