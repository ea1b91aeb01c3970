"""Run directories: names, checkpoints that are whole or not there, and a lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rookery.errors import RookeryError, UserError
from rookery.genomes import Vector
from rookery.store.codec import encode
from rookery.store.directory import RunDirectory
from rookery.store.files import write_whole

EXPERIMENT = "description: a test\n"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "runs", "one", "stem", EXPERIMENT)


def content(number: int) -> bytes:
    return encode(Vector(np.full(4, number, np.float32)))


def save(run: RunDirectory, *generations: int, best: bool = False, keep: int = 100) -> None:
    for generation in generations:
        run.save(generation, content(generation), best, keep)


def loaded(run: RunDirectory, which: str = "latest") -> tuple[int, list[str]]:
    vector, notices = run.load(which, Vector)
    return int(vector.values[0]), notices


def test_names_are_counted_up_and_gaps_are_not_filled(tmp_path: Path) -> None:
    runs = tmp_path / "deep" / "runs"
    names = [RunDirectory.create(runs, None, "lander", EXPERIMENT).name for _ in range(3)]
    assert names == ["lander-1", "lander-2", "lander-3"]
    (runs / "lander-12").mkdir()
    (runs / "lander-2b").mkdir()
    assert RunDirectory.create(runs, None, "lander", EXPERIMENT).name == "lander-13"
    assert RunDirectory.create(runs, None, "cartpole", EXPERIMENT).name == "cartpole-1"


def test_a_name_in_use_is_refused_with_what_to_type_instead(run: RunDirectory) -> None:
    with pytest.raises(UserError, match="'one' exists already: `rookery resume one` goes on with it"):
        RunDirectory.create(run.path.parent, "one", "stem", EXPERIMENT)
    assert run.experiment_path.read_text() == EXPERIMENT


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", ".hidden", "-dash", "a b", "ü", "a\n"])
def test_a_name_that_cannot_be_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a run"):
        RunDirectory.create(tmp_path, name, "stem", EXPERIMENT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file", "file/runs"])
@pytest.mark.parametrize("name", [None, "one"])
def test_a_place_that_is_no_directory_is_refused(tmp_path: Path, below: str, name: str | None) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(UserError, match=r"cannot write runs to .*--runs DIR writes elsewhere"):
        RunDirectory.create(tmp_path / below, name, "stem", EXPERIMENT)


def test_a_run_is_opened_by_name_or_path_and_another_is_suggested(run: RunDirectory) -> None:
    runs = run.path.parent
    for name in ("one", str(run.path), f"{run.path}/"):
        assert RunDirectory.open(runs, name).name == "one"
    with pytest.raises(UserError, match=r"no run 'onne' in .*Did you mean 'one'\?"):
        RunDirectory.open(runs, "onne")
    with pytest.raises(UserError, match="no run 'x' in"):
        RunDirectory.open(runs / "nowhere", "x")
    assert RunDirectory.all(runs / "nowhere") == []


def test_all_runs_are_listed_oldest_first_without_what_is_no_run(run: RunDirectory) -> None:
    runs = run.path.parent
    for age, name in enumerate(("c", "b", "a")):
        other = RunDirectory.create(runs, name, "stem", EXPERIMENT)
        os.utime(other.experiment_path, (age, age))
    (runs / "stranger").mkdir()
    (runs / "file").write_text("")
    assert [found.name for found in RunDirectory.all(runs)] == ["c", "b", "a", "one"]


@pytest.mark.parametrize("keep", [1, 2, 3, 5])
def test_thinning_out_keeps_the_newest_and_spreads_the_rest(run: RunDirectory, keep: int) -> None:
    save(run, *range(0, 201, 5), best=False, keep=keep)
    kept = list(run.checkpoints())
    assert len(kept) == keep
    assert kept[-1] == 200
    if keep > 2:
        assert kept[0] == 0
        assert max(b - a for a, b in pairwise(kept)) <= 3 * 200 / (keep - 1)


def test_the_best_stays_whatever_is_thinned_out(run: RunDirectory) -> None:
    save(run, 5)
    save(run, 10, best=True)
    save(run, *range(11, 40), keep=2)
    assert 10 not in run.checkpoints()
    assert loaded(run, "best") == (10, [])
    save(run, 40, best=True)
    assert loaded(run, "best") == (40, [])


def test_a_checkpoint_is_found_by_what_it_is_called(run: RunDirectory) -> None:
    save(run, 2, 4)
    assert loaded(run) == (4, [])
    assert loaded(run, "2") == (2, [])
    assert loaded(run, "best") == (4, []), "before anything was validated the newest is the best known"
    for which in ("3", "newest", "-1", "²"):
        with pytest.raises(UserError, match=f"no checkpoint '{which}'; it has latest, best and 2, 4"):
            run.load(which, Vector)


def test_generations_beyond_six_digits_stay_in_order(run: RunDirectory) -> None:
    save(run, 999_999, 1_000_000)
    assert list(run.checkpoints()) == [999_999, 1_000_000]
    assert loaded(run)[0] == 1_000_000


def test_a_damaged_newest_checkpoint_is_passed_over_and_said(run: RunDirectory) -> None:
    save(run, 2, 4, 6)
    paths = run.checkpoints()
    paths[6].write_bytes(content(6)[:-1])
    paths[4].write_bytes(b"")
    number, notices = loaded(run)
    assert number == 2
    assert [notice.split(" is damaged")[0] for notice in notices] == [
        "the checkpoint of generation 6",
        "the checkpoint of generation 4",
    ]
    with pytest.raises(RookeryError, match=r"000006.safetensors is damaged"):
        run.load("6", Vector)
    paths[2].unlink()
    with pytest.raises(RookeryError, match="has no whole checkpoint: the checkpoint of generation 6 is damaged"):
        run.load("latest", Vector)


def test_a_run_without_a_checkpoint_says_so(run: RunDirectory) -> None:
    for which in ("latest", "best"):
        with pytest.raises(RookeryError, match="it was stopped before it wrote one"):
            run.load(which, Vector)


def test_a_half_written_checkpoint_is_none_and_is_cleared_away(run: RunDirectory) -> None:
    save(run, 2)
    half = run.path / "checkpoints" / ".000004.safetensors.tmp"
    half.write_bytes(content(4)[:50])
    assert list(run.checkpoints()) == [2]
    assert loaded(run) == (2, [])
    with run.locked():
        assert not half.exists()
    save(run, 4)
    assert loaded(run) == (4, [])


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_one_process_at_a_time_carries_on_a_run(run: RunDirectory) -> None:
    assert not run.is_locked()
    script = (
        "import sys; from pathlib import Path; from rookery.store.directory import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])).locked(): print('locked', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    assert run.is_locked()
    with pytest.raises(UserError, match=rf"run 'one' is going on in process {child.pid}"), run.locked():
        pass
    child.kill()
    child.communicate()
    assert not run.is_locked(), "the lock goes with its process"
