"""The command as a user runs it: what it prints, and one clear line for everything that was typed wrong."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rookery.cli import main
from tests.conftest import Command

SMALL = ["population=8", "hidden=[16, 16]", "stop.generations=3", "validation_episodes=4", "checkpoint.every=1"]
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, command: Command) -> tuple[Path, str, str]:
    """A small finished run, called `first`: the directory that it is in, what it printed, and its errors."""
    folder = tmp_path_factory.mktemp("cli") / "runs"
    done = command("run", "cartpole", *SMALL, "--name", "first", "--runs", folder, "--quiet")
    assert done.returncode == 0
    return folder, done.stdout, done.stderr


@pytest.fixture
def runs(first: tuple[Path, str, str]) -> Path:
    return first[0]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """A command in this process: exit code, output, errors."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(list(map(str, arguments)))
        assert isinstance(end.value.code, int)
        return end.value.code, *capsys.readouterr()

    return run


def test_a_quiet_run_prints_its_final_line_and_nothing_else(first: tuple[Path, str, str]) -> None:
    folder, out, err = first
    assert out.startswith("finished: 3 generations reached; score")
    assert f"rookery evaluate first --runs {folder}" in out
    assert out.count("\n") == 1
    assert err == ""


def test_a_run_leaves_what_the_other_commands_read(runs: Path, typed: Typed) -> None:
    found = {path.name for path in (runs / "first").iterdir()}
    assert found >= {"experiment.yaml", "events.jsonl", "checkpoints", "best.safetensors", "tensorboard"}
    checkpoints = sorted(path.name for path in (runs / "first" / "checkpoints").iterdir())
    assert checkpoints == [f"00000{generation}.safetensors" for generation in range(4)]

    code, out, _ = typed("list", "--runs", runs, "--json")
    (listed,) = json.loads(out)
    assert code == 0
    assert listed["name"] == "first"
    assert (listed["state"], listed["generation"], listed["env"]) == ("complete", 3, "CartPole-v1")
    assert listed["checkpoints"] == [0, 1, 2, 3]
    code, out, _ = typed("show", "first", "--runs", runs, "--json")
    assert (code, json.loads(out)) == (0, {**listed, "genome": None})
    for words in (("list",), ("show", "first")):
        code, out, err = typed(*words, "--runs", runs)
        assert (code, err) == (0, "")
        assert "first" in out
        assert "CartPole-v1" in out
    assert "population: 8" in out


