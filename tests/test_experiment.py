"""Experiments: presets, files, what they extend, and the errors a user meets on the way."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rookery.envs.spec import Env
from rookery.errors import UserError
from rookery.experiment import (
    Checkpoint,
    Evaluation,
    Experiment,
    Inline,
    Stop,
    experiment_yaml,
    load_experiment,
    override_experiment,
    preset_description,
    preset_names,
)
from rookery.policies import LSTM, MLP
from rookery.settings import Range, to_yaml

NO_ID = "id is missing: an EnvPool or Gymnasium id, synthetic:NAME, or my_package.module:Class"
NO_DASK = "engine.type: there is no type 'dask'; the types are inline, process, ray, mpi"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(
        "description: the base\nenv: {id: CartPole-v1}\n"
        "policy: {hidden: [8], activation: relu}\nstop: {score: 100}\n"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "child.yaml").write_text("extends: ../base.yaml\npolicy: {hidden: [16]}\nseed: 3\n")
    return tmp_path


def write(folder: Path, text: str, name: str = "x.yaml") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def refusal(source: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_experiment(source, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_says_what_it_is(name: str) -> None:
    experiment = load_experiment(name)
    assert preset_description(name)
    assert experiment.stop != Stop(), "a preset that never stops"


def test_overrides_on_a_preset() -> None:
    experiment = load_experiment(
        "lander", ["lr=0.5", "hidden=[5]", "seed=9", "stop.steps=1e6", "options.wind=true"]
    )
    assert experiment.env == Env(id="LunarLander-v3", options={"wind": True})
    assert experiment.algorithm.lr == 0.5
    assert experiment.policy.hidden == (5,)
    assert (experiment.seed, experiment.stop.steps) == (9, 1_000_000)
    assert load_experiment("lander", ["hidden=[5]", "policy=lstm"]).policy == LSTM(hidden=(5,))
    assert load_experiment("lander", ["engine=inline", "threads=2"]).engine == Inline(threads=2)


def test_a_file_extends_a_file_beside_it_or_a_preset(folder: Path) -> None:
    child = load_experiment(str(folder / "sub" / "child.yaml"), ["normaliser=null"])
    assert child.policy == MLP(hidden=(16,), activation="relu", normaliser=None)
    assert (child.seed, child.stop.score, child.description) == (3, 100.0, "the base")
    preset = load_experiment(write(folder, "extends: cartpole\npolicy: lstm\n"))
    assert (preset.env.id, preset.policy) == ("CartPole-v1", LSTM())


def test_what_a_file_extends_may_be_missing_or_go_in_a_circle(folder: Path) -> None:
    missing = write(folder, "extends: nowhere.yaml")
    assert refusal(missing) == f"{missing}: extends: there is no file '{folder / 'nowhere.yaml'}'"
    preset = write(folder, "extends: sphre")
    assert refusal(preset) == (
        f"{preset}: extends: there is no preset 'sphre'. Did you mean 'sphere'? `rookery presets` lists them"
    )
    one, two = (
        write(folder, "extends: two.yaml", "one.yaml"),
        write(folder, "extends: ./one.yaml", "two.yaml"),
    )
    assert refusal(one) == f"extends goes in a circle: {one} -> {two} -> {one}"
    assert "extends: expected a preset or a file, got [1]" in refusal(write(folder, "extends: [1]"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "sphre",
            "there is no preset 'sphre'. Did you mean 'sphere'? `rookery presets` lists them",
        ),
        ("zzz", "there is no preset 'zzz'. `rookery presets` lists them"),
        ("zzz.yaml", "there is no file 'zzz.yaml'"),
        ("./zzz", "there is no file 'zzz'"),
    ],
)
def test_sources_that_do_not_exist(source: str, said: str) -> None:
    assert refusal(source) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: 1", f"env.{NO_ID}; null where env.procgen says it"),
        ("env: {max_steps: 3}", f"env: {NO_ID}; or procgen.game, a game of Procgen"),
        ("env: {id: X}\nalgorithm: {sigma: 0}", "algorithm.sigma: expected a number > 0, got 0"),
        ("env: {id: X}\nalgoritm: es", "unknown setting 'algoritm'. Did you mean 'algorithm'?"),
        (
            "env: {id: X}\nevaluation: {seeds: [1]}",
            "evaluation: seeds are used only with seeding=fixed, and seeding is generation",
        ),
        (
            "env: {id: X}\nevaluation: {seeding: fixed, seeds: [1, 2]}",
            "evaluation: seeds are one per episode, and there are 2 for episodes=1",
        ),
        ("env: {id: X}\nstop: {seconds: 0}", "stop.seconds: expected a number > 0 or null, got 0"),
        (
            "env: {id: X}\nstop: {score: {low: 1, high: 2}}",
            "stop.score: cannot be a range; only env, policy, algorithm have genes",
        ),
        ("env: {id: X}\ncheckpoint: {keep: 0}", "checkpoint.keep: expected an integer >= 1, got 0"),
        ("env: {id: X}\nengine: dask", NO_DASK),
    ],
)
def test_errors_in_a_file_name_the_file(folder: Path, text: str, said: str) -> None:
    path = write(folder, text)
    assert refusal(path) == f"{path}: {said}"


def test_errors_name_the_file_that_is_wrong_and_none_for_an_override(folder: Path) -> None:
    base = write(folder, "env: {id: X}\nalgorithm: {sigma: -1}", "wrong.yaml")
    child = write(folder, "extends: wrong.yaml\nseed: 1")
    assert refusal(child) == f"{base}: algorithm.sigma: expected a number > 0, got -1"
    assert refusal(child, "sigma=-2") == "algorithm.sigma: expected a number > 0, got -2"
    assert refusal(child, "engine=dask") == NO_DASK
    assert refusal("cartpole", "seeds=[1]").startswith("evaluation: seeds are used only")
    assert refusal("cartpole", "seconds=5") == ("'seconds' is ambiguous: write stop.seconds or checkpoint.seconds")
    assert refusal("cartpole", "genes.lr=1").startswith("genes: genes are written as ranges in place of a value")


def test_ranges_become_genes_and_go_away_when_a_value_is_given(folder: Path) -> None:
    path = write(folder, "extends: lander\nalgorithm: {lr: {low: 1e-4, high: 1e-2, scale: log}}")
    experiment = load_experiment(path, ["population={low: 8, high: 10}"])
    assert experiment.genes == {
        "algorithm.lr": Range(low=1e-4, high=1e-2, scale="log"),
        "algorithm.population": Range(low=8, high=10, integer=True),
    }
    assert experiment.algorithm.lr == pytest.approx(1e-3)
    assert experiment.algorithm.population == 9
    assert list(load_experiment(path, ["lr=1"]).genes) == []


@pytest.mark.parametrize(
    "overrides", [[], ["lr={low: 1e-4, high: 1e-2, scale: log}", "policy=elman", "options.x=[1]"]]
)
def test_an_experiment_reads_back_from_all_that_it_is_written_to(folder: Path, overrides: list[str]) -> None:
    experiment = load_experiment("lander", overrides)
    for text in (experiment_yaml(experiment), experiment_yaml(experiment, help=True), to_yaml(experiment)):
        assert load_experiment(write(folder, text)) == experiment
    assert msgspec.json.decode(msgspec.json.encode(experiment), type=Experiment) == experiment
    assert "genes" not in experiment_yaml(experiment)


def test_a_run_that_has_begun_changes_only_what_is_allowed() -> None:
    allowed = ("stop", "checkpoint", "engine")
    begun = load_experiment("lander", ["lr={low: 1, high: 3}", "population=10"])
    changed = override_experiment(begun, ["generations=5", "keep=2", "threads=1"], allowed)
    assert changed == msgspec.structs.replace(
        begun,
        stop=msgspec.structs.replace(begun.stop, generations=5),
        checkpoint=Checkpoint(keep=2),
        engine=Inline(threads=1),
    )
    with pytest.raises(UserError) as caught:
        override_experiment(begun, ["stop.steps=5", "lr=1"], allowed)
    assert str(caught.value) == (
        "'algorithm.lr' cannot be changed in a run that has begun; only these can: stop, checkpoint, engine"
    )
    with pytest.raises(UserError, match=r"^stop\.steps: expected an integer > 0 or null, got 0$"):
        override_experiment(begun, ["stop.steps=0"], allowed)


def test_fixed_seeds_are_one_per_episode() -> None:
    experiment = load_experiment("cartpole", ["seeding=fixed", "episodes=2", "seeds=[4,5]"])
    assert experiment.evaluation == Evaluation(seeding="fixed", episodes=2, seeds=(4, 5))


def test_reading_an_experiment_starts_nothing_heavy() -> None:
    code = (
        "import sys; from rookery.experiment import load_experiment; load_experiment('lander');"
        "print([m for m in ('envpool', 'gymnasium', 'jax', 'matplotlib', 'torch') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    )
