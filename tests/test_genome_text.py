"""The text of a genome: an agent that fits into a message, and is the same agent wherever it is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.agent import Agent
from rookery.cli import main
from rookery.envs import Env
from rookery.errors import UserError
from rookery.evolution import GA, BreedingState
from rookery.evolution.generation import Progress
from rookery.experiment import Experiment, load_experiment
from rookery.genome_text import from_text, to_text
from rookery.genomes import Link, ParameterSpace, SeedChain
from rookery.policies import Moments

LINKS = tuple(
    Link(generation, index, float(np.float32(0.002)))
    for generation, index in enumerate(np.random.default_rng(0).integers(1000, size=1000).tolist(), 1)
)


def found(experiment: Experiment, chain: SeedChain, moments: Moments | None = None) -> Progress:
    state = GA().init(experiment.seed, ParameterSpace(()))
    return Progress(70, 5, 5, replace(state, finalists=(chain,)), moments)


def ga(source: str, *overrides: str) -> Experiment:
    return load_experiment(source, ["algorithm=ga", *overrides])


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("policy=lstm", "hidden=[7]", "env.max_steps=50", "env.hide=[1]", "normaliser=null"),
        ("normaliser.clip=3", "seed=12345678901234", "action.sample=true"),
        ("env.id=LunarLander-v3", "options={enable_wind: true}", "activation=relu"),
    ],
)
def test_a_text_has_all_that_the_agent_needs(overrides: tuple[str, ...]) -> None:
    experiment = ga("cartpole", *overrides)
    chain = SeedChain(experiment.seed, 3, LINKS[:20])
    moments = Moments(9, np.arange(4.0), np.arange(4.0) + 0.1)
    read, progress = from_text(to_text(experiment, found(experiment, chain, moments)))
    assert (read.env, read.policy, read.seed) == (experiment.env, experiment.policy, experiment.seed)
    assert isinstance(progress.strategy, BreedingState)
    assert progress.strategy.elite == chain
    assert progress.generation == 70
    assert progress.moments is not None
    np.testing.assert_array_equal(progress.moments.squares, moments.squares)


def test_a_chain_of_a_thousand_links_fits_into_a_message_whatever_the_network() -> None:
    wide = ga("cartpole", "hidden=[2000, 2000]", "normaliser=null")
    text = to_text(wide, found(wide, SeedChain(0, 3, LINKS)))
    assert len(text) < 2200
    assert len(to_text(wide, found(wide, SeedChain(0, 3, LINKS[:400])))) < 1100
    agent = Agent("genome", *from_text(to_text(wide, found(wide, SeedChain(0, 3, LINKS[:2])))))
    assert agent.vector.size > 4_000_000


def test_a_text_survives_line_breaks_and_nothing_else() -> None:
    experiment = ga("cartpole", "normaliser=null")
    text = to_text(experiment, found(experiment, SeedChain(0, 3, LINKS)))
    assert from_text("\n ".join(text[at : at + 70] for at in range(0, len(text), 70)))
    for damaged in (text[:-4], text[:500] + ("A" if text[500] != "A" else "B") + text[501:]):
        with pytest.raises(UserError, match="checksum does not match: a character was lost or changed"):
            from_text(damaged)
    for nonsense in ("", "hello", "rookery1:", "rookery1:!", "rookery1:AAAA"):
        with pytest.raises(UserError) as refused:
            from_text(nonsense)
        assert "\n" not in str(refused.value)


def test_what_cannot_be_carried_is_refused_with_a_line() -> None:
    experiment = ga("cartpole")
    with pytest.raises(UserError, match="normaliser of 65 numbers is too large for a text"):
        to_text(experiment, found(experiment, SeedChain(0, 3), Moments.empty(65)))
    with pytest.raises(UserError, match="descends from another run"):
        to_text(experiment, found(experiment, SeedChain(0, None)))
    es = load_experiment("cartpole")
    progress = Progress(0, 0, 0, es.algorithm.init(0, ParameterSpace.flat(4)), None)
    with pytest.raises(UserError, match=r"algorithm\.type=es is a whole vector"):
        to_text(es, progress)


def test_a_strangers_text_imports_nothing_unless_it_is_trusted() -> None:
    experiment = Experiment(env=Env(id="tests.environments:Maze"), algorithm=GA())
    text = to_text(experiment, found(experiment, SeedChain(0, 3)))
    with pytest.raises(UserError, match=r"this genome plays tests\.environments:Maze.*--trust"):
        from_text(text)
    read, _ = from_text(text, trusted=True)
    assert read.env == experiment.env


def test_a_genome_acts_as_the_run_that_it_is_from(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, capfd.readouterr().err
        return capfd.readouterr().out

    small = ["population=8", "sigma=0.3", "truncation=3", "elites=2", "elite_episodes=2", "hidden=[8]"]
    short = ["stop.generations=3", "stop.score=null", "validation_episodes=2", "env.max_steps=50"]
    runs = ["--runs", str(tmp_path)]
    said("run", "cartpole", "algorithm=ga", *small, *short, "--name", "one", "-q", *runs)
    text = json.loads(said("show", "one", "--json", *runs))["genome"]
    assert f"genome {text}\n" in said("show", "one", *runs)
    by_run = json.loads(said("evaluate", "one", "--episodes", "4", "--json", *runs))
    by_text = json.loads(said("evaluate", "--genome", text, "--episodes", "4", "--json"))
    assert by_text == {**by_run, "run": "genome"}
    film = tmp_path / "a.gif"
    assert "genome, generation 3" in said("render", "--genome", text, "--out", str(film))
    assert film.stat().st_size > 0


@pytest.mark.parametrize("words", [[], ["one", "--genome", "rookery1:x"]])
def test_an_agent_is_named_once(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *words])
    assert ended.value.code == 2
    assert capfd.readouterr().err == "error: name a run, or give --genome TEXT: one of the two\n"
