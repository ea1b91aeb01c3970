"""A run may be stopped in any way and at any moment, and goes on as if it had never been stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.cli import main
from tests.conftest import Command, environment

SMALL = [
    "population=16",
    "hidden=[8]",
    "env.max_steps=60",
    "stop.generations=12",
    "stop.score=null",
    "checkpoint.every=2",
    "checkpoint.keep=100",
    "validate_every=3",
    "validation_episodes=4",
]
BEST = Path("one", "best.safetensors")
FAULTY = [
    "cartpole",
    "env.id=tests.environments:Faulty",
    "population=6",
    "stop.generations=4",
    "validation_episodes=3",
    "--name=one",
    "-q",
]

# Put before the command: it signals its own process right before or after a checkpoint gets its name.
AT_RENAME = """
import os, sys
def hook(event, arguments):
    global renamed
    if event == 'os.rename' and str(arguments[1]).endswith('{generation:06d}.safetensors'):
        renamed = {after}
        renamed or os.kill(os.getpid(), {number})
    elif event == 'open' and renamed:
        os.kill(os.getpid(), {number})
renamed = False
sys.addaudithook(hook)
"""


def at_rename(generation: int, after: bool = False, number: int = signal.SIGKILL) -> str:
    return AT_RENAME.format(generation=generation, after=after, number=int(number))


def final(runs: Path, name: str = "one", generation: int = 12) -> bytes:
    return (runs / name / "checkpoints" / f"{generation:06d}.safetensors").read_bytes()


def newest(runs: Path) -> int:
    return max(int(path.stem) for path in (runs / "one" / "checkpoints").glob("0*.safetensors"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The directory of a run that was never stopped."""
    runs = tmp_path_factory.mktemp("whole")
    done = command("run", "cartpole", *SMALL, "--name", "one", "--runs", runs, "-q")
    assert done.returncode == 0, done.stderr
    return runs


@pytest.fixture
def begin(tmp_path: Path, command: Command) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same run, in the test's own directory, with a script that stops it."""
    return lambda stopper: command(
        "run", "cartpole", *SMALL, "--name", "one", "--runs", tmp_path, "-q", script=stopper
    )


