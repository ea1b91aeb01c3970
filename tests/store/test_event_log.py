"""The event log survives kills, full disks, newer versions and numbers that JSON cannot hold."""

from __future__ import annotations

import math
import resource
import signal
from pathlib import Path

import pytest

from rookery.errors import RookeryError, UserError
from rookery.observers.events import (
    Boundary,
    Checkpointed,
    Ended,
    Event,
    Generation,
    Notice,
    Started,
    Validated,
)
from rookery.store.events import EventLog, history, read_events


def started(generation: int = 0) -> Started:
    return Started(
        time=1.0,
        seconds=0.0,
        name="r",
        directory="runs/r",
        generation=generation,
        steps=generation,
        version="1",
    )


def generation(number: int, score: float | None = 1.0, **changes: object) -> Generation:
    fields: dict[str, object] = {
        "time": 1.0,
        "seconds": 1.0,
        "generation": number,
        "steps": number * 100,
        "episodes": 8,
        "fitness_min": -1.0,
        "fitness_mean": 0.0,
        "fitness_max": 1.0,
        "score": score,
        "episode_length": 10.0,
        "steps_per_second": 100.0,
        "times": {"ask": 0.1, "evaluate": 0.2, "tell": 0.3},
    }
    return Generation(**(fields | changes))  # type: ignore[arg-type]


def validated(number: int, score: float, best: bool = True) -> Validated:
    return Validated(
        time=1.0, seconds=1.0, generation=number, steps=number, score=score, std=1.0, episodes=10, best=best
    )


def ended(complete: bool) -> Ended:
    return Ended(time=2.0, seconds=2.0, generation=3, steps=3, reason="why", complete=complete)


def write(path: Path, *events: Event | Boundary) -> None:
    log = EventLog(path)
    for event in events:
        log.on(event)
    log.close()


def test_everything_written_is_read_back_and_boundaries_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events: list[Event] = [
        started(),
        generation(1, telemetry={"gradient_norm": 0.5}),
        generation(2, score=None),
        validated(2, 3.0),
        Checkpointed(time=1.0, seconds=1.0, generation=2, path="checkpoints/2"),
        Notice(time=1.0, seconds=1.0, message="café"),
        ended(True),
    ]
    write(path, *events[:4], Boundary(progress=object(), seconds=1.0))
    write(path, *events[4:])
    assert read_events(path) == events


@pytest.mark.parametrize("torn", [b'{"event":"gener', b'{"event":"notice","time":1.0', b"x" * 200_000])
def test_a_torn_last_line_is_not_read_and_cut_off_before_the_next(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "events.jsonl"
    write(path, started(), generation(1))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert read_events(path) == [started(), generation(1)]
    write(path, started(1))
    assert read_events(path) == [started(), generation(1), started(1)]
    path.write_bytes(torn)
    write(path, started())
    assert read_events(path) == [started()]


def test_events_of_newer_versions_are_skipped_and_garbage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, started())
    with path.open("ab") as file:
        file.write(b'{"event":"migrated","time":1.0,"to":"elsewhere"}\n')
    write(path, generation(1))
    assert read_events(path) == [started(), generation(1)]
    with path.open("ab") as file:
        file.write(b'{"event":"notice","time":"late"}\n')
    with pytest.raises(RookeryError, match="line 4"):
        read_events(path)
    with pytest.raises(UserError, match="nowhere"):
        read_events(tmp_path / "nowhere.jsonl")


def test_numbers_that_json_cannot_hold_come_back_as_nan(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, generation(1, score=math.nan, fitness_min=-math.inf, telemetry={"loss": math.nan, "lr": 0.1}))
    (read,) = read_events(path)
    assert isinstance(read, Generation)
    assert read.score is None
    assert math.isnan(read.fitness_min)
    assert math.isnan(read.telemetry["loss"])
    assert read.fitness_max == 1.0
    assert read.telemetry["lr"] == 0.1


def test_a_full_disk_warns_once_and_leaves_only_whole_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.jsonl"
    log = EventLog(path)
    log.on(started())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 50, limits[1]))
        log.on(generation(1))
        log.on(generation(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    log.on(generation(3))
    log.close()
    assert read_events(path) == [started(), generation(3)]
    warning = capfd.readouterr().err
    assert warning.count("\n") == 1
    assert str(path) in warning


def test_a_log_that_cannot_be_opened_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write the event log"):
        EventLog(tmp_path / "no" / "events.jsonl")


def test_work_that_was_lost_and_done_again_counts_once() -> None:
    events: list[Event] = [started(), *(generation(n, score=float(n)) for n in range(1, 8))]
    events += [validated(2, 5.0), validated(6, 9.0), ended(True)]
    events += [
        started(4),
        generation(5, score=50.0),
        started(4),
        generation(5, score=55.0),
        validated(5, 4.0, False),
    ]
    found = history(events)
    assert [entry.score for entry in found.generations] == [1.0, 2.0, 3.0, 4.0, 55.0]
    assert [entry.generation for entry in found.validated] == [2, 5]
    assert found.best == validated(2, 5.0)
    assert len(found.started) == 3
    assert len(found.ended) == 1
    assert not found.complete
    assert history([*events, ended(True)]).complete
    assert history([]).best is None
