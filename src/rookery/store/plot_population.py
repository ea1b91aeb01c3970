"""A population as pictures: who descends from whom, how hyperparameters went, and what all members earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rookery.errors import UserError
from rookery.store.ancestry import Copy, Families, Stretch
from rookery.store.picture import COLOURS, FAINT, INK, picture, verbatim

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

Kind = Literal["lineage", "schedules", "population"]

_THIN = 0.9
_BOLD = 2.4
_MANY = 16  # members from which on rows are narrower
_LABEL = "steps of the member"


class PlottedPopulation(NamedTuple):
    """A run of a population to draw; `scales` has the hyperparameters that vary, and on which scale."""

    name: str
    families: Families
    scales: Mapping[str, Literal["linear", "log"]]


def plot_population(run: PlottedPopulation, out: Path, kind: Kind) -> None:
    """Draw a population into a .png, .svg or .pdf file."""
    match kind:
        case "lineage":
            _lineage(run, out)
        case "schedules":
            _schedules(run, out)
        case "population":
            _population(run, out)


def _lineage(run: PlottedPopulation, out: Path) -> None:
    """A row for each member, coloured by its score; arrows lead from parents to their copies."""
    families = run.families
    rows = {member: row for row, member in enumerate(sorted(families.stretches))}
    everything = families.everything
    with picture(out, height=1.5 + (0.16 if len(rows) > _MANY else 0.3) * len(rows)) as figure:
        axes = figure.subplots()
        line, led = families.line(families.best)
        axes.add_collection(_bars(line, rows, colors=INK, linewidths=9, zorder=1))
        scores = np.array([stretch.score for stretch in everything])
        coloured = _bars(everything, rows, array=scores, cmap="viridis", linewidths=5, zorder=2)
        axes.add_collection(coloured)
        _arrows(axes, families.copies, led, rows)
        figure.colorbar(coloured, ax=axes, label="score", pad=0.02, aspect=30)
        every = max(1, len(rows) // 20)
        axes.set_yticks(list(rows.values())[::every], [str(member) for member in list(rows)[::every]])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_ylabel("member")
        title = f"{verbatim(run.name)}: what led to its best member, {families.best}, is outlined"
        axes.set_title(title, loc="left", fontsize=10.5)
        _along_steps(axes, everything)


def _arrows(axes: Axes, copies: Sequence[Copy], led: Sequence[Copy], rows: Mapping[int, int]) -> None:
    """One for each copy; those that led to the best member are darker."""
    for copy in copies:
        within = copy in led
        axes.annotate(
            "",
            (copy.at, rows[copy.child]),
            (copy.parent_at, rows[copy.parent]),
            arrowprops={
                "arrowstyle": "-|>",
                "color": INK if within else FAINT,
                "linewidth": 1.6 if within else 0.8,
                "shrinkA": 0,
                "shrinkB": 3,
            },
            zorder=4 if within else 3,
        )


def _schedules(run: PlottedPopulation, out: Path) -> None:
    """A panel for each hyperparameter that varies, with each member's values and those of the best one's line."""
    if not run.scales:
        raise UserError(f"no hyperparameter of run '{run.name}' varies: none was given as a range")
    families = run.families
    line, _ = families.line(families.best)
    columns = 1 if len(run.scales) == 1 else 2
    rows = -(-len(run.scales) // columns)
    with picture(out, width=7.2 if columns == 1 else 9.6, height=1.0 + 2.6 * rows) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, (name, scale) in zip(panels, run.scales.items(), strict=False):
            for own in families.stretches.values():
                axes.plot(*_steps(own, name), color=FAINT, alpha=0.5, linewidth=_THIN)
            axes.plot(*_steps(line, name), color=COLOURS[0], linewidth=_BOLD, zorder=3)
            axes.set_yscale(scale)
            axes.set_title(name, loc="left", fontsize=10.5)
            axes.grid(axis="y")
            _along_steps(axes, families.everything)
        for axes in panels[len(run.scales) :]:
            axes.set_axis_off()
        _legend(figure, {f"the line of the best member, {families.best}": COLOURS[0], "each member": FAINT})


def _population(run: PlottedPopulation, out: Path) -> None:
    """What each member earned, and the best and the median of them."""
    families = run.families
    by_generation: dict[int, list[Stretch]] = {}
    for stretch in families.everything:
        by_generation.setdefault(stretch.generation, []).append(stretch)
    together = [by_generation[generation] for generation in sorted(by_generation)]
    places = [np.mean([stretch.last for stretch in measured]) for measured in together]
    with picture(out) as figure:
        axes = figure.subplots()
        for own in families.stretches.values():
            axes.plot(
                [stretch.last for stretch in own],
                [stretch.score for stretch in own],
                color=FAINT,
                alpha=0.5,
                linewidth=_THIN,
                marker="." if len(own) == 1 else "",
            )
        for summary, colour in ((np.max, COLOURS[0]), (np.median, COLOURS[1])):
            scores = [float(summary([stretch.score for stretch in measured])) for measured in together]
            axes.plot(places, scores, color=colour, linewidth=_BOLD, marker="." if len(scores) == 1 else "")
        axes.set_ylabel("score")
        axes.grid(axis="y")
        _along_steps(axes, families.everything)
        _legend(figure, {"best": COLOURS[0], "median": COLOURS[1], "each member": FAINT})


def _bars(stretches: Sequence[Stretch], rows: Mapping[int, int], **look: Any) -> LineCollection:
    """A line for each stretch in its member's row."""
    from matplotlib.collections import LineCollection

    ends = [[(stretch.first, rows[stretch.member]), (stretch.last, rows[stretch.member])] for stretch in stretches]
    return LineCollection(ends, **look)


def _steps(stretches: Sequence[Stretch], name: str) -> tuple[list[float], list[float]]:
    """Places and values of a hyperparameter, which keeps its value all through a stretch."""
    places = [float(place) for stretch in stretches for place in (stretch.first, stretch.last)]
    values = [value for stretch in stretches for value in [stretch.hyperparameters[name]] * 2]
    return places, values


def _along_steps(axes: Axes, stretches: Sequence[Stretch]) -> None:
    """Label the axis of steps."""
    from matplotlib.ticker import EngFormatter

    axes.set_xlim(0, 1.015 * max(1, *(stretch.last for stretch in stretches)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(_LABEL)
    axes.tick_params(length=3)


def _legend(figure: Figure, colours: Mapping[str, str]) -> None:
    """Above all panels."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, linewidth=_THIN if colour == FAINT else _BOLD) for colour in colours.values()
    ]
    figure.legend(
        handles=handles, labels=list(colours), loc="outside upper right", ncols=len(handles), fontsize=9.5
    )
