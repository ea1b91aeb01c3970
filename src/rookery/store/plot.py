"""Learning curves of one run or many, as a picture for a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from rookery.errors import UserError
from rookery.observers.events import Generation, Validated
from rookery.store.events import History
from rookery.store.picture import COLOURS, check_path, picture, verbatim

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

Axis = Literal["steps", "generations", "seconds"]
Floats = NDArray[np.float64]

_GRID = 300
_LEGEND_WIDTH = 105
_DASHES = ("-", "--", ":")
_UNSEEN = (0, (3, 1.5))


class PlottedRun(msgspec.Struct, frozen=True):
    """A run to draw. Runs with the same `group` are seeds of one experiment and become one curve."""

    name: str
    group: str
    history: History
    target: float | None = None


def plot_runs(runs: Sequence[PlottedRun], out: Path, x: Axis = "steps") -> None:
    """Draw the champion's score over `x` into a .png, .svg or .pdf file."""
    _check(runs, out)
    groups: dict[str, list[PlottedRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    with picture(out) as figure:
        axes = figure.subplots()
        scale, label = _x_axis(runs, x)
        pen = _Pen(axes, x, scale, crowded=len(groups) > 3)
        for index, (group, members) in enumerate(groups.items()):
            colour = COLOURS[index % len(COLOURS)]
            dashes = _DASHES[index // len(COLOURS) % len(_DASHES)]
            if len(members) == 1:
                pen.single(members[0], colour, dashes)
            else:
                pen.group(group, members, colour, dashes)
        _finish(axes, runs, pen, label)


def _check(runs: Sequence[PlottedRun], out: Path) -> None:
    """Refuse what cannot be drawn, before anything is."""
    check_path(out)
    if not runs:
        raise UserError("there is no run to plot: name at least one")
    empty = [run.name for run in runs if not run.history.generations]
    if empty:
        raise UserError(f"there is nothing to plot yet: no generation is finished in {', '.join(empty)}")


def _x_axis(runs: Sequence[PlottedRun], x: Axis) -> tuple[float, str]:
    """What x is divided by, and its label; long times are told in minutes or hours."""
    if x == "steps":
        return 1.0, "environment steps"
    if x == "generations":
        return 1.0, "generations"
    longest = max(run.history.generations[-1].seconds for run in runs)
    if longest < 180:
        return 1.0, "time (seconds)"
    return (60.0, "time (minutes)") if longest < 3 * 3600 else (3600.0, "time (hours)")


def _at(entry: Generation | Validated, x: Axis) -> float:
    """Where on the x axis an event stands."""
    if x == "steps":
        return float(entry.steps)
    return float(entry.generation) if x == "generations" else entry.seconds


def _curve(run: PlottedRun, x: Axis, scale: float) -> tuple[Floats, Floats]:
    """Champion score over x; the mean fitness for an algorithm whose champion earns no score."""
    entries = run.history.generations
    scored = [(_at(entry, x) / scale, entry.score) for entry in entries if _finite(entry.score)]
    if not scored:
        scored = [(_at(entry, x) / scale, entry.fitness_mean) for entry in entries]
    points = np.array(scored, dtype=np.float64)
    return points[:, 0], points[:, 1]


def _unseen_curve(run: PlottedRun, x: Axis, scale: float) -> tuple[Floats, Floats]:
    """Over x, what the validated champions of a run earned on what training never shows."""
    found = [(_at(entry, x) / scale, entry.unseen) for entry in run.history.validated if _finite(entry.unseen)]
    points = np.array(found, dtype=np.float64).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def _finite(value: float | None) -> bool:
    """Whether there is a number that can be drawn."""
    return value is not None and math.isfinite(value)


class _Pen:
    """Draws runs into axes, and remembers which range of scores has to be seen."""

    def __init__(self, axes: Axes, x: Axis, scale: float, *, crowded: bool) -> None:
        self.axes = axes
        self.x: Axis = x
        self.scale = scale
        self.crowded = crowded
        self.shown: list[float] = []
        self.spread: list[float] = []
        self.curves: list[Artist] = []
        self.keys: dict[str, Artist] = {}

    def single(self, run: PlottedRun, colour: str, dashes: str) -> None:
        """One run: its score, its validations, and lightly its population where there is room for that."""
        entries = run.history.generations
        places, scores = _thinned(*_curve(run, self.x, self.scale), np.mean)
        if not self.crowded:
            low, mean, high = (
                np.array([getattr(entry, f"fitness_{part}") for entry in entries], dtype=np.float64)
                for part in ("min", "mean", "max")
            )
            all_places = np.array([_at(entry, self.x) / self.scale for entry in entries])
            every, low = _thinned(all_places, low, np.min)
            mean, high = _thinned(all_places, mean, np.mean)[1], _thinned(all_places, high, np.max)[1]
            self._band(every, low, high, colour, 0.10)
            self.axes.plot(every, mean, color=colour, alpha=0.45, linewidth=0.9, zorder=2)
            self.shown += _finite_ones(mean)
            self.keys["population: mean, min to max"] = _patch()
        self._line(places, scores, run.name, colour, dashes)
        self._validations([run], colour)
        self._unseen([run], colour)

    def group(self, group: str, runs: Sequence[PlottedRun], colour: str, dashes: str) -> None:
        """Seeds of one experiment: mean line, one standard deviation darker, minimum to maximum lighter."""
        grid, scores = _on_common_grid(runs, self.x, self.scale)
        low, high = np.nanmin(scores, axis=0), np.nanmax(scores, axis=0)
        mean, std = np.nanmean(scores, axis=0), np.nanstd(scores, axis=0)
        self._band(grid, low, high, colour, 0.10)
        self._band(grid, np.maximum(mean - std, low), np.minimum(mean + std, high), colour, 0.18)
        self.keys["seeds: ±1 std, min to max"] = _patch()
        self._line(grid, mean, f"{group} ({len(runs)} seeds)", colour, dashes)
        self._validations(runs, colour)
        self._unseen(runs, colour)

    def _line(self, places: Floats, scores: Floats, label: str, colour: str, dashes: str) -> None:
        """The curve that counts. A run of one generation is a dot, as a line of one point is invisible."""
        (line,) = self.axes.plot(
            places,
            scores,
            color=colour,
            linestyle=dashes,
            linewidth=1.4 if self.crowded else 2.0,
            marker="." if len(places) == 1 or places[0] == places[-1] else "",
            label=verbatim(label),
            zorder=4,
        )
        self.shown += _finite_ones(scores)
        self.curves.append(line)

    def _band(self, places: Floats, low: Floats, high: Floats, colour: str, alpha: float) -> Artist:
        """A filled spread."""
        self.spread += _finite_ones(low) + _finite_ones(high)
        return self.axes.fill_between(places, low, high, color=colour, alpha=alpha, linewidth=0, zorder=1)

    def _validations(self, runs: Sequence[PlottedRun], colour: str) -> None:
        """Markers for validations, only as many as leave the curve to be seen."""
        large = len(runs) == 1 and not self.crowded
        marks = [
            (_at(entry, self.x) / self.scale, entry.score)
            for run in runs
            for entry in _some(
                [entry for entry in run.history.validated if _finite(entry.score)], 20 if large else 6
            )
        ]
        if not marks:
            return
        self.axes.scatter(
            [place for place, _ in marks],
            [score for _, score in marks],
            s=34 if large else 15,
            color=colour,
            alpha=1.0 if len(runs) == 1 else 0.6,
            edgecolors="white",
            linewidths=1.0 if large else 0.5,
            zorder=5,
        )
        self.shown += [score for _, score in marks]
        self.keys["validated"] = _dot()

    def _unseen(self, runs: Sequence[PlottedRun], colour: str) -> None:
        """What validated champions earn on what training never shows: the mean of the runs that say so, dashed."""
        curves = [curve for run in runs if len((curve := _unseen_curve(run, self.x, self.scale))[0])]
        if not curves:
            return
        grid = np.unique(np.concatenate([places for places, _ in curves]))
        with_ends = [np.interp(grid, *curve, left=math.nan, right=math.nan) for curve in curves]
        mean = np.nanmean(with_ends, axis=0)
        self.axes.plot(
            grid,
            mean,
            color=colour,
            linestyle=_UNSEEN,
            linewidth=1.4,
            marker="o",
            markersize=3.5,
            markerfacecolor="white",
            markevery=max(1, len(grid) // 20),
            zorder=4,
        )
        self.shown += _finite_ones(mean)
        self.keys["validated on unseen"] = _dashes()


def _some(entries: list[Validated], count: int) -> list[Validated]:
    """About `count` of many validations, evenly spread, with the best and the last among them."""
    if len(entries) <= count:
        return entries
    chosen = set(np.linspace(0, len(entries) - 1, count).round().astype(int).tolist())
    chosen.add(max(range(len(entries)), key=lambda index: entries[index].score))
    return [entries[index] for index in sorted(chosen)]


def _thinned(places: Floats, values: Floats, summary: Callable[[Floats], Any]) -> tuple[Floats, Floats]:
    """At most as many points as can be told apart, each standing for its neighbours."""
    if len(places) <= _GRID:
        return places, values
    parts = zip(np.array_split(places, _GRID), np.array_split(values, _GRID), strict=True)
    points = np.array([(np.mean(where), summary(what)) for where, what in parts], dtype=np.float64)
    return points[:, 0], points[:, 1]


def _on_common_grid(runs: Sequence[PlottedRun], x: Axis, scale: float) -> tuple[Floats, Floats]:
    """Scores of all runs at the same places, one row per run.

    A complete run keeps its last score to the right, as its agent is what a user would have; one that was
    stopped on the way says nothing about what would have come, and is not counted there.
    """
    curves = [_thinned(*_curve(run, x, scale), np.mean) for run in runs]
    start = max(float(places[0]) for places, _ in curves)
    end = max(float(places[-1]) for places, _ in curves)
    grid = np.linspace(start, max(start, end), _GRID)
    rows = []
    for run, (places, values) in zip(runs, curves, strict=True):
        right = None if run.history.complete else math.nan
        rows.append(np.interp(grid, places, values, right=right))
    return grid, np.array(rows)


def _patch() -> Artist:
    """A legend entry for a kind of mark, whatever its colour."""
    from matplotlib.patches import Patch

    return Patch(facecolor="#888888", alpha=0.3, linewidth=0)


def _dot() -> Artist:
    """A legend entry for validations."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker="o", markersize=5.5, color="#888888")


def _dashes() -> Artist:
    """A legend entry for validations on what training never shows."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle=_UNSEEN, linewidth=1.4, color="#888888")


def _finite_ones(values: Floats) -> list[float]:
    """The values that have a place on an axis."""
    found: list[float] = values[np.isfinite(values)].tolist()
    return found


def _finish(axes: Axes, runs: Sequence[PlottedRun], pen: _Pen, label: str) -> None:
    """Target, limits, labels, ticks and legend."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    targets = sorted({run.target for run in runs if run.target is not None})
    for target in targets:
        _draw_target(axes, target)
    axes.set_ylim(*_limits(pen.shown + targets, pen.spread))
    axes.grid(axis="y")
    axes.set_xlabel(label)
    axes.set_ylabel("score")
    steps = [1, 2, 2.5, 5, 10]
    if pen.x != "seconds":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=steps, integer=pen.x != "seconds"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=7, steps=steps))
    axes.margins(x=0.015)
    axes.set_xlim(left=0.0)
    axes.tick_params(length=3)
    labels = [*(str(curve.get_label()) for curve in pen.curves), *pen.keys]
    axes.legend(
        handles=[*pen.curves, *pen.keys.values()],
        labels=labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=max(1, min(4, _LEGEND_WIDTH // (max(map(len, labels)) + 7))),
        borderaxespad=0.2,
        columnspacing=1.5,
        handlelength=1.6,
        fontsize=9.5,
    )


def _draw_target(axes: Axes, target: float) -> None:
    """A dashed line with its label beside the axes, where no curve can cross it."""
    axes.axhline(target, color="#777777", linewidth=1.1, linestyle=(0, (5, 3)), zorder=3)
    axes.annotate(
        f"target {target:g}",
        (1.0, target),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color="#555555",
    )


def _limits(shown: list[float], spread: list[float]) -> tuple[float, float]:
    """A y range that holds all curves; the spread may widen it, but one disaster must not flatten them."""
    low, high = min(shown, default=0.0), max(shown, default=1.0)
    room = 0.5 * (high - low)
    low, high = (
        min(low, max(min(spread, default=low), low - room)),
        max(high, min(max(spread, default=high), high + room)),
    )
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin
