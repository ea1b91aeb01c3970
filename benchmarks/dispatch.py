"""Empty calls per second through the fleet, beside the bare runtime of each engine doing the same."""

from __future__ import annotations

import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.fleet import ActorSpec, EngineSpec, Fleet, Inline, Process, Ray

ROUNDS = 5
NOTHING = ActorSpec("benchmarks.actors:Nothing")
MPI_PEER = Path(__file__).parent / "peers" / "mpi_pairs.py"
MPIEXEC = [str(Path(sys.prefix) / "bin" / "mpiexec"), "--allow-run-as-root", "--oversubscribe"]


def measure() -> list[dict[str, Any]]:
    """One row per engine, with two workers; under MPI with one, as the head needs a core too."""
    return [_plain("inline", Inline(workers=2)), _plain("process", Process(workers=2)), _ray(), _mpi()]


def _plain(name: str, spec: EngineSpec, calls: int = 30_000) -> dict[str, Any]:
    with Fleet(NOTHING, spec) as fleet:
        fleet.assemble()
        rates = [rate(lambda: fleet_calls(fleet, calls), calls) for _ in range(ROUNDS)]
    return {"engine": name, "calls_per_second": round(statistics.median(rates))}


def _ray(calls: int = 5_000) -> dict[str, Any]:
    """Bare Ray: all calls sent to two actors in turn, then one `ray.get` for all."""
    import ray

    from rookery.fleet.ray import LOOPBACK

    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, _node_ip_address=LOOPBACK)
    try:
        bare = [ray.remote(_Bare).options(num_cpus=1).remote() for _ in range(2)]

        def bare_calls() -> None:
            ray.get([bare[number % 2].nothing.remote() for number in range(calls)])

        with Fleet(NOTHING, Ray(workers=2)) as fleet:
            fleet.assemble()
            fleet_calls(fleet, calls), bare_calls()
            both = [
                (rate(lambda: fleet_calls(fleet, calls), calls), rate(bare_calls, calls)) for _ in range(ROUNDS)
            ]
        return {"engine": "ray", **ratios(both)}
    finally:
        ray.shutdown()


def _mpi() -> dict[str, Any]:
    """Bare MPI: `send` of an empty list and `recv` of its answer, pair after pair."""
    return {"engine": "mpi", **ratios([(_ranks("fleet"), _ranks("bare")) for _ in range(ROUNDS)])}


def _ranks(mode: str) -> float:
    command = [*MPIEXEC, "-n", "2", sys.executable, "-W", "ignore", str(MPI_PEER), mode]
    printed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
    return float(printed.strip().splitlines()[-1])


class _Bare:
    """A Ray actor with nothing around it."""

    def nothing(self) -> None:
        """Do nothing."""


def fleet_calls(fleet: Fleet, calls: int) -> None:
    """So many empty calls, whoever does them."""
    assert sum(1 for _ in fleet.map("nothing", ((),) * calls)) == calls


def rate(work: Callable[[], object], calls: int) -> float:
    """Calls per second."""
    start = time.perf_counter()
    work()
    return calls / (time.perf_counter() - start)


def ratios(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians of our rates and the bare ones, and the median of their ratios."""
    return {
        "calls_per_second": round(statistics.median(ours for ours, _ in pairs)),
        "bare": round(statistics.median(bare for _, bare in pairs)),
        "ratio": round(statistics.median(ours / bare for ours, bare in pairs), 2),
    }
