"""What a user sees of a run, on a terminal, in a log and when quiet."""

from __future__ import annotations

import io
import math
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from rookery.observers.events import (
    Checkpointed,
    Copied,
    Ended,
    Event,
    Generation,
    MemberRow,
    Notice,
    Population,
    Started,
    Validated,
)
from rookery.observers.panel import StatusPanel
from rookery.observers.progress import Mode, next_commands, progress
from rookery.observers.status import Series, Status
from rookery.observers.text import compact, duration, number
from rookery.store.events import history


@dataclass(frozen=True)
class Stop:
    score: float | None = None
    generations: int | None = None
    steps: int | None = None
    seconds: float | None = None


STOP = Stop(score=200.0, generations=100, seconds=3600)


def started(generation: int = 0, directory: str = "runs/lander-1") -> Started:
    return Started(
        time=generation,
        seconds=generation,
        name="lander-1",
        directory=directory,
        generation=generation,
        steps=1000 * generation,
        version="1",
        engine="process",
        workers=2,
    )


def generation(number: int, score: float | None = 1.5, every: float = 1.0, failed: int = 0) -> Generation:
    return Generation(
        time=number * every,
        seconds=number * every,
        generation=number,
        steps=number * 1000,
        episodes=64,
        fitness_min=-10.0,
        fitness_mean=0.25,
        fitness_max=12.5,
        score=score,
        episode_length=200.0,
        steps_per_second=83_000.0,
        times={"ask": 0.1 * every, "evaluate": 0.6 * every, "tell": 0.2 * every},
        failed=failed,
        telemetry={"gradient_norm": 0.0123, "update_norm": 0.00345, "sigma": 0.05},
    )


def validated(number: int, score: float = 180.5, best: bool = True) -> Validated:
    return Validated(
        time=number,
        seconds=number,
        generation=number,
        steps=number * 1000,
        score=score,
        std=12.25,
        episodes=100,
        best=best,
    )


def ended(number: int, complete: bool = True, resume: str | None = None) -> Ended:
    return Ended(
        time=number,
        seconds=number,
        generation=number,
        steps=number * 1000,
        reason="score 200 reached" if complete else "interrupted",
        complete=complete,
        score=180.5,
        resume=resume,
    )


def notice(message: str) -> Notice:
    return Notice(time=1.0, seconds=1.0, message=message)


def shown(
    mode: Mode, events: list[Event], width: int = 80, height: int = 24, stop: Stop = STOP
) -> tuple[str, str]:
    """Everything that the run wrote to its output and to its errors."""
    out, errors = io.StringIO(), io.StringIO()
    observer = progress(
        mode,
        name="lander-1",
        env="LunarLander-v3",
        algorithm="es",
        stop=stop,
        console=Console(file=out, force_terminal=mode == "live", width=width, height=height),
        errors=Console(file=errors, width=width),
    )
    for event in events:
        observer.on(event)
    observer.close()
    return out.getvalue(), errors.getvalue()