def test_an_agent_is_measured_on_episodes_that_another_number_changes(runs: Path, typed: Typed) -> None:
    _, out, err = typed("evaluate", "first", "--episodes", 10, "--runs", runs, "--json")
    report = json.loads(out)
    assert err == ""
    assert report["episodes"] == len(report["returns"]) == len(set(report["seeds"])) == 10
    assert report["mean"] == pytest.approx(np.mean(report["returns"]))
    assert report["std"] == pytest.approx(np.std(report["returns"]))
    assert report["min"] <= report["median"] <= report["max"]
    assert typed("evaluate", "first", "--episodes", 10, "--runs", runs, "--json")[1] == out
    other = json.loads(typed("evaluate", "first", "--episodes", 10, "--seed", 1, "--runs", runs, "--json")[1])
    assert not set(other["seeds"]) & set(report["seeds"])
    by_path = json.loads(typed("evaluate", runs / "first", "--checkpoint", 0, "--episodes", 2, "--json")[1])
    assert by_path["checkpoint"] == 0
    code, out, _ = typed("evaluate", "first", "--episodes", 5, "--runs", runs)
    assert code == 0
    assert "first, generation" in out


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_an_agent_is_filmed(runs: Path, typed: Typed, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"a.{suffix}"
    code, said, err = typed("render", "first", "--out", out, "--checkpoint", "latest", "--runs", runs)
    assert (code, err) == (0, "")
    assert said == f"{out}: first, generation 3\n"
    assert out.stat().st_size > 1000
    if suffix == "gif":
        with Image.open(out) as film:
            assert film.n_frames > 3  # type: ignore[attr-defined]


def test_runs_are_drawn(runs: Path, typed: Typed, tmp_path: Path) -> None:
    code, said, _ = typed("plot", "first", "--out", tmp_path / "a.png", "--runs", runs)
    assert (code, said) == (0, f"{tmp_path / 'a.png'}\n")
    with Image.open(tmp_path / "a.png") as picture:
        assert min(picture.size) > 300


def test_presets_and_environments_are_listed(typed: Typed) -> None:
    code, out, _ = typed("presets")
    assert code == 0
    assert "cartpole" in out
    assert "lander" in json.loads(typed("presets", "--json")[1])
    assert json.loads(typed("presets", "cartpole", "--json")[1])["env"]["id"] == "CartPole-v1"
    code, out, _ = typed("envs", "lunarl")
    assert code == 0
    assert "LunarLander-v3  (envpool)" in out
    found = json.loads(typed("envs", "CartPole", "--json")[1])
    assert "CartPole-v1" in found["envpool"]
    assert "CartPole-v1" not in found["gymnasium"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run cartpol", "no preset 'cartpol'. Did you mean 'cartpole'"),
        ("run nowhere.yaml", "nowhere.yaml"),
        ("run cartpole populaton=4", "unknown setting 'populaton'. Did you mean 'population'"),
        ("run cartpole seconds=4", "'seconds' is ambiguous: write stop.seconds or checkpoint.seconds"),
        ("run cartpole population", "'population' is not an override; write key=value"),
        ("run cartpole population=many", "algorithm.population: expected"),
        ("run cartpole population=1.5", "algorithm.population: expected"),
        ("run cartpole population=-4", "algorithm.population: expected"),
        ("run cartpole population=0", "algorithm.population: expected"),
        ("run cartpole sigma=0", "algorithm.sigma: expected"),
        ("run cartpole sigma=.nan", "algorithm.sigma: expected"),
        ("run cartpole lr=-1", "algorithm.lr: expected"),
        ("run cartpole hidden=[0]", "policy.hidden: expected"),
        ("run cartpole algorithm.type=es2", "algorithm.type: there is no type 'es2'; the types are es"),
        ("run cartpole 'lr={low: 0.2, high: 0.1}'", "algorithm.lr: low must be less than high"),
        ("run cartpole 'lr={low: 0.1, high: 0.2}'", "algorithm.lr is a range, and algorithm.type=es varies no"),
        ("run cartpole env.id=CartPoll-v1", "unknown environment 'CartPoll-v1'. Did you mean"),
        ("run cartpole env.id=tests.environments:Mase", "has no 'Mase'. Did you mean 'Maze'"),
        ("run cartpole env.id=Pong-v5", "policy.type=mlp takes a vector, but this environment shows images"),
        ("run cartpole env.id=CheetahRun-v1", "env.flatten=true"),
        ("run cartpole options.colour=red", "EnvPool cannot make CartPole-v1"),
        ("run cartpole policy.action.noise=0.1", "policy.action.noise is for continuous actions"),
        ("run pendulum_ env.id=Pendulum-v1", "no preset 'pendulum_'"),
        ("run cartpole env.id=Pendulum-v1 policy.action.bins=-3", "policy.action.bins: expected"),
        ("run cartpole seed=99999999999999999999", "seed: expected"),
        ("run cartpole policy.init_from=nobody", "no run 'nobody'"),
        ("run cartpole --name first", "the run 'first' exists already"),
        ("run cartpole --name a/b", "'a/b' cannot name a run"),
        ("run cartpole --nmae x", "No such option"),
        ("run", "Missing argument"),
        ("rnu cartpole", "no command 'rnu'. Did you mean 'run'"),
        ("resume frist", "no run 'frist'"),
        ("resume first sigma=0.2", "'algorithm.sigma' cannot be changed in a run that has begun"),
        ("resume first stop.generations=-1", "stop.generations: expected"),
        ("show nobody", "no run 'nobody'"),
        ("evaluate nobody", "no run 'nobody'"),
        ("evaluate first --episodes 0", "episodes"),
        ("evaluate first --episodes many", "--episodes"),
        ("evaluate first --checkpoint 77", "no checkpoint '77'; it has latest, best and 0, 1, 2, 3"),
        ("evaluate first --checkpoint ²", "no checkpoint '²'"),
        ("render nobody", "no run 'nobody'"),
        ("render first --out a.avi", ".mp4 or .gif"),
        ("render first --out nowhere/a.mp4", "the folder nowhere does not exist"),
        ("plot nobody", "no run 'nobody'"),
        ("plot first --out a.jpg", "a.jpg"),
        ("plot first --x days", "days"),
        ("plot first --kind lineage", "no population to see in run 'first': its algorithm is not pbt"),
        ("plot first --kind schedules --x seconds", "--kind schedules draws one run, over its members' steps"),
        ("plot first first --kind population", "name one"),
        ("plot first --kind tree", "'tree'"),
        ("presets nothing", "no preset 'nothing'"),
        ("envs NoSuchThing", "no environment id contains 'NoSuchThing'"),
    ],
)
def test_what_was_typed_wrong_is_one_line_and_exit_code_2(line: str, said: str, runs: Path, typed: Typed) -> None:
    words = shlex.split(line)
    takes_runs = words[0] not in ("presets", "envs", "rnu")
    before = sorted(runs.rglob("*"))
    code, out, err = typed(*words, *(["--runs", runs] if takes_runs else []))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err
    assert sorted(runs.rglob("*")) == before, "a refused command leaves nothing behind"


