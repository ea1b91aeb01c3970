"""The toy model: members that reach the top only together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rookery.cli import main
from rookery.evolution.generation import Progress
from rookery.evolution.pbt import PBT, PBTState
from rookery.evolution.variants import Variant, variants
from rookery.experiment import load_experiment
from rookery.learning.ppo import apply_hyperparameters
from rookery.learning.toy import Toy, ToyState
from rookery.store.ancestry import families
from rookery.store.directory import RunDirectory
from rookery.store.summary import read_history

GENERATIONS = 10


def found(seed: int, *overrides: str) -> dict[str, Variant]:
    experiment = load_experiment("pbt-toy", [f"seed={seed}", *overrides])
    return {variant.title: variant for variant in variants(experiment, GENERATIONS)}


def test_a_population_reaches_the_top_and_a_grid_does_not() -> None:
    for seed in range(20):
        carried_out = found(seed)
        assert carried_out["PBT"].worth[-1].max() > 1.15
        assert carried_out["grid search"].worth[-1] == pytest.approx([0.39, 0.39], abs=0.01)
    assert list(carried_out) == ["PBT", "explore only", "exploit only", "grid search"]
    assert carried_out["PBT"].points.shape == (201, 2, 2)


def test_the_slope_is_that_of_the_surrogate() -> None:
    toy = Toy(lr=0.01, h0=0.7, h1=0.2)
    experiment = load_experiment("pbt-toy")
    member = toy.found(experiment.env, experiment.policy, 0, None).members[0]
    once = toy.climb(member).parameters
    assert once == pytest.approx([0.9 - 0.01 * 2 * 0.7 * 0.9, 0.9 - 0.01 * 2 * 0.2 * 0.9])
    assert toy.climb(member, 200).parameters == pytest.approx(
        0.9 * np.power([1 - 0.014, 1 - 0.004], 200), rel=1e-4
    )


def test_the_picture_shows_what_the_run_did(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", "pbt-toy", "seed=4", "-q", "--name", "toy", "--runs", str(tmp_path)])
    assert end.value.code == 0
    progress, _ = RunDirectory.open(tmp_path, "toy").load("latest", Progress)
    assert isinstance(progress.strategy, PBTState)
    assert isinstance(progress.strategy.learner, ToyState)
    shown = found(4)["PBT"]
    for member, point in zip(progress.strategy.learner.members, shown.points[-1], strict=True):
        np.testing.assert_array_equal(member.parameters, point.astype(np.float32))
    best = max(score for [score] in progress.strategy.scores.values())
    assert best == pytest.approx(shown.worth[-1].max(), abs=0.005)
    out = tmp_path / "toy.png"
    with pytest.raises(SystemExit) as end:
        main(["plot", "toy", "--kind", "toy", "--out", str(out), "--runs", str(tmp_path)])
    assert end.value.code == 0
    with Image.open(out) as image:
        assert image.width > 1.5 * image.height
        assert np.asarray(image.convert("RGB")).std() > 5


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("seed", range(4))
def test_who_climbs_as_a_members_ancestors_did_arrives_where_it_is(seed: int, mode: str, tmp_path: Path) -> None:
    words = ["learner.population=6", "exploit=tournament", "inherit=all", f"mode={mode}", f"seed={seed}"]
    with pytest.raises(SystemExit) as end:
        main(["run", "pbt-toy", *words, "-q", "--name", "toy", "--runs", str(tmp_path)])
    assert end.value.code == 0
    run = RunDirectory.open(tmp_path, "toy")
    experiment = load_experiment(str(run.experiment_path))
    assert isinstance(experiment.algorithm, PBT)
    toy = experiment.algorithm.learner
    assert isinstance(toy, Toy)
    population = families("toy", read_history(run), mode == "sync")
    progress, _ = run.load("latest", Progress)
    assert isinstance(progress.strategy, PBTState)
    assert isinstance(progress.strategy.learner, ToyState)
    made = {(copy.child, copy.at): copy for copy in population.copies}
    copied = 0
    for member in progress.strategy.learner.members:
        last = made.get((member.id, member.steps))  # at the very end, which is nobody's stretch yet
        line, copies = population.line(*((last.source, last.source_at) if last else (member.id, member.steps)))
        copied += len(copies)
        replica = toy.found(experiment.env, experiment.policy, seed, None).members[0]
        for stretch in line:
            replica = apply_hyperparameters(replica, stretch.hyperparameters)
            replica = toy.climb(replica, stretch.last - stretch.first)
        np.testing.assert_array_equal(replica.parameters, member.parameters)
    assert copied
