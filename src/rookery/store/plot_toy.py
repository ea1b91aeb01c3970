"""The toy model as a picture: above where members went, below what that was worth, a column for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rookery.store.picture import COLOURS, FAINT, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RINGS = 24


class Traced(Protocol):
    """Where members were (steps + 1, members, 2), and what that was worth (steps + 1, members)."""

    @property
    def title(self) -> str: ...

    @property
    def points(self) -> NDArray[np.float64]: ...

    @property
    def worth(self) -> NDArray[np.float64]: ...


def plot_toy(variants: Sequence[Traced], out: Path) -> None:
    """Draw variants side by side into a .png, .svg or .pdf file."""
    with picture(out, width=2.7 * len(variants), height=5.2) as figure:
        above, below = figure.subplots(2, len(variants), sharex="row", sharey="row", squeeze=False)
        reach = max(1.0, *(float(np.abs(variant.points).max()) for variant in variants))
        for column, variant in enumerate(variants):
            _paths(above[column], variant, reach)
            _worth(below[column], variant)
        above[0].set_ylabel("x1")
        below[0].set_ylabel("Q")


def _paths(axes: Axes, variant: Traced, reach: float) -> None:
    """Where each member was, over rings of what it cannot see; it leaps where it becomes a copy."""
    for radius in np.linspace(0, 2 * reach, _RINGS)[1:]:
        angles = np.linspace(0, np.pi / 2, 60)
        axes.plot(radius * np.cos(angles), radius * np.sin(angles), color="#eeeeee", linewidth=0.8, zorder=0)
    for member, colour in zip(range(variant.points.shape[1]), COLOURS * variant.points.shape[1], strict=False):
        x, y = variant.points[:, member].T
        axes.scatter(x, y, s=5, color=colour, linewidths=0, zorder=2)
        axes.scatter(x[-1:], y[-1:], s=45, facecolors="none", edgecolors=colour, linewidths=1.4, zorder=3)
    axes.scatter([0], [0], marker="*", s=70, color=FAINT, zorder=1)
    axes.set_xlim(-0.06 * reach, 1.05 * reach)
    axes.set_ylim(-0.06 * reach, 1.05 * reach)
    axes.set_aspect("equal")
    axes.set_title(variant.title, fontsize=11)
    axes.set_xlabel("x0")


def _worth(axes: Axes, variant: Traced) -> None:
    """What each member's point was worth over its steps."""
    for member, colour in zip(range(variant.worth.shape[1]), COLOURS * variant.worth.shape[1], strict=False):
        axes.plot(variant.worth[:, member], color=colour, linewidth=1.6)
    best = float(variant.worth[-1].max())
    axes.annotate(f"{best:.3f}", (1.0, 0.04), xycoords="axes fraction", ha="right", fontsize=9.5)
    axes.set_xlabel("steps")
    axes.grid(axis="y")
