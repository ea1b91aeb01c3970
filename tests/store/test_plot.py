"""Plots of runs, alone and grouped over seeds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rookery.errors import UserError
from rookery.observers.events import Ended, Event, Generation, Started, Validated
from rookery.store.events import history
from rookery.store.plot import Axis, PlottedRun, plot_runs


def run(
    name: str,
    group: str = "group",
    *,
    count: int = 20,
    level: float = 0.0,
    complete: bool = True,
    score: float | None = 0.0,
    target: float | None = 12.0,
) -> PlottedRun:
    events: list[Event] = [
        Started(time=0, seconds=0, name=name, directory=f"runs/{name}", generation=0, steps=0, version="1")
    ]
    for number in range(1, count + 1):
        value = level + 10 * (1 - math.exp(-number / 5))
        events.append(
            Generation(
                time=number,
                seconds=number,
                generation=number,
                steps=number * 10_000,
                episodes=8,
                fitness_min=value - 3,
                fitness_mean=value - 1,
                fitness_max=value + 2,
                score=None if score is None else score + value,
                episode_length=10,
                steps_per_second=1e4,
                times={"ask": 0.1, "evaluate": 0.5, "tell": 0.1},
            )
        )
    if count:
        events.append(
            Validated(
                time=count,
                seconds=count,
                generation=count,
                steps=count * 10_000,
                score=level + 10,
                std=1,
                episodes=10,
                best=True,
            )
        )
    events.append(
        Ended(time=count, seconds=count, generation=count, steps=count * 10_000, reason="", complete=complete)
    )
    return PlottedRun(name=name, group=group, history=history(events), target=target)


@pytest.mark.parametrize("axis", ["steps", "generations", "seconds"])
def test_each_format_and_axis_is_written_whole(tmp_path: Path, axis: Axis) -> None:
    runs = [run("a", "x"), run("b", "x", level=1.0, count=30), run("c", "y", level=-2.0)]
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")):
        out = tmp_path / f"plot{suffix}"
        plot_runs(runs, out, axis)
        assert out.read_bytes().startswith(magic)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plot.PDF", "plot.png", "plot.svg"]
    with Image.open(tmp_path / "plot.png") as image:
        assert np.asarray(image.convert("RGB")).std() > 5


def test_the_legend_names_runs_and_counts_seeds(tmp_path: Path) -> None:
    out = tmp_path / "plot.svg"
    plot_runs([run("a", "lander es"), run("b", "lander es"), run("alone", "other")], out)
    text = out.read_text()
    for expected in ("lander es (2 seeds)", "alone", "target 12", "environment steps", "200k", "validated"):
        assert expected in text


def test_seeds_that_stopped_early_are_held_only_when_complete(tmp_path: Path) -> None:
    from rookery.store.plot import _on_common_grid

    short, killed, long = run("a", count=5), run("b", count=5, complete=False), run("c", count=20)
    grid, scores = _on_common_grid([short, killed, long], "generations", 1.0)
    last = short.history.generations[-1].score
    assert (grid[0], grid[-1]) == (1.0, 20.0)
    assert scores[0, -1] == last
    assert math.isnan(scores[1, -1])
    plot_runs([short, killed, long], tmp_path / "plot.png")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "odd",
    [
        [run("one", count=1)],
        [run("one", count=1), run("two", count=1)],
        [run("no score", score=None, target=None)],
        [run("nan", score=math.nan)],
        [run(f"r{index}", f"g{index}", level=index) for index in range(16)],
        [run("_$a$b_c^", "x")],
        [run("a", count=700, complete=False), run("b", count=950, complete=False)],
    ],
)
def test_odd_runs_are_drawn_too(tmp_path: Path, odd: list[PlottedRun]) -> None:
    plot_runs(odd, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.png, \.svg or \.pdf.*'\.bmp'"):
        plot_runs([run("a")], tmp_path / "plot.bmp")
    with pytest.raises(UserError, match="does not exist"):
        plot_runs([run("a")], tmp_path / "no" / "plot.png")
    with pytest.raises(UserError, match="at least one"):
        plot_runs([], tmp_path / "plot.png")
    with pytest.raises(UserError, match="no generation is finished in fresh"):
        plot_runs([run("a"), run("fresh", count=0)], tmp_path / "plot.png")