def test_the_command_alone_shows_what_there_is(typed: Typed) -> None:
    _, out, err = typed()
    assert "error" not in err
    assert all(name in out + err for name in ("run", "resume", "evaluate", "render"))
    assert (out + err).count("\n") > 5, "help is for reading, and stands on lines of its own"


@pytest.mark.parametrize("place", ["file", "file/runs"])
@pytest.mark.parametrize("name", [(), ("--name", "x")], ids=["numbered", "named"])
def test_runs_that_cannot_be_written_are_refused(
    place: str, name: tuple[str, ...], tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = typed("run", "cartpole", *name, "--runs", tmp_path / place)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"error: cannot write runs to '{tmp_path / place}'")


def test_a_process_of_its_own_fails_without_a_traceback_too(command: Command) -> None:
    failed = command("run", "cartpol")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("error: there is no preset 'cartpol'. Did you mean 'cartpole'")
    assert failed.stderr.count("\n") == 1


def test_runs_are_named_after_their_preset_or_file_and_the_environment_variable_says_where(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOKERY_RUNS", str(tmp_path / "elsewhere"))
    (tmp_path / "mine.yaml").write_text("extends: cartpole\nalgorithm: {population: 4}\nstop: {generations: 1}\n")
    for source in (tmp_path / "mine.yaml", tmp_path / "mine.yaml", "cartpole"):
        code, out, _ = typed("run", source, *SMALL, "stop.generations=1", "-q")
        assert code == 0
        assert "--runs" not in out
    assert [run["name"] for run in json.loads(typed("list", "--json")[1])] == ["mine-1", "mine-2", "cartpole-1"]


def test_a_larger_network_starts_from_a_run_and_a_smaller_one_is_refused(
    runs: Path, tmp_path: Path, typed: Typed
) -> None:
    start = [f"policy.init_from={runs / 'first'}", *SMALL, "stop.generations=1", "--runs", tmp_path, "-q"]
    code, _, err = typed("run", "cartpole", *start, "hidden=[40, 40]")
    assert (code, err) == (0, "")
    episodes = ["--episodes", 20, "--json"]
    grown = json.loads(typed("evaluate", "cartpole-1", "--checkpoint", 0, "--runs", tmp_path, *episodes)[1])
    source = json.loads(typed("evaluate", "first", "--runs", runs, *episodes)[1])
    assert grown["returns"] == source["returns"], "the grown network plays as the one it came from"
    code, _, err = typed("run", "cartpole", *start, "hidden=[2, 2]")
    assert (code, err.count("\n")) == (2, 1)
    assert "its w0 has shape" in err
