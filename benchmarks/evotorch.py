"""Environment steps per second of whole generations, against EvoTorch's GymNE with two actors.

Same environment, same network, same population, an episode per candidate. Ours keeps its centre where it is, so
that both see the short episodes of untrained policies, which are the dearest.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from rookery.agent import make_evaluator
from rookery.evolution.generation import Progress, absorb, plan
from rookery.experiment import load_experiment
from rookery.policies import Moments

ROUNDS = 3
SECONDS = 10.0
POPULATIONS = (128, 512)
PEER = Path(__file__).parent / "peers" / "evotorch_lander.py"


def measure() -> list[dict[str, Any]]:
    """One row per population; ours and the peer take turns."""
    return [_compare(population) for population in POPULATIONS]


def _compare(population: int) -> dict[str, Any]:
    pairs = [(_ours(population), _peer(population)) for _ in range(ROUNDS)]
    return {
        "population": population,
        "rookery": round(statistics.median(ours[0] for ours, _ in pairs)),
        "evotorch": round(statistics.median(peer[0] for _, peer in pairs)),
        "ratio": round(statistics.median(ours[0] / peer[0] for ours, peer in pairs), 2),
        "steps_per_episode": f"{pairs[0][0][1]:.0f} and {pairs[0][1][1]:.0f}",
    }


def _ours(population: int) -> tuple[float, float]:
    """Steps per second, and steps per episode."""
    fixed = ["lr=1e-12", f"population={population}", "champion_share=0", "policy.normaliser=null"]
    experiment = load_experiment("lander", ["hidden=[32,32]", "step_limit=null", *fixed])
    with threadpool_limits(1):
        evaluator = make_evaluator(experiment)
        state = experiment.algorithm.init(experiment.seed, evaluator.policy.space)
        progress = Progress(0, 0, 0, state, None if experiment.policy.normaliser is None else Moments.empty(8))
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < SECONDS:
            planned = plan(experiment, progress)
            progress = absorb(
                experiment, progress, planned, evaluator.evaluate(planned.context, planned.candidates)
            )
    return progress.steps / seconds, progress.steps / progress.episodes


def _peer(population: int) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", str(PEER), "--popsize", str(population), "--seconds", str(SECONDS)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed.strip().splitlines()[-1])
    return found["steps_per_second"], found["steps_per_episode"]