def resumed(runs: Path, capsys: pytest.CaptureFixture[str], *overrides: str) -> str:
    """Go on in this process; what it said on the error stream."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["resume", "one", *overrides, "--runs", str(runs), "-q"])
    assert end.value.code == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("generation", "after", "left"),
    [(0, True, 0), (4, False, 3), (4, True, 4)],  # a validation at generation 3 wrote a checkpoint, too
    ids=["after the first checkpoint", "before the rename", "after the rename"],
)
def test_a_killed_run_goes_on_as_if_it_had_not_been(
    generation: int,
    after: bool,
    left: int,
    begin: Command,
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert begin(at_rename(generation, after)).returncode == -signal.SIGKILL
    assert newest(tmp_path) == left
    assert resumed(tmp_path, capsys) == ""
    assert final(tmp_path) == final(whole)
    assert (tmp_path / BEST).read_bytes() == (whole / BEST).read_bytes()
    assert not list(tmp_path.rglob(".*.tmp"))


MEMBERS = [*SMALL, "population=2", "envs=4", "rollout=32", "minibatch=64", "epochs=2"]
OTHERS = {
    "ppo": ["cartpole-ppo", *MEMBERS, "renew=7"],
    "ppo, acting ahead": ["cartpole-ppo", *MEMBERS, "renew=2", "staleness=1", "normalise_rewards=true"],
    "ppo, remembering": ["pendulum-lstm", "algorithm=ppo", *MEMBERS, "renew=3", "normalise_rewards=true"],
    "ga": ["cartpole-ga", *SMALL, "elite_episodes=3"],
    "ga with statistics": ["cartpole-ga", *SMALL, "elite_episodes=3", "normaliser.share=0.5"],
    "novelty": ["cartpole", "algorithm=novelty", *SMALL, "centres=2", "centre_episodes=3"],
    "ga steady": ["cartpole-ga", *SMALL, "elite_episodes=3", "mode=steady", "window=5"],
    "nevergrad cma": ["cartpole", "algorithm=nevergrad", *SMALL],
    "nevergrad de": ["cartpole", "algorithm=nevergrad", "optimizer=TwoPointsDE", *SMALL],
    "evosax simple ga": ["cartpole", "algorithm=evosax", "strategy=SimpleGA", *SMALL],
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_killed_run_of_another_algorithm_goes_on_as_if_it_had_not_been(
    name: str, number: int, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", *OTHERS[name], "--name", "one", "-q", "--runs"]
    with pytest.raises(SystemExit) as end:
        main([*words, str(tmp_path / "whole")])
    assert end.value.code == 0
    stopped = command(*words, tmp_path, script=at_rename(4, True, number))
    assert stopped.returncode in (-signal.SIGKILL, 128 + signal.SIGTERM), stopped.stderr
    assert newest(tmp_path) < 12
    assert resumed(tmp_path, capsys) == ""
    assert final(tmp_path) == final(tmp_path / "whole")
    assert (tmp_path / BEST).read_bytes() == (tmp_path / "whole" / BEST).read_bytes()


def test_half_written_and_damaged_checkpoints_are_passed_over_and_said(
    begin: Command, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert begin(at_rename(4)).returncode == -signal.SIGKILL
    checkpoints = tmp_path / "one" / "checkpoints"
    temporary = checkpoints / ".000004.safetensors.tmp"
    temporary.write_bytes(temporary.read_bytes()[:100])
    damaged = checkpoints / "000003.safetensors"
    damaged.unlink()  # it may share its bytes with best.safetensors
    damaged.write_bytes(final(whole, generation=3)[:-7])
    said = resumed(tmp_path, capsys)
    assert said.count("\n") == 1
    assert "the checkpoint of generation 3 is damaged" in said
    assert "using the one before" in said
    assert final(tmp_path) == final(whole)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_while_a_checkpoint_is_written_lets_it_be_written(
    number: int, code: int, begin: Command, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = begin(at_rename(4, number=number))
    assert (stopped.returncode, stopped.stderr.count("Traceback")) == (code, 0)
    assert stopped.stdout.startswith("stopped: SIG")
    assert f"rookery resume one --runs {tmp_path}" in stopped.stdout
    assert newest(tmp_path) == 4
    assert resumed(tmp_path, capsys) == ""
    assert final(tmp_path) == final(whole)


CORRIDOR = ["cartpole", "env.id=tests.environments:Tripwire", *SMALL, "--name", "one", "-q"]


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run in a corridor, never stopped."""
    runs = tmp_path_factory.mktemp("corridor")
    with pytest.raises(SystemExit) as end:
        main(["run", *CORRIDOR, "--runs", str(runs)])
    assert end.value.code == 0
    return runs


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 143)],
    ids=["SIGKILL", "Ctrl-C", "SIGTERM"],
)
def test_a_signal_in_the_middle_of_a_users_own_environment_stops_the_run_and_is_no_failure_of_it(
    number: int, code: int, corridor: Path, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    trip = f"import os; os.environ['TRIPWIRE'] = '2500:{int(number)}'"
    stopped = command("run", *CORRIDOR, "--runs", tmp_path, script=trip)
    assert (stopped.returncode, stopped.stderr) == (code, "")
    assert 0 < newest(tmp_path) < 12
    assert resumed(tmp_path, capsys) == ""
    assert final(tmp_path) == final(corridor)


def test_a_finished_run_goes_on_to_a_later_end(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Command
) -> None:
    shorter = [word.replace("=12", "=7") for word in SMALL]
    done = command("run", "cartpole", *shorter, "--name", "one", "--runs", tmp_path, "-q")
    assert done.returncode == 0
    resumed(tmp_path, capsys)
    assert newest(tmp_path) == 7, "nothing is left to do"
    resumed(tmp_path, capsys, "stop.generations=12")
    # The end at generation 7 was validated out of turn, and left no trace in what goes on.
    assert final(tmp_path) == final(whole)
    main_log = [json.loads(line) for line in (tmp_path / "one" / "events.jsonl").read_text().splitlines()]
    generations = [event["generation"] for event in main_log if event["event"] == "generation"]
    assert generations == list(range(1, 13))


def test_a_running_run_has_one_process_and_a_signal_from_outside_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "cartpole", *SMALL, "stop.generations=1000000", "--name", "one", "--runs", str(tmp_path), "-q"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rookery", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        log = tmp_path / "one" / "events.jsonl"
        deadline = time.monotonic() + 30
        while not (log.exists() and '"generation"' in log.read_text()):
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.02)
        with pytest.raises(SystemExit) as end:
            main(["resume", "one", "--runs", str(tmp_path)])
        said = capsys.readouterr().err
        assert end.value.code == 2
        assert said == f"error: run 'one' is going on in process {process.pid}\n"
        with pytest.raises(SystemExit) as end:
            main(["list", "--runs", str(tmp_path), "--json"])
        assert json.loads(capsys.readouterr().out)[0]["state"] == "running"
        with pytest.raises(SystemExit) as end:
            main(["evaluate", "one", "--episodes", "2", "--runs", str(tmp_path), "--checkpoint", "latest"])
        assert end.value.code == 0, "a run that is going on can be watched"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143
    assert f"rookery resume one --runs {tmp_path}" in out


def test_a_full_disk_costs_no_checkpoint_that_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: Command
) -> None:
    large = ["population=2", "hidden=[200, 200]", "stop.generations=2", "checkpoint.every=1"]
    done = command("run", "cartpole", *large, "--name", "one", "--runs", tmp_path, "-q")
    assert done.returncode == 0
    before = final(tmp_path, generation=2)
    assert len(before) > 300_000
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))"
    full = command("resume", "one", "stop.generations=4", "--runs", tmp_path, "-q", script=limit)
    assert full.returncode == 1
    assert "Traceback" not in full.stderr
    last = full.stderr.splitlines()[-1]
    assert last.startswith("error: the checkpoint of generation 4 could not be written: File too large")
    assert last.endswith("the one of generation 2 is whole")
    assert newest(tmp_path) == 2
    assert final(tmp_path, generation=2) == before
    assert not list(tmp_path.rglob(".*.tmp"))
    resumed(tmp_path, capsys, "stop.generations=4")
    assert newest(tmp_path) == 4


@pytest.mark.parametrize("fault", ["raise", "reward", "observation"])
def test_a_run_goes_on_with_the_worst_for_what_broke_and_names_it(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [f"options.fault={fault}", "options.every=3", "seeding=pair", "seed=1"]
    with pytest.raises(SystemExit) as end:
        main(["run", *FAULTY, *broken, "--runs", str(tmp_path)])
    assert end.value.code == 0
    said = capsys.readouterr().err.splitlines()
    assert said
    assert all(line.startswith("notice: ") for line in said)
    assert any("counted as the worst of generation" in line for line in said)
    assert all("environment seed" in line for line in said)
    assert any(line.startswith("notice: candidate ") for line in said)
    log = [json.loads(line) for line in (tmp_path / "one" / "events.jsonl").read_text().splitlines()]
    generations = [event for event in log if event["event"] == "generation"]
    assert len(generations) == 4
    assert any(event["failed"] for event in generations)
    assert all(event["fitness_min"] is not None for event in generations)
    assert all(event["score"] is not None for event in log if event["event"] == "validated")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["options.every=3", "seeding=pair", "seed=1", "on_error=stop"], "error: candidate "),
        (["options.every=1"], "error: every evaluation failed; the first: candidate 0, environment seed "),
        (["options.every=1", "options.at=0"], "error: every evaluation failed; the first: candidate"),
    ],
    ids=["when asked to", "when nothing is left", "when nothing begins"],
)
def test_a_run_stops_with_one_line_for_what_broke(
    overrides: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", *FAULTY, *overrides, "--runs", str(tmp_path)])
    out, err = capsys.readouterr()
    assert end.value.code == 1
    assert err.startswith(said)
    assert "RuntimeError: the wheel came off" in err
    assert err.count("\n") == 1
    assert "finished" not in out
    assert newest(tmp_path) >= 0, "what was there is on disk"
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