def drawn(status: Status, width: int = 80, height: int = 24) -> list[str]:
    """The panel as lines of text."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=height)
    with console.capture() as capture:
        console.print(StatusPanel(status))
    return capture.get().splitlines()


def status_after(*events: Event, stop: Stop = STOP) -> Status:
    status = Status(name="lander-1", env="LunarLander-v3", algorithm="es", stop=stop)
    for event in events:
        status.see(event)
    return status


FULL: list[Event] = [
    started(),
    *(generation(n, score=-200 + 4.0 * n, failed=n == 7) for n in range(1, 81)),
    validated(80),
    Checkpointed(time=80, seconds=80, generation=80, path="runs/lander-1/checkpoints/80"),
]


def test_what_was_earned_on_the_unseen_is_shown_on_every_screen() -> None:
    found = replace(validated(80), unseen=96.25, unseen_std=20.5, score_range=(0.5, 200.5))
    events = [started(), generation(79), found, generation(80)]
    text = "\n".join(drawn(status_after(*events)))
    assert "180.5 ± 12.25 over 100 episodes  unseen 96.25" in text
    assert "normalised  0.900, unseen 0.479" in text
    result = (
        "score 180.5 ± 12.25 over 100 episodes, normalised 0.900; unseen 96.25 ± 20.5, normalised 0.479; 80 gen"
    )
    for mode in ("plain", "quiet"):
        assert result in shown(mode, [*events, ended(80)], width=250)[0]
    assert "best   180.5  unseen   96.25  steps" in shown("plain", events, width=120)[0]


def population(number: int) -> list[Event]:
    """Four members, one of which becomes a copy."""
    where = {"time": number, "seconds": number, "generation": number, "steps": number * 1000}
    rows = tuple(MemberRow(id=n, score=100.0 * n, steps=250, hyperparameters={}) for n in range(4))
    return [
        Population(**where, members=rows),
        Copied(**where, child=0, parent=3, at=250, parent_at=250, reason="truncation", before={}, after={}),
        generation(number),
    ]


def test_how_a_population_fares_is_shown_on_every_screen() -> None:
    events = [started(), *population(1), *population(2)]
    text = "\n".join(drawn(status_after(*events)))
    assert "members     0 … 150 … 300" in text
    assert "copies      2 among 4 members" in text
    assert "fitness" not in text
    line = shown("plain", [*events, ended(2)], width=160)[0].splitlines()[-5]
    assert "median     150  worst       0  copies    2" in line
    status = Status(name="r", env="e", algorithm="pbt", stop=STOP, past=history(events))
    status.see(started(1))
    assert status.copies == 1, "a run that goes on from generation 1 knows the copy of that one only"


def test_the_panel_shows_what_a_user_asks_for() -> None:
    text = "\n".join(drawn(status_after(*FULL)))
    for expected in (
        "lander-1",
        "LunarLander-v3 · es",
        "180.5 ± 12.25 over 100 episodes",
        "target 200",
        "80 / 100",
        "83k",
        "-10 … 0.25 … 12.5",
        "200 steps",
        "gradient    0.0123",
        "update      0.00345",
        "evaluate 60%",
        "ask 10%",
        "tell 20%",
        "other 10%",
        "80%",
        "1 evaluations",
        "checkpoint of generation 80 saved",
        " 120 ┤",
        "-196 ┤",
        "20s at most",
    ):
        assert expected in text, f"{expected!r} is not in\n{text}"


@pytest.mark.parametrize("height", [4, 6, 10, 24, 50])
@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 250])
@pytest.mark.parametrize("count", [0, 1, 2, len(FULL)])
def test_the_panel_fits_every_terminal(width: int, height: int, count: int) -> None:
    lines = drawn(status_after(*FULL[:count], notice("a long notice " * 30)), width, height)
    assert len(lines) < height
    assert {cell_len(line) for line in lines} == {width - 1}


def test_the_panel_takes_odd_numbers() -> None:
    odd = generation(1, score=math.nan)
    status = status_after(started(), odd, generation(2, score=1e300), generation(3, score=math.inf))
    assert "champion" in "\n".join(drawn(status))
    assert "   fitness │" in "\n".join(drawn(status_after(started(), generation(1, score=None))))
    assert "waiting for the first generation" in "\n".join(drawn(status_after(started())))


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (Stop(generations=100), 20.0),
        (Stop(steps=90_000), 10.0),
        (Stop(generations=100, seconds=85.0), 5.0),
        (Stop(score=1.0), None),
        (Stop(), None),
    ],
)
def test_the_time_left_is_that_of_the_nearest_stop(stop: Stop, expected: float | None) -> None:
    left = status_after(*FULL, stop=stop).remaining()
    assert left == (None if expected is None else pytest.approx(expected, abs=0.5))


def test_a_resumed_run_goes_on_with_its_curve() -> None:
    past = history([*FULL, validated(80, 300.0)])
    status = Status(name="r", env="e", algorithm="a", stop=STOP, past=past)
    status.see(started(40))
    assert len(status.scores.values) == 40
    assert status.best is None
    status.see(generation(41))
    assert status.generation == 41
    assert status.remaining() == pytest.approx(59, abs=0.5)


def test_a_long_curve_needs_little_memory_and_keeps_its_shape() -> None:
    series = Series(capacity=64)
    for index in range(10_000):
        series.add(float(index))
    assert len(series.values) < 64
    assert (series.low, series.high) == (0.0, 9999.0)
    assert series.resampled(40) == sorted(series.resampled(40))
    assert len(series.resampled(40)) == 40
    assert len(series.resampled(500)) == 500


def test_live_restores_the_terminal_after_an_exception_and_prints_notices() -> None:
    text, errors = shown("live", [*FULL[:5], notice("[bold]disk[/bold] is full")])
    assert text.index("\x1b[?25l") < text.rindex("\x1b[?25h")
    assert "[bold]disk[/bold] is full" in text
    assert not errors
    assert "finished" not in text


def test_live_ends_with_the_result_and_the_next_commands() -> None:
    text, _ = shown("live", [*FULL, ended(80)])
    tail = text[text.rindex("╯") :]
    assert "finished: score 200 reached" in tail
    assert "score 180.5 ± 12.25 over 100 episodes; 80 generations, 80k steps, 1m 20s" in tail
    assert "rookery render lander-1\n" in tail
    assert "rookery evaluate lander-1\n" in tail


def test_live_draws_by_the_clock_and_not_by_the_event() -> None:
    begin = time.monotonic()
    text, _ = shown("live", [started(), *(generation(n) for n in range(1, 2000))])
    assert text.count("╰") <= 3 + 8 * (time.monotonic() - begin)


def test_plain_prints_at_most_a_line_in_two_seconds_and_the_first_and_last_generation() -> None:
    events: list[Event] = [started(), *(generation(n, every=0.3) for n in range(1, 22)), ended(21)]
    text, _ = shown("plain", events)
    lines = text.splitlines()
    assert lines[0] == "lander-1: LunarLander-v3, es, 2 process workers"
    numbers = [int(line.split()[1]) for line in lines if line.startswith("generation ")]
    assert numbers == [1, 8, 15, 21]
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in lines)
    assert lines[-2:] == ["next: rookery render lander-1", "      rookery evaluate lander-1"]


def test_plain_keeps_a_notice_on_one_line_of_the_log() -> None:
    message = "a notice " * 30
    text, _ = shown("plain", [started(), notice(message)])
    assert f"notice: {message}" in text


def test_quiet_prints_notices_as_errors_and_one_last_line() -> None:
    text, errors = shown("quiet", [*FULL, notice("careful"), ended(80)])
    assert errors == "notice: careful\n"
    assert text.count("\n") == 1
    assert text.startswith("finished: score 200 reached; score 180.5 ± 12.25 over 100 episodes; 80 generations")
    assert "rookery render lander-1" in text


@pytest.mark.parametrize("mode", ["live", "plain", "quiet"])
def test_an_unfinished_run_ends_with_the_command_that_resumes_it(mode: Mode) -> None:
    resume = "rookery resume lander-1 --runs /a/rather/long/folder/that/does/not/fit/into/the/terminal/of/the/user"
    text, _ = shown(mode, [*FULL[:9], ended(8, complete=False, resume=resume)])
    assert "stopped: interrupted" in text
    assert resume in text
    assert "rookery render" not in text
    assert "score 180.5, not validated" in text


def test_next_commands_name_the_folder_of_runs_unless_it_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROOKERY_RUNS", raising=False)
    elsewhere = status_after(started(directory=str(tmp_path / "my runs" / "lander-1")))
    assert next_commands(elsewhere, ended(1))[0] == f"rookery render lander-1 --runs '{tmp_path}/my runs'"
    monkeypatch.setenv("ROOKERY_RUNS", str(tmp_path / "my runs"))
    assert next_commands(elsewhere, ended(1))[0] == "rookery render lander-1"


def test_a_console_that_knows_no_unicode_is_served_too() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=80)
    observer = progress("auto", name="r", env="e", algorithm="a", stop=STOP, console=console)
    for event in [*FULL, ended(80)]:
        observer.on(event)
    assert b"over 100 episodes" in raw.getvalue()


def test_numbers_are_short_and_readable() -> None:
    values = (0, 200.0, 231.44, -0.01234, 1.2345e-7, 12345.6, 999_950, 1_234_567, math.nan, -math.inf)
    assert [number(value) for value in values] == [
        *("0", "200", "231.4", "-0.01234", "1.2e-07", "12346", "1M", "1.23M", "nan", "-inf")
    ]
    assert [compact(value) for value in (0, 950, 999.6, 118_000, 5e6, 3.2e12)] == [
        *("0", "950", "1k", "118k", "5M", "3.2T")
    ]
    assert [duration(value) for value in (0.2, 59.6, 751, 11_100, 180_000, math.inf)] == [
        *("0s", "1m 00s", "12m 31s", "3h 05m", "2d 02h", "unknown")
    ]
