"""Environment steps per second of whole generations, against EvoTorch's GymNE with two actors.

Same environment, network and population, an episode per candidate; ours has two worker processes. Its centre stays
where it is, so that both see the short episodes of untrained policies, which are the dearest.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from rookery.agent import make_evaluator
from rookery.evolution.generation import Progress, absorb, plan
from rookery.experiment import load_experiment
from rookery.fleet import Process
from rookery.policies import Moments
from rookery.rollout.shared import SharedEvaluator

ROUNDS = 3
SECONDS = 10.0
POPULATIONS = (128, 512)
PEER = Path(__file__).parent / "peers" / "evotorch_lander.py"


def measure() -> list[dict[str, Any]]:
    """One row per population, with and without normalised observations; ours and the peer take turns."""
    return [_compare(population, normalise) for normalise in (False, True) for population in POPULATIONS]


def _compare(population: int, normalise: bool) -> dict[str, Any]:
    pairs = [(_ours(population, normalise), _peer(population, normalise)) for _ in range(ROUNDS)]
    return {
        "population": population,
        "normalised": normalise,
        "rookery": round(statistics.median(ours[0] for ours, _ in pairs)),
        "evotorch": round(statistics.median(peer[0] for _, peer in pairs)),
        "ratio": round(statistics.median(ours[0] / peer[0] for ours, peer in pairs), 2),
        "steps_per_episode": f"{pairs[0][0][1]:.0f} and {pairs[0][1][1]:.0f}",
    }


def _ours(population: int, normalise: bool) -> tuple[float, float]:
    """Steps per second, and steps per episode."""
    normaliser = "policy.normaliser.share=1.0" if normalise else "policy.normaliser=null"
    fixed = ["lr=1e-12", "sigma=0.1", f"population={population}", "champion_share=0", normaliser]
    experiment = load_experiment("lander", ["hidden=[32,32]", *fixed])
    shared = SharedEvaluator(experiment.env, experiment.policy, Process(workers=2))
    with threadpool_limits(1), closing(shared):
        state = experiment.algorithm.init(experiment.seed, make_evaluator(experiment).policy.space)
        progress = Progress(0, 0, 0, state, Moments.empty(8) if normalise else None)
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < SECONDS:
            planned = plan(experiment, progress)
            results = shared.evaluate(planned.context, planned.candidates)
            progress = absorb(experiment, progress, planned, results)
    return progress.steps / seconds, progress.steps / progress.episodes


def _peer(population: int, normalise: bool) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", str(PEER), "--popsize", str(population), "--seconds", str(SECONDS)]
    command += ["--normalise"] if normalise else []
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed.strip().splitlines()[-1])
    return found["steps_per_second"], found["steps_per_episode"]
