"""Wall time of `rookery run` from a cold process to a solved problem, and its score on 100 other episodes."""

from __future__ import annotations

import json
import statistics
import tempfile
from typing import Any

from benchmarks.commands import rookery
from rookery.experiment import load_experiment

SEEDS = {
    "lander": 10,
    "cartpole": 5,
    "cartpole-partial": 3,
    "pendulum": 3,
    "pendulum-lstm": 3,
    "pendulum-partial": 3,
}


def measure() -> list[dict[str, Any]]:
    """One row per problem, over several seeds."""
    return [solve(preset, seeds) for preset, seeds in SEEDS.items()]


def solve(preset: str, seeds: int) -> dict[str, Any]:
    """What it takes to solve a preset with the first so many seeds."""
    target = load_experiment(preset).stop.score
    assert target is not None
    times, scores, steps = [], [], []
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(seeds):
            name = f"{preset}-{seed}"
            _, seconds = rookery("run", preset, f"seed={seed}", "--name", name, "--runs", runs, "--quiet")
            report = json.loads(rookery("evaluate", name, "--runs", runs, "--episodes", "100", "--json")[0])
            summary = json.loads(rookery("show", name, "--runs", runs, "--json")[0])
            times.append(seconds)
            scores.append(report["mean"])
            steps.append(summary["steps"])
            print(
                f"  {preset} seed {seed}: {seconds:.1f} s, score {report['mean']:.1f}, {steps[-1]} steps",
                flush=True,
            )
    return {
        "preset": preset,
        "target": target,
        "seeds": seeds,
        "reached": sum(score >= target for score in scores),
        "under_30_s": sum(s >= target and t < 30 for s, t in zip(scores, times, strict=True)),
        "median_seconds": round(statistics.median(times), 1),
        "worst_seconds": round(max(times), 1),
        "median_steps": round(statistics.median(steps)),
        "lowest_score": round(min(scores), 1),
    }
