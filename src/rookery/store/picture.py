"""What all plots have in common: how they look, and how they get to the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, which also colour-blind readers tell apart, without the yellow that paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
INK = "#333333"
FAINT = "#888888"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


def check_path(out: Path) -> None:
    """Refuse a place where no picture can be put."""
    if out.suffix.lower() not in SUFFIXES:
        given = f"'{out.suffix}'" if out.suffix else "no suffix"
        raise UserError(f"cannot plot to {out}: its name must end in .png, .svg or .pdf, and it has {given}")
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: the folder {out.parent} does not exist")


@contextmanager
def picture(out: Path, width: float = 7.2, height: float = 4.3) -> Iterator[Figure]:
    """A figure of so many inches to draw in, which is then written to `out`, whole or not at all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    check_path(out)
    partial = out.with_name(f".{out.stem}.{os.getpid()}.partial{out.suffix.lower()}")
    with rc_context(_STYLE):
        # A figure of its own draws with Agg whatever the display, and leaves pyplot's global state alone.
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        try:
            figure.savefig(partial, dpi=200)
            partial.replace(out)
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror or error}") from error
        finally:
            partial.unlink(missing_ok=True)


def verbatim(label: str) -> str:
    """A name that matplotlib takes as it is: not as mathematics, and not as one to be left out of the legend."""
    escaped = label.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped
