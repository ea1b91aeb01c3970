"""A run gives the same bits wherever it is done, whoever is killed on the way, and wherever it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from rookery.cli import main
from tests.conftest import Command, environment
from tests.fleet.mpi import MPIEXECS, mpi_environment, mpiexec
from tests.fleet.ray_cluster import RayCluster

LANDER = [
    "run",
    "lander",
    "stop.score=null",
    "validate_every=0",
    "checkpoint.every=1",
    "checkpoint.keep=100",
    "-q",
    "--name",
    "one",
]
LANDER_GA = ["run", "lander-ga", *LANDER[2:], "population=30", "elites=2", "elite_episodes=3", "env.max_steps=200"]
STEADY = ["mode=steady", "window=7"]
TWENTY = [*LANDER, "stop.generations=20"]


def final(runs: Path, generation: int = 20) -> bytes:
    return (runs / "one" / "checkpoints" / f"{generation:06d}.safetensors").read_bytes()


def generations(runs: Path) -> int:
    return max((int(path.stem) for path in (runs / "one" / "checkpoints").glob("0*.safetensors")), default=0)


def log(runs: Path) -> list[dict[str, Any]]:
    whole, _, _ = (runs / "one" / "events.jsonl").read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory, command: Command) -> bytes:
    """What twenty generations of the lander come to."""
    runs = tmp_path_factory.mktemp("inline")
    done = command(*TWENTY, "--runs", runs)
    assert done.returncode == 0, done.stderr
    return final(runs)


@pytest.mark.parametrize("engine", ["inline", "process", "ray"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_twenty_generations_of_the_lander(
    inline: bytes, tmp_path: Path, command: Command, engine: str, workers: int
) -> None:
    where = [f"engine={engine}", f"workers={workers}"]
    done = command(*TWENTY, *where, "--runs", tmp_path, timeout=110)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path) == inline


MEMBERS = ["population=2", "envs=64", "rollout=16", "epochs=2", "minibatch=512", "renew=3"]
OTHERS = {
    "ppo": ["run", "lander-ppo", *LANDER[2:], *MEMBERS],
    "ga": [*LANDER_GA, "truncation=5"],
    "ga steady": [*LANDER_GA, "truncation=5", *STEADY],
    "random search steady": [*LANDER_GA, "algorithm=random_search", *STEADY],
    "novelty": [*LANDER, "algorithm=novelty", "population=30", "env.max_steps=200"],
}
GUESTS = {
    name: [*LANDER, f"algorithm={name}", "population=20", "hidden=[8]", "env.max_steps=100"]
    for name in ("nevergrad", "evosax")
}


@pytest.mark.parametrize("name", [*OTHERS, *GUESTS])
def test_a_few_generations_of_other_algorithms(name: str, tmp_path: Path, command: Command) -> None:
    ends = []
    for engine, workers in (("inline", 1), ("process", 3), ("ray", 2)):
        runs = tmp_path / f"{engine}{workers}"
        where = [f"engine={engine}", f"workers={workers}", "--runs", runs]
        done = command(*(OTHERS | GUESTS)[name], "stop.generations=5", *where, timeout=110)
        assert done.returncode == 0, done.stderr
        ends.append(final(runs, 5))
    assert ends == ends[:1] * len(ends)


@pytest.mark.parametrize("name", OTHERS)
def test_a_worker_killed_on_the_way_changes_no_bit_of_other_algorithms(
    name: str, tmp_path: Path, command: Command
) -> None:
    done = command(*OTHERS[name], "stop.generations=30", "--runs", tmp_path / "whole")
    assert done.returncode == 0, done.stderr
    begin = rookery(*OTHERS[name], "stop.generations=30", "engine=process", "workers=2", "--runs", tmp_path)
    with going_on(begin, environment(), tmp_path, until=2) as run:
        os.kill(children(run.pid)[0], signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert "is lost" in errors
    assert final(tmp_path, 30) == final(tmp_path / "whole", 30)


@pytest.mark.parametrize(("which", "ranks"), [("openmpi", 2), ("openmpi", 6), ("mpich", 3)])
def test_twenty_generations_of_the_lander_under_mpi(inline: bytes, tmp_path: Path, which: str, ranks: int) -> None:
    done = mpiexec(which, ranks, "-m", "rookery", *TWENTY, "engine=mpi", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished: 20 generations reached") == 1, "only the head speaks"
    assert final(tmp_path) == inline


@contextmanager
def going_on(
    command: list[str], env: dict[str, str], runs: Path, until: int = 4
) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, some generations after its start."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as run:
        try:
            deadline = time.monotonic() + 60
            while generations(runs) < until:
                assert run.poll() is None, run.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield run
        finally:
            for process in [*psutil.Process(run.pid).children(recursive=True), run] if run.poll() is None else []:
                process.kill()


def rookery(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "rookery", *map(str, arguments)]


def ray_actors(run: int) -> list[int]:
    return [
        p.pid for p in psutil.Process(run).children(recursive=True) if p.cmdline()[:1] == ["ray::_Host.answer"]
    ]


def children(run: int) -> list[int]:
    return [process.pid for process in psutil.Process(run).children()]


@pytest.mark.parametrize(("engine", "workers_of"), [("process", children), ("ray", ray_actors)])
def test_a_worker_killed_on_the_way_changes_no_bit(
    inline: bytes, tmp_path: Path, engine: str, workers_of: Callable[[int], list[int]]
) -> None:
    begin = rookery(*TWENTY, f"engine={engine}", "workers=2", "--runs", tmp_path)
    with going_on(begin, environment(), tmp_path) as run:
        os.kill(workers_of(run.pid)[0], signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert "is lost" in errors
    assert final(tmp_path) == inline
    assert max(event["fleet"]["lost"] for event in log(tmp_path) if event["event"] == "generation") == 1


def test_a_ray_cluster_that_loses_a_node_and_gets_another_changes_no_bit(
    inline: bytes, tmp_path: Path, command: Command
) -> None:
    runs = tmp_path / "runs"
    with RayCluster(tmp_path) as cluster:
        cluster.join()
        where = ["engine=ray", f"ray.address={cluster.address}", "--runs", runs]
        endless = ["stop.generations=null", "stop.steps=null", "stop.seconds=100", "checkpoint.keep=100000"]
        with going_on(rookery(*LANDER, *endless, *where), cluster.environment, runs) as run:
            wait_for(lambda: fleet_of(runs)["workers"] == 2, "one worker on each node")
            cluster.kill(1)
            wait_for(lambda: fleet_of(runs)["lost"] == 1 and generations(runs) > 20, "the run to go on without it")
            cluster.join()
            wait_for(lambda: fleet_of(runs)["joined"] == 3, "the run to use the new node")
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=30)
        assert final(runs) == inline
        stranger = {name: value for name, value in cluster.environment.items() if "AUTH" not in name}
        denied = subprocess.run(
            rookery("run", "lander", *where), env=stranger, capture_output=True, text=True, timeout=60, check=False
        )
    assert denied.returncode == 2
    assert "the cluster asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in denied.stderr
    assert denied.stderr.count("\n") == 1


def fleet_of(runs: Path) -> dict[str, float]:
    """The figures of the fleet in the newest generation."""
    return next(event["fleet"] for event in reversed(log(runs)) if event["event"] == "generation")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.05)


def test_a_head_killed_on_one_engine_goes_on_on_another(inline: bytes, tmp_path: Path, command: Command) -> None:
    begin = rookery(*TWENTY, "engine=process", "workers=2", "--runs", tmp_path)
    with going_on(begin, environment(), tmp_path) as run:
        workers = children(run.pid)
        run.kill()
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in workers), "the workers to end", 10)
    done = command("resume", "one", "stop.generations=12", "--engine", "ray", "--workers", "2", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert generations(tmp_path) == 12
    done = mpiexec(
        "openmpi", 3, "-m", "rookery", "resume", "one", "stop.generations=16", "engine=mpi", "--runs", tmp_path
    )
    assert done.returncode == 0, done.stderr
    done = command("resume", "one", "stop.generations=20", "engine=inline", "--runs", tmp_path)
    assert done.returncode == 0, done.stderr
    assert final(tmp_path) == inline


@pytest.mark.parametrize("which", MPIEXECS)
def test_an_mpi_job_that_loses_a_rank_goes_on_from_its_checkpoint(
    inline: bytes, tmp_path: Path, command: Command, which: str
) -> None:
    endless = [*LANDER, "stop.generations=100000", "stop.steps=null", "engine=mpi", "--runs", tmp_path]
    begin = [*MPIEXECS[which], "-n", "3", *rookery(*endless)]
    with going_on(begin, mpi_environment(which), tmp_path) as run:
        ranks = [p for p in psutil.Process(run.pid).children(recursive=True) if "rookery" in p.cmdline()]
        assert len(ranks) == 3
        rank = max(
            ranks, key=lambda process: process.environ().get("PMIX_RANK", process.environ().get("PMI_RANK"))
        )
        rank.kill()
        printed, errors = run.communicate(timeout=30)
    assert run.returncode != 0
    if which == "openmpi":  # which lets the head come to an end; MPICH kills it at once
        assert "rookery resume one" in printed + errors
    stopped = generations(tmp_path)
    if stopped < 20:
        done = command("resume", "one", "stop.generations=20", "engine=inline", "--runs", tmp_path)
        assert done.returncode == 0, done.stderr
    assert final(tmp_path) == inline


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("engine", ["process", "ray"])
def test_a_signal_saves_and_ends_all_workers(tmp_path: Path, engine: str, number: int) -> None:
    endless = [*LANDER, "stop.generations=100000", "stop.steps=null", f"engine={engine}", "workers=2"]
    with going_on(rookery(*endless, "--runs", tmp_path), environment(), tmp_path) as run:
        family = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(number)
        printed, errors = run.communicate(timeout=30)
    assert run.returncode == 128 + number, errors
    assert "rookery resume one" in printed
    assert psutil.wait_procs(family, timeout=10)[1] == [], "somebody is still there"


def test_what_is_typed_wrong_about_engines_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["engine=rays"], "Did you mean 'ray'"),
        (["--engine", "proces"], "Did you mean 'process'"),
        (["engine=process", "workers=0"], "engine.workers: expected"),
        (["--workers", "0"], "--workers"),
        (["ray.address=auto"], "'ray.address' belongs to engine.type=ray; this experiment has engine.type=inline"),
        (["engine=ray", "ray.address=127.0.0.1:9"], "ray.address=127.0.0.1:9: no connection"),
        (["engine=mpi", "mpi.exchange=both"], "engine.exchange: expected"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", "cartpole", *words])
        printed = capfd.readouterr()
        assert (ended.value.code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
        assert said in printed.err
    assert not Path("runs").exists()
