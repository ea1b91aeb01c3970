"""A population gives the same bits wherever it lives, whoever is killed on the way, and wherever it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.cli import main
from rookery.evolution.generation import Progress
from rookery.evolution.pbt import PBTState
from rookery.learning.ppo import Member
from rookery.store.directory import RunDirectory
from tests.conftest import Command, environment
from tests.test_resume import at_rename
from tests.test_same_bits import children, final, generations, going_on, log, rookery

LAST = 12
COMMON = ["stop.score=null", "validate_every=0", "checkpoint.every=1", "checkpoint.keep=100", "--name=one", "-q"]
CARTPOLE = [
    "run",
    "cartpole-pbt",
    *COMMON,
    "learner.population=4",
    "learner.envs=8",
    "learner.epochs=2",
    "hidden=[8]",
    "interval=2",
    "algorithm.episodes=3",
    "validation_episodes=4",
    f"stop.generations={LAST}",
]
TOY = [
    "run",
    "pbt-toy",
    *COMMON,
    "learner.population=7",
    "exploit=tournament",
    "inherit=all",
    "stop.generations=12",
]


def here(*words: str | Path) -> None:
    """A command in this process."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    assert end.value.code == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of two populations that were left alone, each under its own name."""
    runs = tmp_path_factory.mktemp("whole")
    here(*CARTPOLE, "--runs", runs / "cartpole")
    here(*TOY, "--runs", runs / "toy")
    return runs


def test_members_are_the_same_on_ray(whole: Path, tmp_path: Path, command: Command) -> None:
    done = command(*CARTPOLE, "engine=ray", "workers=2", "--runs", tmp_path, timeout=110)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path, LAST) == final(whole / "cartpole", LAST)
    assert population(log(tmp_path)) == population(log(whole / "cartpole"))


def test_copies_of_copies_are_the_same_on_every_engine(whole: Path, tmp_path: Path, command: Command) -> None:
    found = log(whole / "toy")
    at_once = {
        (event["generation"], event["child"])
        for event in found
        if event["event"] == "copied" and (event["generation"], event["child"]) in _parents(found)
    }
    assert at_once, "somebody was copied while it became a copy itself"
    done = command(*TOY, "engine=process", "workers=3", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path, LAST) == final(whole / "toy", LAST)


def _parents(events: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(event["generation"], event["parent"]) for event in events if event["event"] == "copied"}


def population(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the log says of members and copies, without the time."""
    told = [event for event in events if event["event"] in ("population", "copied")]
    return [{key: value for key, value in event.items() if key not in ("time", "seconds")} for event in told]


def test_a_worker_process_killed_on_the_way_changes_no_bit(whole: Path, tmp_path: Path) -> None:
    begin = rookery(*CARTPOLE, "engine=process", "workers=2", "--runs", tmp_path)
    with going_on(begin, environment(), tmp_path, until=2) as run:
        os.kill(children(run.pid)[0], signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert "is lost" in errors
    assert final(tmp_path, LAST) == final(whole / "cartpole", LAST)
    assert population(log(tmp_path)) == population(log(whole / "cartpole"))


def test_a_killed_run_goes_on_as_if_it_had_not_been(whole: Path, tmp_path: Path, command: Command) -> None:
    killed = command(*CARTPOLE, "--runs", tmp_path, script=at_rename(3, after=True))
    assert killed.returncode == -signal.SIGKILL
    assert generations(tmp_path) == 3
    here("resume", "one", "--runs", tmp_path, "-q")
    assert final(tmp_path, LAST) == final(whole / "cartpole", LAST)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_stopped_toy_goes_on_as_if_it_had_not_been(
    number: int, whole: Path, tmp_path: Path, command: Command
) -> None:
    stopped = command(*TOY, "--runs", tmp_path, script=at_rename(5, after=True, number=number))
    assert stopped.returncode in (-signal.SIGKILL, 128 + signal.SIGTERM), stopped.stderr
    here("resume", "one", "--runs", tmp_path, "-q")
    assert final(tmp_path, LAST) == final(whole / "toy", LAST)


def test_the_log_says_what_the_checkpoints_hold(whole: Path) -> None:
    """Each copy is what its parent was, and has the hyperparameters that the log has."""
    run = RunDirectory.open(whole / "cartpole", "one")
    copies = [event for event in log(whole / "cartpole") if event["event"] == "copied"]
    assert copies
    for event in copies:
        members = _members(run, event["generation"])
        child, parent = members[event["child"]], members[event["parent"]]
        for name in ("parameters", "mean", "square"):
            np.testing.assert_array_equal(getattr(child, name), getattr(parent, name))
        assert {name: child.hyperparameters[name] for name in event["after"]} == event["after"]
        before = _members(run, event["generation"] - 1)[event["child"]]
        assert {name: before.hyperparameters[name] for name in event["before"]} == event["before"]
    for event in log(whole / "cartpole"):
        if event["event"] == "population":
            before = _members(run, event["generation"] - 1)
            assert {row["id"]: row["hyperparameters"] for row in event["members"]} == {
                number: member.hyperparameters for number, member in before.items()
            }


def _members(run: RunDirectory, generation: int) -> dict[int, Member]:
    progress, _ = run.load(str(generation), Progress)
    assert isinstance(progress.strategy, PBTState)
    return {member.id: member for member in progress.strategy.learner.members if isinstance(member, Member)}


def test_what_a_population_cannot_be_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["cartpole-pbt", "algorithm.interval={low: 1, high: 5}"], "algorithm.interval cannot be a range"),
        (["cartpole-pbt", "learner.epochs={low: 1, high: 5}"], "These it can: lr, gamma"),
        (["cartpole-ppo", "lr={low: 1e-4, high: 1e-2}"], "algorithm.type=ppo varies no hyperparameters"),
        (["cartpole-pbt", "exploit.bottom=0.7"], "algorithm.exploit.bottom"),
        (["cartpole-pbt", "exploit=truncate"], "Did you mean 'truncation'"),
        (["cartpole-pbt", "first=[{lrr: 1}]"], "Did you mean 'lr'"),
        (["pbt-toy", "policy=mlp"], "needs policy.type=vector"),
        (["pbt-toy", "options.dimensions=3"], "options.dimensions=2"),
        (["pbt-toy", "options.centered=true"], "Did you mean 'centred'"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", *words])
        printed = capfd.readouterr()
        assert (ended.value.code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
        assert said in printed.err
    assert not Path("runs").exists()


def test_the_toy_needs_no_jax(tmp_path: Path, command: Command) -> None:
    script = "import sys\nsys.modules['jax'] = None"
    done: subprocess.CompletedProcess[str] = command("run", "pbt-toy", "-q", "--runs", tmp_path, script=script)
    assert done.returncode == 0, done.stderr
