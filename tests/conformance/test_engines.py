"""Every engine, with its real runtime: the verbs, and workers that die, hang, join, leave or dawdle."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rookery.errors import UserError
from rookery.fleet import ActorSpec, EngineSpec, Fleet, FleetError, Inline, Process, Ray, RemoteError
from tests.conftest import environment
from tests.fleet.checks import CHECKS, PROBE, Check
from tests.fleet.mpi import MPIEXECS, mpiexec

ENGINES: dict[str, Callable[[int], EngineSpec]] = {
    "inline": lambda workers: Inline(workers=workers),
    "process": lambda workers: Process(workers=workers),
    "ray": lambda workers: Ray(workers=workers, cpus=0.5),
}
SURVIVORS = ["process", "ray"]


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """One Ray for all tests of this file; fleets find it and leave it running."""
    import ray

    from rookery.fleet.ray import LOOPBACK

    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    ray.init("local", num_cpus=4, _node_ip_address=LOOPBACK, **quiet)
    yield
    ray.shutdown()


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[Callable[..., Fleet]]:
    """Makes fleets that end with the test."""
    fleets: list[Fleet] = []

    def start(engine: str, workers: int = 2, actor: ActorSpec = PROBE, timeout: float | None = None) -> Fleet:
        if engine == "ray":
            request.getfixturevalue("ray_cluster")
        fleets.append(Fleet(actor, ENGINES[engine](workers), timeout=timeout, patience=60))
        fleets[-1].ready(workers, 60)
        return fleets[-1]

    yield start
    for fleet in fleets:
        fleet.close()


@pytest.fixture(scope="module", params=ENGINES)
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """A fleet that the checks share."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    with Fleet(PROBE, ENGINES[request.param](2)) as made:
        made.ready(2, 60)
        yield made


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_engine_does(fleet: Fleet, check: Check, tmp_path: Path) -> None:
    check(fleet, tmp_path)


@pytest.mark.parametrize("which", MPIEXECS)
@pytest.mark.parametrize("how", ["p2p", "collective", "head exchange", "p2p head_works"])
def test_mpi_does(which: str, how: str) -> None:
    words = how.replace("head exchange", "through").split()
    done = mpiexec(which, 3, "-m", "tests.fleet.under_mpi", *words)
    printed = next((line for line in done.stdout.splitlines() if line.startswith("outcomes ")), None)
    assert printed is not None, done.stdout + done.stderr
    outcomes = json.loads(printed.removeprefix("outcomes "))
    assert outcomes == {check.__name__: "" for check in CHECKS}
    assert done.returncode == 0


@pytest.mark.parametrize("engine", SURVIVORS)
def test_what_cannot_be_sent_is_an_error_of_the_call(started: Callable[..., Fleet], engine: str) -> None:
    fleet = started(engine)
    with pytest.raises(RemoteError, match=r"unsendable failed.*cannot be sent"):
        fleet.any("unsendable")
    with pytest.raises(FleetError, match="mislabelled returned something else than its annotation says"):
        fleet.any("mislabelled")
    with pytest.raises(TypeError, match="a lock cannot be sent"):
        fleet.any("echo", __import__("threading").Lock())
    assert fleet.any("add", 1) == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_an_actor_that_cannot_be_made_is_an_error_at_once(started: Callable[..., Fleet], engine: str) -> None:
    with pytest.raises(
        RemoteError, match=r"making the actor failed on worker \d: ValueError: the probe has no battery"
    ):
        started(engine, actor=ActorSpec("tests.actors:Probe", {"broken": True}))


@pytest.mark.parametrize("target", ["tests.actors:Prob", "tests.actor:Probe", "__main__:Probe"])
def test_an_actor_that_does_not_exist_is_refused(target: str) -> None:
    with pytest.raises(UserError, match=target.partition(":")[0]):
        Fleet(ActorSpec(target))


@pytest.mark.parametrize("engine", SURVIVORS)
def test_a_worker_killed_in_the_middle_of_a_call_costs_nothing_but_time(
    started: Callable[..., Fleet], engine: str, tmp_path: Path
) -> None:
    fleet = started(engine)
    calls = [(str(tmp_path / "marker"), number) for number in range(20)]
    assert sorted(fleet.map("die_once", calls)) == [(n, n) for n in range(20)]
    stats = fleet.stats()
    assert stats.lost == 1
    assert stats.reissued >= 1
    assert any("is lost" in line for line in fleet.news())
    assert len(fleet.ready(2, 60)) == 2, "and another takes its place"


@pytest.mark.parametrize("engine", SURVIVORS)
def test_a_call_that_kills_whoever_does_it_is_named(started: Callable[..., Fleet], engine: str) -> None:
    fleet = started(engine)
    with pytest.raises(FleetError, match="3 workers were lost while they did die"):
        fleet.any("die")
    assert fleet.any("add", 1) == 6


