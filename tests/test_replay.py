"""A schedule that a population found is what one fresh agent learns with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rookery.cli import main
from rookery.evolution.generation import Progress
from rookery.experiment import load_experiment
from rookery.learning.ppo import PPO, Member, PPOState
from rookery.store.directory import RunDirectory
from tests.test_same_bits import final

SMALL = ["learner.envs=8", "learner.epochs=2", "hidden=[8]", "validation_episodes=4"]
OFTEN = ["stop.score=null", "validate_every=0", "checkpoint.every=1", "checkpoint.keep=100", "-q"]
POPULATION = [
    "run",
    "cartpole-pbt",
    *SMALL,
    *OFTEN,
    "learner.population=4",
    "interval=3",
    "algorithm.episodes=2",
    "exploit=winner",
    "gamma={low: 0.9, high: 0.999}",
    "stop.generations=5",
    "--name=population",
]
REPLAY = ["run", "cartpole-pbt", *SMALL, *OFTEN, "replay=population", "stop.generations=18"]


def here(*words: str | Path) -> None:
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    assert end.value.code == 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A population that was bred, and a replay of it called `one`."""
    folder = tmp_path_factory.mktemp("replay")
    here(*POPULATION, "--runs", folder)
    here(*REPLAY, "--name=one", "--runs", folder)
    return folder


def recorded(told: list[dict[str, Any]]) -> list[tuple[int, dict[str, float]]]:
    """How many steps the best member's ancestors took with which values, walked back generation by generation."""
    rows = {
        event["generation"]: {row["id"]: row for row in event["members"]}
        for event in told
        if event["event"] == "population"
    }
    parents = {
        (event["generation"], event["child"]): event["parent"] for event in told if event["event"] == "copied"
    }
    last = max(rows)
    member = max(rows[last], key=lambda number: (rows[last][number]["score"], -number))
    found = []
    for generation in range(last, 0, -1):
        row = rows[generation][member]
        before = rows[generation - 1][member]["steps"] if generation > 1 else 0
        genes = {name: row["hyperparameters"][name] for name in ("lr", "gamma", "entropy")}
        found.append((row["steps"] - before, genes))
        member = parents.get((generation - 1, member), member)
    return found[::-1]


def test_each_update_uses_what_was_recorded_at_its_steps(runs: Path) -> None:
    line = recorded(events(runs / "population"))
    assert len({tuple(values.values()) for _, values in line}) > 1, "something changed on the way"
    run = RunDirectory.open(runs, "one")
    ppo = load_experiment(str(run.experiment_path)).algorithm
    assert isinstance(ppo, PPO)
    assert ppo.population == 1
    for generation in range(18):
        member = _member(run, generation)
        passed, wanted = 0, line[-1][1]
        for steps, values in line:
            passed += steps
            if member.steps < passed:
                wanted = values
                break
        used = ppo.settings(member)
        assert {name: used[name] for name in wanted} == wanted
        assert _member(run, generation + 1).metrics["lr"] == wanted["lr"], "as the update itself tells"


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def _member(run: RunDirectory, generation: int) -> Member:
    progress, _ = run.load(str(generation), Progress)
    assert isinstance(progress.strategy, PPOState)
    (member,) = progress.strategy.members
    return member


def test_a_replay_is_whole_without_the_run_that_it_came_from(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "population", tmp_path / "population")
    here(*REPLAY, "--name=one", "stop.generations=9", "--runs", tmp_path)
    shutil.rmtree(tmp_path / "population")
    here("resume", "one", "stop.generations=18", "--runs", tmp_path, "-q")
    assert final(tmp_path, 18) == final(runs, 18)
    again = ["run", tmp_path / "one" / "experiment.yaml", "stop.generations=18", "--name=again", "-q"]
    here(*again, "--runs", tmp_path)
    checkpoint = tmp_path / "again" / "checkpoints" / "000018.safetensors"
    assert checkpoint.read_bytes() == final(runs, 18)


def test_a_preset_of_plain_ppo_replays_too_and_says_so(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "cartpole-ppo", "envs=8", "hidden=[8]", "epochs=2", "validation_episodes=4", "-q"]
    here(*words, f"replay={runs / 'population'}", "stop.generations=2", "--runs", tmp_path)
    assert "notice: replays what led to member" in capsys.readouterr().err
    written = load_experiment(str(tmp_path / "cartpole-ppo-1" / "experiment.yaml"))
    assert isinstance(written.algorithm, PPO)
    first = written.algorithm.schedule[0]
    assert first[0] == 0
    assert written.algorithm.lr == first[1]["lr"]
    assert written.replay is None


def test_what_cannot_be_replayed_is_one_line(
    runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here("run", "pbt-toy", "-q", "--name", "toy", "stop.generations=2", "--runs", tmp_path)
    capfd.readouterr()
    for words, said in (
        (["cartpole-ppo", "replay=nobody"], "no run 'nobody'"),
        (["cartpole-ppo", "replay=toy"], "only a population of PPO has a schedule to replay"),
        (["cartpole", f"replay={runs / 'population'}"], "needs algorithm.type=ppo, and this experiment's is es"),
        (["pbt-toy", f"replay={runs / 'population'}"], "needs algorithm.type=ppo"),
        (["cartpole-ppo", f"replay={runs / 'one'}"], "only a population of PPO"),
        (
            ["cartpole-ppo", "schedule=[[0, {lrr: 1}]]"],
            "lrr cannot change while a member learns. Did you mean 'lr'",
        ),
        (["cartpole-ppo", "schedule=[[0, {lr: -1}]]"], "schedule: lr=-1: Expected"),
        (["cartpole-ppo", "schedule=[[9, {lr: 1}], [9, {lr: 2}]]"], "its steps must rise, got [9, 9]"),
        (["cartpole-ppo", "schedule=[[0, {clip_value: 1}]]"], "clip_value is null, and needs a value"),
        (["cartpole-ppo", "schedule=often"], "algorithm.schedule: expected a list of lists"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", *words, "--runs", str(tmp_path)])
        printed = capfd.readouterr()
        assert (ended.value.code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
        assert said in printed.err


def test_a_schedule_holds_until_its_next_phase_and_anneals_as_usual() -> None:
    ppo = PPO(schedule=((0, {"lr": 0.01}), (100, {"gamma": 0.5}), (200, {"lr": 0.02})), lr_anneal=1000)
    member: Any = type("Aged", (), {"hyperparameters": {"lr": 0.5, "gamma": 0.9}, "steps": 0})
    seen = []
    for member.steps in (0, 99, 100, 199, 200, 500):
        used = ppo.settings(member)
        seen.append((round(used["lr"], 9), used["gamma"]))
    assert seen == [
        (0.01, 0.9),
        (0.00901, 0.9),
        (0.009, 0.5),
        (0.00801, 0.5),
        (0.016, 0.5),
        (0.01, 0.5),
    ]
