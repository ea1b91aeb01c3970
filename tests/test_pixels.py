"""Playing from pixels: a whole run on Pong, from its preset to the film."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rookery.agent import Agent, load_agent
from rookery.errors import UserError
from rookery.experiment import load_experiment
from rookery.rollout.results import Candidate, Context, Trial
from rookery.rollout.shared import SharedEvaluator
from rookery.run import start
from rookery.store.codec import encode

TINY = ["population=3", "max_steps=40", "vbn.frames=4", "validation_episodes=2", "stop.generations=1"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run `pong` is."""
    folder = tmp_path_factory.mktemp("runs")
    assert start(load_experiment("pong-es-small", TINY), folder, "pong", "pong", "quiet") == 0
    return folder


@pytest.fixture(scope="module")
def agent(played: Path) -> Agent:
    return load_agent(played, "pong", "latest")


def test_its_champion_is_evaluated_and_filmed(agent: Agent) -> None:
    report = agent.evaluate(2)
    assert report.mean_length == 40
    frames = list(agent.frames(1))
    assert {frame.shape for frame in frames} == {(210, 160, 3)}
    assert all(len(np.unique(frame.reshape(-1, 3), axis=0)) > 2 for frame in frames), "a field, paddles and walls"
    assert any((frame != frames[0]).any() for frame in frames)


def test_processes_play_the_same_games(agent: Agent) -> None:
    """Reference images included, which every worker makes for itself."""
    experiment = load_experiment("pong-es-small", [*TINY, "engine=process", "engine.workers=2"])
    state, asked = experiment.algorithm.ask(agent.progress.strategy)
    trials = [Trial(Candidate(candidate.id, candidate.genome), (7,)) for candidate in asked]
    context = Context(experiment.algorithm.centre(state))
    evaluator = SharedEvaluator(experiment.env, experiment.policy, experiment.engine)
    try:
        theirs = evaluator.evaluate(context, trials)
    finally:
        evaluator.close()
    assert [encode(result) for result in theirs] == [
        encode(result) for result in agent.evaluator.evaluate(context, trials)
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["policy.type=deepga", "policy.hidden=[64]"], "it is of type nature, not deepga"),
        (["options.img_width=48"], r"it was shown images of shape \(4, 42, 42\), not \(4, 42, 48\)"),
    ],
)
def test_a_policy_that_would_mean_something_else_is_not_inherited(
    played: Path, tmp_path: Path, changes: Sequence[str], said: str
) -> None:
    inherit = f"policy.init_from={played / 'pong'}"
    with pytest.raises(UserError, match=said):
        start(load_experiment("pong-es-small", [*TINY, inherit, *changes]), tmp_path, None, "pong", "quiet")
