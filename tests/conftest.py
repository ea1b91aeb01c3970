"""What several tests need: the command in a process of its own, and problems without environments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.evolution.strategy import AnyStrategy
from rookery.genomes import Materialiser, ParameterSpace
from rookery.rollout.results import Candidate, Result

ROOT = Path(__file__).parent.parent

DIMENSIONS = 6  # of a sphere whose strategy has no centre

Command = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """Variables with which a child finds this Rookery and the environments of these tests."""
    source = str(Path(rookery.__file__).parent.parent)
    kept = {name: value for name, value in os.environ.items() if name != "ROOKERY_RUNS"}
    return {**kept, "PYTHONPATH": os.pathsep.join([source, str(ROOT)]), "COLUMNS": "200"}


@pytest.fixture(scope="session")
def command() -> Command:
    """`rookery ...` as a user runs it; `script` is Python to be executed before it, in the same process."""

    def run(*arguments: str | Path, script: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        start = ["-c", f"{script}\nfrom rookery.cli import main\nmain()"] if script else ["-m", "rookery"]
        return subprocess.run(
            [sys.executable, *start, *map(str, arguments)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def sphere() -> Callable[..., list[Result]]:
    """The results of candidates whose fitness is minus the squared distance from zero."""

    def evaluate(strategy: AnyStrategy, state: Any, candidates: Sequence[Candidate]) -> list[Result]:
        genomes = [candidate.genome for candidate in candidates]
        centre = strategy.centre(state)
        make = Materialiser(ParameterSpace.flat(centre.size or DIMENSIONS))
        vectors = make(genomes, centre, strategy.lineage(state))
        fitness = -np.square(vectors.astype(np.float64)).sum(axis=1)
        return [
            Result(
                id=candidate.id,
                fitness=value,
                signs=value,
                returns=(value,),
                lengths=(5,),
                limited=1,
                behaviour=vector[:2].astype(np.float64),
            )
            for candidate, value, vector in zip(candidates, fitness.tolist(), vectors, strict=True)
        ]

    return evaluate
