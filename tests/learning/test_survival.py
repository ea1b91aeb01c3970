"""A learner that is given nonsense says so in a line, and one that is given extremes goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.agent import load_agent
from rookery.cli import main
from rookery.learning.ppo import PPOState
from tests.conftest import Command

FEW = [
    "run",
    "cartpole-ppo",
    "epochs=2",
    "stop.score=null",
    "stop.generations=3",
    "validation_episodes=3",
    "--name=one",
    "-q",
]
FAULTY = [*FEW, "env.id=tests.environments:Faulty", "options.every=1", "options.at=5"]
SMALL = ["envs=2", "rollout=4", "minibatch=8"]


def said(capsys: pytest.CaptureFixture[str], runs: Path, *words: str, code: int = 0) -> str:
    """What a command says on the error stream."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main([*words, "--runs", str(runs)])
    _, err = capsys.readouterr()
    assert end.value.code == code, err
    return err


def learned(runs: Path) -> PPOState:
    """The state of the newest checkpoint."""
    state = load_agent(runs, "one", "latest").progress.strategy
    assert isinstance(state, PPOState)
    return state


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("reward", "error: member 0: a reward is not a number; observations -"),
        ("observation", "error: member 0: the update is not a number; observations -"),
        ("infinite", "error: member 0: the update is not a number; observations -"),
        ("raise", "error: member 0, environment 0 (seed "),
    ],
)
def test_what_is_not_a_number_stops_a_run_that_can_be_resumed(
    fault: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first four steps are sound, the fifth is not."""
    err = said(capsys, tmp_path, *FAULTY, *SMALL, f"options.fault={fault}", code=1)
    assert err.startswith(what)
    assert err.count("\n") == 1
    if fault != "raise":
        for part in ("(", "of ", "rewards ", "parameters ", "hyperparameters: lr 0.001, gamma 0.99"):
            assert part in err
    state = learned(tmp_path)
    assert state.members[0].age == 1, "what was before it is on disk"
    assert np.isfinite(state.members[0].parameters).all()
    again = said(capsys, tmp_path, "resume", "one", "-q", code=1)
    assert again == err, "and goes on from there, to the same end"


@pytest.mark.parametrize("overrides", [[], ["normalise_rewards=true"]], ids=["as they are", "normalised"])
@pytest.mark.parametrize("scale", ["1e6", "1e-6"])
def test_rewards_of_any_size_leave_numbers(
    overrides: list[str], scale: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"env.reward_scale={scale}", "stop.generations=30", "envs=8", "minibatch=32"]
    assert said(capsys, tmp_path, *FEW, *words, *overrides) == ""
    state = learned(tmp_path)
    assert state.members[0].age == 30
    assert np.isfinite(state.members[0].parameters).all()
    assert state.best.score is not None
    assert 8 < state.best.score < 200, "told in the environment's own rewards"


def test_one_environment_and_one_step_at_a_time_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = ["envs=1", "rollout=1", "minibatch=1", "stop.generations=40", "normalise_rewards=true"]
    assert said(capsys, tmp_path, *FEW, *alone) == ""
    state = learned(tmp_path)
    (member,) = state.members
    assert member.steps == 40 - member.episodes, "of 40 steps some only began an episode"
    assert member.count == 80
    assert np.isfinite(member.parameters).all()


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (["minibatch=100"], "minibatch=100 does not divide envs * rollout = 64 * 16 = 1024; minibatch=128 does"),
        (["minibatch=64", "accumulate=5"], "accumulate=5 does not divide minibatch=64; accumulate=4 does"),
        (["policy=lstm", "minibatch=24", "envs=6", "rollout=16"], "rollout=16; minibatch=32 accumulate=1 is"),
        (["env.id=tests.environments:Snow"], "policy.type=nature takes images"),
        (["policy=vector"], "policy.type=vector looks at nothing"),
        (["lr={low: 0.001, high: 0.01}"], "give it one value"),
        (["lr=0"], "algorithm.lr"),
        (["entropie=0.1"], "Did you mean 'entropy'"),
    ],
)
def test_what_cannot_work_is_one_line(
    overrides: list[str], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    err = said(capsys, tmp_path, *FEW, *overrides, code=2)
    assert err.startswith("error: ")
    assert what in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "no run was begun"


def test_without_jax_the_extra_is_named(tmp_path: Path, command: Command) -> None:
    missing = "import sys; sys.modules['jax'] = None"
    done = command(*FEW, "--runs", tmp_path, script=missing)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: algorithm.type=ppo needs JAX: pip install 'rookery[learn]'\n"
    evolving = command("run", "cartpole", "stop.generations=1", "-q", "--runs", tmp_path, script=missing)
    assert evolving.returncode == 0, "nothing else needs it"


def test_a_policy_that_evolved_goes_on_by_gradients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    es = ["run", "cartpole", "hidden=[8]", "stop.generations=20", "stop.score=null", "--name=es", "-q"]
    assert said(capsys, tmp_path, *es) == ""
    evolved = load_agent(tmp_path, "es", "best")
    from_it = ["hidden=[8]", "policy.normaliser.share=1", "init_from=es", "lr=1e-9", "stop.generations=1"]
    assert said(capsys, tmp_path, *FEW, *from_it) == ""
    (member,) = learned(tmp_path).members
    np.testing.assert_allclose(member.parameters[: evolved.vector.size], evolved.vector, atol=1e-6)
    assert member.moments is not None
    assert evolved.progress.moments is not None
    assert member.moments.count > evolved.progress.moments.count
