"""Training by gradients beside a peer's: steps per second of both, which take turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.commands import looped, peer

THREADS = (1, 2)  # of torch: the better is the peer's


class Setting(NamedTuple):
    """What both sides have in common; `rollout` is the steps of all environments between two updates."""

    rollout: int
    epochs: int
    minibatch: int


def beside(name: str, options: dict[str, object], ours: Sequence[str], rounds: int) -> dict[str, Any]:
    """Medians of both rates, the peer's with its better number of threads, and the median of their ratios."""
    rates: list[dict[int, float]] = []  # by the peer's threads; ours is at 0
    for _ in range(rounds):
        rates.append({0: looped(*ours).rate})
        rates[-1] |= {n: peer(name, threads=n, **options)["steps_per_second"] for n in THREADS}
        shown = ", ".join(f"{rates[-1][n]:.0f} with {n}" for n in THREADS)
        print(f"  {' '.join(ours)}: {rates[-1][0]:.0f} steps/s; {name} {shown}", flush=True)
    best = max(THREADS, key=lambda n: statistics.median(one[n] for one in rates))
    return {
        "rookery": round(statistics.median(one[0] for one in rates)),
        name: round(statistics.median(one[best] for one in rates)),
        "torch_threads": best,
        "ratio": round(statistics.median(one[0] / one[best] for one in rates), 2),
    }


def changes(setting: Setting, envs: int, steps: int) -> list[str]:
    """A setting as Rookery's command line has it, with so many environments and a limit of steps."""
    assert setting.rollout % envs == 0, f"{setting.rollout} steps cannot be shared by {envs} environments"
    learner = [f"epochs={setting.epochs}", f"minibatch={setting.minibatch}"]
    return [*learner, f"envs={envs}", f"rollout={setting.rollout // envs}", f"stop.steps={steps}"]
