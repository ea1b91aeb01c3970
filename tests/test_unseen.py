"""A second environment for validations: what an agent is worth where it was never trained."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rookery.envs import Env
from rookery.errors import UserError
from rookery.experiment import load_experiment
from rookery.genomes import SignedSeed
from rookery.observers.events import Validated
from rookery.policies import MLP
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Candidate, Context, Trial
from rookery.run import start
from rookery.store.events import read_events
from tests.conftest import Command

SHORT = ["evaluation.unseen={max_episode_steps: 7}", "evaluation.score_range=[10, 20]"]
SMALL = ["population=8", "validate_every=1", "validation_episodes=9", "stop.generations=2", "checkpoint.every=1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose unseen episodes end after 7 steps, and one that has none, side by side."""
    folder = tmp_path_factory.mktemp("unseen")
    assert start(load_experiment("cartpole", [*SMALL, *SHORT]), folder, "both", "x", "quiet") == 0
    assert start(load_experiment("cartpole", SMALL), folder, "one", "x", "quiet") == 0
    return folder


def test_the_champion_is_validated_on_both(runs: Path) -> None:
    found = [e for e in read_events(runs / "both" / "events.jsonl") if isinstance(e, Validated)]
    plain = [e for e in read_events(runs / "one" / "events.jsonl") if isinstance(e, Validated)]
    assert len(found) == 2
    for entry, other in zip(found, plain, strict=True):
        assert (entry.unseen, entry.unseen_std) == (7.0, 0.0)
        assert (entry.score, entry.std, entry.best) == (other.score, other.std, other.best)
        assert entry.taken == other.taken + 9 * 7
        assert entry.normalised == {"score": (entry.score - 10) / 10, "unseen": -0.3}
        assert (other.unseen, other.normalised) == (None, {})
    board = EventAccumulator(str(runs / "both" / "tensorboard"))
    board.Reload()
    tags = ("score/unseen", "score/normalised", "score/unseen_normalised")
    last = [board.Scalars(tag)[-1].value for tag in tags]
    np.testing.assert_allclose(last, [7.0, (found[-1].score - 10) / 10, -0.3], rtol=1e-6)


def test_the_unseen_score_is_no_part_of_a_run(runs: Path) -> None:
    both, one = (runs / name / "checkpoints" / "000002.safetensors" for name in ("both", "one"))
    assert both.read_bytes() == one.read_bytes()


def test_the_commands_show_it(runs: Path, command: Command) -> None:
    listed = command("list", "--runs", runs).stdout
    assert "unseen" in listed.splitlines()[0]
    assert [run["unseen"] for run in json.loads(command("list", "--runs", runs, "--json").stdout)] == [7.0, None]
    measured = command("evaluate", "both", "--unseen", "--runs", runs, "--episodes", 5)
    assert "7.00 ± 0.00 over 5 unseen episodes, normalised -0.300" in measured.stdout
    report = json.loads(command("evaluate", "both", "--unseen", "--json", "--runs", runs).stdout)
    assert (report["mean"], report["unseen"], report["normalised"]) == (7.0, True, -0.3)
    refused = command("evaluate", "one", "--unseen", "--runs", runs)
    assert refused.returncode == 2
    assert refused.stderr == "error: CartPole-v1 has nothing that training does not show: set evaluation.unseen\n"
    again = command("resume", "both", "stop.generations=2", "--runs", runs, "--quiet").stdout
    assert "normalised" in again
    assert "; unseen 7 ± 0, normalised -0.300; " in again
    command("plot", "both", "one", "--runs", runs, "--out", runs / "plot.svg")
    assert "validated on unseen" in (runs / "plot.svg").read_text()


def test_trials_are_played_where_they_say_in_any_mixture() -> None:
    evaluator = Evaluator(Env(id="CartPole-v1"), MLP(hidden=(4,)), unseen=Env(id="CartPole-v1", max_steps=5))
    context = Context(evaluator.policy.space.initial(np.random.default_rng(0)))
    trials = [Trial(Candidate(n, SignedSeed(1, 0, n, 1, 1.0)), (n, n + 1), unseen=n % 3 == 1) for n in range(7)]
    together = evaluator.evaluate(context, trials)
    for trial, result in zip(trials, together, strict=True):
        (alone,) = evaluator.evaluate(context, [trial])
        assert (result.id, result.lengths) == (trial.candidate.id, alone.lengths)
        assert (max(result.lengths) <= 5) == trial.unseen
    evaluator.close()


def test_an_environment_that_the_policy_does_not_fit_is_refused_at_the_start(tmp_path: Path) -> None:
    experiment = load_experiment("cartpole", ["id=tests.environments:Maze", "evaluation.unseen={length: 5}"])
    with pytest.raises(UserError, match=r"evaluation\.unseen: the observation must stay as it is, .*12.* be .*5"):
        start(experiment, tmp_path, None, "x", "quiet")
    assert not list(tmp_path.iterdir())
