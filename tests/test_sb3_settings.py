"""What can be said of Stable-Baselines3's learners where that is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.errors import UserError
from rookery.evolution.pbt import PBT
from rookery.experiment import experiment_yaml, load_experiment
from rookery.learning.sb3 import SB3
from tests.conftest import Command

PRESET = "cartpole-pbt-sb3"


def learner(*overrides: str) -> SB3:
    algorithm = load_experiment(PRESET, overrides).algorithm
    assert isinstance(algorithm, PBT)
    assert isinstance(algorithm.learner, SB3)
    return algorithm.learner


def test_arguments_are_those_of_the_constructor() -> None:
    arguments = learner("learner.settings={n_steps: 8, ent_coef: auto}", "ent_coef=null", "n_epochs=3").arguments
    assert arguments["n_steps"] == 8
    assert arguments["ent_coef"] == "auto"
    assert arguments["n_epochs"] == 3
    assert "tau" not in arguments, "null is the algorithm's own default"


def test_ranges_are_genes(tmp_path: Path) -> None:
    experiment = load_experiment(PRESET, ["n_epochs={low: 2, high: 8}"])
    assert isinstance(experiment.algorithm, PBT)
    genes = experiment.algorithm.genes(experiment.genes)
    assert set(genes) == {"learning_rate", "ent_coef", "n_epochs"}
    assert genes["n_epochs"].integer
    file = tmp_path / "same.yaml"
    file.write_text(experiment_yaml(experiment))
    assert load_experiment(str(file)) == experiment


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learner.settings={gamma: 0.9}", "settings.gamma: write gamma=0.9 beside settings"),
        (
            "learner.settings={gamma: {low: 0.9, high: 1}}",
            "settings.gamma cannot be a range; gamma beside settings",
        ),
        ("learner.settings={n_steps: {low: 8, high: 16}}", "settings.n_steps cannot be a range"),
        ("learner.settings={seed: 3}", "settings.seed is not for here"),
        ("learner.settings={tensorboard_log: x}", "settings.tensorboard_log is not for here"),
        ("n_epochs=0", "algorithm.learner.n_epochs: expected"),
    ],
)
def test_what_cannot_be_is_refused(override: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        load_experiment(PRESET, [override])
    assert message in str(refused.value)


def test_what_no_member_could_change_is_no_gene() -> None:
    experiment = load_experiment(PRESET, ["learner.envs={low: 2, high: 8}"])
    assert isinstance(experiment.algorithm, PBT)
    with pytest.raises(UserError, match=r"algorithm\.learner\.envs cannot be a range"):
        experiment.algorithm.genes(experiment.genes)


def test_without_the_extra_it_is_one_line(tmp_path: Path, command: Command) -> None:
    script = "import sys; sys.modules['stable_baselines3'] = None"
    done = command("run", PRESET, "--runs", tmp_path, script=script)
    assert done.returncode == 2
    assert done.stderr == (
        "error: algorithm.learner.type=sb3 needs Stable-Baselines3 and torch: pip install 'rookery[sb3]'\n"
    )
    assert not list(tmp_path.iterdir())
