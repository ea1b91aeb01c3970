"""What population-based training earns on the lander, against the same members left alone; and what it costs.

Learning rate, discount and entropy are drawn from wide ranges, most of which are bad. Members are measured on
fresh episodes at the end; `overhead` is all that is neither learning nor measuring, as a share of the wall time.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.commands import rookery

SEEDS = range(5)
GENERATIONS = 16
ALONE = ("exploit.type=none", "explore.type=none")


def measure() -> list[dict[str, Any]]:
    """One row per seed."""
    return [_compare(seed) for seed in SEEDS]


def _compare(seed: int) -> dict[str, Any]:
    bred, overhead, measuring = _run(seed)
    alone, _, _ = _run(seed, *ALONE)
    return {
        "seed": seed,
        "best_bred": round(max(bred), 1),
        "median_bred": round(statistics.median(bred), 1),
        "best_alone": round(max(alone), 1),
        "median_alone": round(statistics.median(alone), 1),
        "overhead": round(overhead, 4),
        "measuring": round(measuring, 3),
    }


def _run(seed: int, *changes: str) -> tuple[list[float], float, float]:
    """Every member's score at the end, and the shares of overhead and of measuring members."""
    with tempfile.TemporaryDirectory() as runs:
        limits = ["stop.score=null", f"generations={GENERATIONS}", "validate_every=0", "validation_episodes=2"]
        what = ["lander-pbt", f"seed={seed}", *limits, *changes]
        rookery("run", *what, "--name", "bred", "--runs", runs, "--quiet")
        log = (Path(runs) / "bred" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    scores = [member["score"] for member in _all(events, "population")[-1]["members"]]
    generations = _all(events, "generation")
    times = {name: sum(event["times"][name] for event in generations) for name in generations[0]["times"]}
    whole = generations[-1]["seconds"]
    learning = sum(times[name] for name in ("act", "environment", "update"))
    return scores, 1 - (learning + times["measure"]) / whole, times["measure"] / whole


def _all(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]
