"""Runs whose members are Stable-Baselines3's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Command

RUN = [
    "run",
    "cartpole-pbt-sb3",
    "population=4",
    "interval=2",
    "algorithm.episodes=2",
    "patience=0",
    "exploit.bottom=0.5",
    "exploit.top=0.5",
    "n_epochs=4",
    "stop.generations=2",
    "stop.score=null",
    "validation_episodes=2",
    "checkpoint.every=1",
    "--quiet",
    "--name",
    "one",
]


def final(runs: Path, generation: int = 2) -> bytes:
    return (runs / "one" / "checkpoints" / f"{generation:06d}.safetensors").read_bytes()


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A run of two selections, in one process."""
    runs = tmp_path_factory.mktemp("inline")
    done = command(*RUN, "--runs", runs)
    assert done.returncode == 0, done.stderr
    return runs


def test_members_are_compared_and_copied(inline: Path) -> None:
    log = [json.loads(line) for line in (inline / "one" / "events.jsonl").read_text().splitlines()]
    populations = [event for event in log if event["event"] == "population"]
    assert [len(event["members"]) for event in populations] == [4, 4]
    copied = [event for event in log if event["event"] == "copied"]
    assert copied
    assert {event["generation"] for event in copied} <= {1, 2}
    for event in copied:
        if event["generation"] == 1:
            (child,) = [member for member in populations[1]["members"] if member["id"] == event["child"]]
            assert child["hyperparameters"].items() >= event["after"].items()


def test_two_workers_come_to_the_same_bits(inline: Path, tmp_path: Path, command: Command) -> None:
    done = command(*RUN, "engine=process", "engine.workers=2", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path) == final(inline)


def test_a_run_that_is_resumed_comes_to_the_same_bits(inline: Path, tmp_path: Path, command: Command) -> None:
    done = command(*RUN, "stop.generations=1", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    done = command("resume", "one", "stop.generations=2", "--quiet", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path) == final(inline)


def test_the_champion_is_measured_and_filmed(inline: Path, tmp_path: Path, command: Command) -> None:
    first, again = (command("evaluate", "one", "--episodes", "4", "--json", "--runs", inline) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    assert json.loads(first.stdout)["mean"] > 5
    film = tmp_path / "one.gif"
    done = command("render", "one", "--out", film, "--runs", inline)
    assert done.returncode == 0, done.stderr
    assert film.stat().st_size > 1000


@pytest.mark.parametrize(
    "changes",
    [
        ["env.backend=gymnasium", "mode=async"],
        ["env.reward_scale={low: 0.5, high: 2.0}", "learner.normalise=true"],
        ["env.id=Pendulum-v1", "env.max_steps=30", "learner.algorithm=A2C", "batch_size=null", "n_epochs=null"],
    ],
)
def test_other_ways_to_run(changes: list[str], tmp_path: Path, command: Command) -> None:
    done = command(*RUN, *changes, "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
