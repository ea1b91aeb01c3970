"""Learning learns."""

from __future__ import annotations

from pathlib import Path

from rookery.agent import load_agent
from rookery.experiment import load_experiment
from rookery.run import start


def test_evolution_strategies_solve_cartpole(tmp_path: Path) -> None:
    experiment = load_experiment("cartpole", ["stop.seconds=60"])
    assert experiment.stop.score is not None
    assert start(experiment, tmp_path, None, "cartpole", "quiet") == 0
    agent = load_agent(tmp_path, "cartpole-1", "best")
    assert agent.progress.validated is not None
    assert agent.progress.validated.mean >= experiment.stop.score
    report = agent.evaluate(100)
    assert report.mean >= 0.95 * experiment.stop.score, "and on episodes that it has never seen"