@pytest.mark.parametrize("engine", SURVIVORS)
def test_a_call_that_does_not_return_is_given_to_another(
    started: Callable[..., Fleet], engine: str, tmp_path: Path
) -> None:
    fleet = started(engine, timeout=1.5)
    calls = [(str(tmp_path / "marker"), number) for number in range(6)]
    assert sorted(fleet.map("hang_once", calls)) == [(n, n) for n in range(6)]
    assert fleet.stats().lost == 1
    with pytest.raises(FleetError, match=r"sleep did not return within 0\.5 s"):
        fleet.any("sleep", 600.0, timeout=0.5)
    assert fleet.any("add", 1) == 6


def test_inline_says_that_it_keeps_no_deadlines() -> None:
    with Fleet(PROBE) as fleet, pytest.raises(UserError, match="engine=inline cannot end a call"):
        fleet.any("sleep", 0.0, timeout=1.0)


@pytest.mark.parametrize("engine", SURVIVORS)
def test_a_straggler_is_not_waited_for(started: Callable[..., Fleet], engine: str, tmp_path: Path) -> None:
    fleet = started(engine)
    calls = [(str(tmp_path / "marker"), number) for number in range(12)]
    began = time.monotonic()
    assert sorted(fleet.map("straggle_once", calls)) == [(n, n) for n in range(12)]
    assert time.monotonic() - began < 25, "the straggler sleeps for 30 s"
    assert fleet.stats().reissued >= 1


@pytest.mark.parametrize("engine", SURVIVORS)
def test_a_slow_worker_gets_less_to_do(started: Callable[..., Fleet], engine: str) -> None:
    fleet = started(engine, workers=3)
    fleet.all("slow_down", 0.03)
    slow = fleet.workers[0]
    fleet.wait([fleet.submit("slow_down", 0.4, worker=slow)])
    (_, tired), *_ = [task.result() for task in fleet.wait([fleet.submit("work", -1, worker=slow)])]
    done = [who for _, (_, who) in fleet.map("work", [(n,) for n in range(40)])]
    assert done.count(tired) <= 40 / 5


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_that_joins_late_knows_what_all_were_told(started: Callable[..., Fleet], engine: str) -> None:
    fleet = started(engine)
    fleet.all("note", 3)
    fleet.all("note", 7)
    fleet.add(1)
    late = fleet.ready(3, 60)[-1]
    assert fleet.wait([fleet.submit("noted_value", worker=late)])[0].result() == 7
    assert len(fleet.all("who")) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_worker_may_leave_in_the_middle_of_its_work(started: Callable[..., Fleet], engine: str) -> None:
    fleet = started(engine, workers=3)
    fleet.all("slow_down", 0.02)
    results = fleet.map("work", [(n,) for n in range(60)])
    found = [next(results) for _ in range(10)]
    fleet.end(fleet.workers[0])
    found += results
    assert sorted(number for number, _ in found) == list(range(60))
    assert len(fleet.workers) == 2


HEAD = """
import json, sys
from rookery.fleet import Fleet, Process, Ray
from tests.fleet.checks import PROBE
with Fleet(PROBE, {spec}) as fleet:
    fleet.ready(2)
    print(json.dumps([pid for pid, _ in fleet.all("who").values()]), flush=True)
    list(fleet.map("sleep", [(600.0,)] * 4))
"""


@pytest.mark.parametrize("spec", ["Process(workers=2)", "Ray(workers=2)"])
def test_workers_end_with_a_head_that_is_killed(spec: str) -> None:
    script = [sys.executable, "-c", HEAD.format(spec=spec)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, env=environment()) as head:
        assert head.stdout is not None
        workers = json.loads(head.stdout.readline())
        assert len(set(workers)) == 2
        head.send_signal(signal.SIGKILL)
    until = time.monotonic() + 30
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < until, "the workers are still there"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process is there and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("which", MPIEXECS)
def test_mpi_says_at_once_what_it_cannot_do(which: str) -> None:
    cannot = mpiexec(which, 3, "-m", "tests.fleet.cannot")
    assert "one worker cannot join: " in cannot.stdout
    assert "one worker cannot leave: " in cannot.stdout
    assert "deadline: sleep did not return within 0.5 s on worker" in cannot.stdout
    assert cannot.returncode != 0, "the job is lost with the rank that hangs"


def test_mpi_needs_ranks_and_ranks_need_mpi(command: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    alone = command("run", "lander", "engine=mpi")
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "mpiexec -n 4 rookery run" in alone.stderr
    copies = mpiexec("openmpi", 2, "-m", "rookery", "run", "lander")
    assert copies.returncode == 2
    assert copies.stderr.count("mpiexec started 2 ranks, and engine=inline would use one: add engine=mpi") == 1


def test_a_worker_that_dies_before_it_is_ready_shows_what_it_printed() -> None:
    actor = ActorSpec("tests.fleet.stillborn:Stillborn")
    with (
        Fleet(actor, Process(workers=1)) as fleet,
        pytest.raises(FleetError, match=r"died before .*no licence found"),
    ):
        fleet.ready()


def test_nothing_is_left_behind() -> None:
    before = set(Path("/dev/shm").iterdir())
    with Fleet(PROBE, Process(workers=2)) as fleet:
        fleet.publish("value", [1.0] * 100_000)
        pids = [pid for pid, _ in fleet.all("who").values()]
    assert not any(alive(pid) for pid in pids)
    assert set(Path("/dev/shm").iterdir()) <= before
