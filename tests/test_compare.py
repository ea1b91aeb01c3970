"""Comparisons: the same steps for everybody, runs that are used again, and figures that can be checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.cli import main
from rookery.compare import contestants
from rookery.errors import UserError
from rookery.significance import mann_whitney
from rookery.store.directory import RunDirectory
from rookery.store.events import read_events

Typed = Callable[..., tuple[int, str, str]]
BOWLS = ["sphere", "sphere:sigma=0.02:lr=0.01", "champion_share=0"]


@pytest.fixture
def typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """A command in this process: exit code, output, errors."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([*map(str, arguments), "--runs", str(tmp_path / "runs")])
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return run


def events(runs: Path, name: str, kind: str) -> list[Any]:
    return [e for e in read_events(runs / name / "events.jsonl") if type(e).__name__ == kind]


def test_words_are_contestants_and_overrides_for_all() -> None:
    words = ["lander", "lander:algorithm.sigma=0.1:hidden=[8,8]", "env.id=my_pkg.envs:Maze", "a/b.yaml:seed=3"]
    found, shared = contestants(words)
    assert [(c.source, c.overrides) for c in found] == [
        ("lander", []),
        ("lander", ["algorithm.sigma=0.1", "hidden=[8,8]"]),
        ("a/b.yaml", ["seed=3"]),
    ]
    assert shared == ["env.id=my_pkg.envs:Maze"]
    for wrong, said in (([], "name at least one"), (["seed=3"], "name at least one"), (["a", "a"], "there twice")):
        with pytest.raises(UserError, match=said):
            contestants(wrong)


def test_a_comparison_is_exact_and_can_be_checked(typed: Typed, tmp_path: Path) -> None:
    picture = tmp_path / "c.png"
    code, out, _ = typed("compare", *BOWLS, "--seeds", 3, "--budget", 2000, "--out", picture, "--json")
    assert code == 0
    found = json.loads(out)
    assert [row["name"] for row in found["rows"]] == BOWLS[:2]
    assert picture.stat().st_size > 10_000
    for row in found["rows"]:
        assert len(set(row["runs"])) == len(row["scores"]) == 3
        assert row["steps"] == 31 * 64, "the last generation that fits"
        assert row["validation_steps"] == 1
        assert row["mean"] == pytest.approx(np.mean(row["scores"]))
        assert row["std"] == pytest.approx(np.std(row["scores"]))
        assert row["best"] == max(row["scores"])
        for name, score in zip(row["runs"], row["scores"], strict=True):
            assert events(tmp_path / "runs", name, "Validated")[-1].score == score
            assert events(tmp_path / "runs", name, "Generation")[-1].steps <= 2000
    (pair,) = found["pairs"]
    scores = [row["scores"] for row in found["rows"]]
    assert pair["p"] == pytest.approx(mann_whitney(*scores)) == pytest.approx(0.1)
    assert pair["difference"] == pytest.approx(np.mean(scores[0]) - np.mean(scores[1]))


def test_what_is_there_is_used_and_a_larger_budget_goes_on(typed: Typed, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    words = ["compare", "sphere", "--seeds", "2", "--json"]
    first = json.loads(typed(*words, "--budget", 1000)[1])
    assert json.loads(typed(*words, "--budget", 1000)[1]) == first
    (row,) = first["rows"]
    assert all(len(events(runs, name, "Started")) == 1 for name in row["runs"])
    more = json.loads(typed(*words, "--budget", "2e3")[1])
    assert more["rows"][0]["runs"] == row["runs"]
    fewer = json.loads(typed(*words, "--budget", 500)[1])
    assert fewer["rows"][0]["runs"] != row["runs"], "they have seen too much"
    at_once = json.loads(typed(*words, "--budget", 2000, "--runs", str(tmp_path / "others"))[1])
    assert at_once["rows"][0]["scores"] == more["rows"][0]["scores"]


def test_a_run_that_was_stopped_is_resumed(typed: Typed, tmp_path: Path) -> None:
    whole = json.loads(typed("compare", "sphere", "--seeds", 1, "--budget", 3000, "--json")[1])
    name = whole["rows"][0]["runs"][0]
    run = RunDirectory.open(tmp_path / "runs", name)
    log = run.events_path.read_text().splitlines(keepends=True)
    run.events_path.write_text("".join(log[:20]))
    for generation, path in run.checkpoints().items():
        if generation > 10:
            path.unlink()
    again = json.loads(typed("compare", "sphere", "--seeds", 1, "--budget", 3000, "--json")[1])
    assert again["rows"][0]["scores"] == whole["rows"][0]["scores"]
    assert [started.generation for started in events(tmp_path / "runs", name, "Started")] == [0, 10]


def test_a_table_for_a_person(typed: Typed) -> None:
    small = ["hidden=[8]", "population=8", "validation_episodes=4", "--seeds", 2, "--budget", 1500]
    code, out, errors = typed("compare", "cartpole", "cartpole:algorithm.type=nevergrad", *small)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["experiment", "score", "std", "best", "steps", "validation", "steps/s", "time"]
    assert any(line.startswith("cartpole:algorithm.type=nevergrad") for line in lines)
    assert "p = " in lines[-1]
    assert " over " in lines[-1]
    assert errors.count("finished") == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sphere", "--budget", "10"], "a generation of sphere takes more steps than that"),
        (["spere", "--budget", "1000"], "Did you mean 'sphere'"),
        (["sphere", "--budget", "1000", "--out", "a.txt"], "its name must end in .png"),
        (["sphere", "--budget", "1000", "engine=mpi"], "engine=mpi carries out one run"),
        (["sphere", "--budget", "0"], "--budget"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(words: list[str], said: str, typed: Typed) -> None:
    code, out, err = typed("compare", *words, "--seeds", 1)
    assert (code, out) == (2, "")
    assert said in err.splitlines()[-1]
