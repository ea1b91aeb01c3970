"""Learning learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.agent import load_agent
from rookery.experiment import load_experiment
from rookery.run import start

REMEMBERING = [
    "algorithm.type=ppo",
    "policy.hidden=[32]",
    "envs=32",
    "rollout=64",
    "epochs=10",
    "minibatch=512",
    "lr=0.003",
    "normalise_rewards=true",
    "stop.score=300",
]


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        ("cartpole", []),
        ("cartpole-ga", []),
        ("cartpole-ga", ["mode=steady", "window=16"]),
        ("cartpole-ga", ["normaliser.share=0.5"]),
        ("cartpole", ["algorithm.type=nevergrad"]),
        ("cartpole", ["algorithm.type=evosax", "lr=0.05"]),
        ("cartpole", ["algorithm.type=evosax", "strategy=SNES", "sigma=0.5"]),
        ("cartpole-ppo", []),
        ("cartpole-ppo", ["population=3", "critic=shared"]),
        ("cartpole-ppo", ["staleness=2"]),
        ("cartpole-ppo", ["env.reward_scale=1e6", "normalise_rewards=true"]),
        ("cartpole-partial", REMEMBERING),
        ("pendulum-ppo", ["stop.score=-500"]),
    ],
)
def test_a_task_is_solved(preset: str, overrides: list[str], tmp_path: Path) -> None:
    experiment = load_experiment(preset, ["stop.seconds=60", *overrides])
    assert experiment.stop.score is not None
    assert start(experiment, tmp_path, None, preset, "quiet") == 0
    agent = load_agent(tmp_path, f"{preset}-1", "best")
    assert agent.progress.validated is not None
    assert agent.progress.validated.mean >= experiment.stop.score
    report = agent.evaluate(100)
    slack = 0.05 * abs(experiment.stop.score)
    assert report.mean >= experiment.stop.score - slack, "and on episodes that it has never seen"
