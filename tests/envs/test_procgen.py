"""Procgen: games by name, levels by number, and levels that training never shows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env, arena, known_ids
from rookery.envs.procgen import LEVELS, Distribution, Game, Procgen
from rookery.errors import UserError
from rookery.experiment import experiment_yaml, load_experiment
from rookery.genome_text import from_text, to_text
from rookery.pursuits import pursue
from tests.conftest import Command

BIGFISH = "env: {procgen: {game: bigfish, start_level: 0, num_levels: 200, distribution: easy}, max_steps: 20}\n"
NO_QT = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name in ("PyQt5", "envpool.procgen.procgen_envpool"):
            raise ImportError("libQt5Gui.so.5: cannot open shared object file: No such file or directory")

sys.meta_path.insert(0, Nowhere())
"""


@pytest.fixture
def preset(tmp_path: Path) -> str:
    path = tmp_path / "bigfish.yaml"
    path.write_text(BIGFISH + "policy: {type: impala, channels: [4], hidden: [8]}\n")
    return str(path)


def levels(spec: Env, seeds: range, episodes: int = 3) -> list[list[int]]:
    """The levels that environments play, episode by episode."""
    batch = arena(replace(spec, max_steps=1), info="level_seed").batch(seeds, 2)
    ids = np.arange(len(seeds), dtype=np.int32)
    batch.reset()
    shown = [batch.receive().info]
    for _ in range(2 * (episodes - 1)):  # to the end of an episode, and on to the next
        batch.send(np.zeros(len(ids), np.int32), ids)
        shown.append(batch.receive().info)
    batch.close()
    return [np.ravel(part).tolist() for part in shown[::2] if part is not None]


@pytest.mark.parametrize(
    ("word", "game"),
    [
        ("procgen.game=coinrun", Procgen(game="coinrun", num_levels=200)),
        ("game=coinrun", Procgen(game="coinrun", num_levels=200)),
        ("start_level=7", Procgen(game="bigfish", start_level=7, num_levels=200)),
        ("num_levels=0", Procgen(game="bigfish")),
        ("distribution=hard", Procgen(game="bigfish", num_levels=200, distribution="hard")),
    ],
)
def test_a_game_and_its_levels_are_settings(word: str, game: Procgen, preset: str, tmp_path: Path) -> None:
    experiment = load_experiment(preset, [word])
    assert experiment.env == Env(procgen=game, max_steps=20)
    written = tmp_path / "written.yaml"
    written.write_text(experiment_yaml(experiment))
    assert load_experiment(str(written)) == experiment
    assert load_experiment("cartpole", ["id=null", "game=maze"]).env.procgen == Procgen(game="maze")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("game=bigfsh", r"env\.procgen\.game: expected .*Did you mean 'bigfish'\?"),
        ("distribution=memory", "bigfish has no distribution 'memory'; it has easy, hard$"),
        ("id=CartPole-v1", r"id=CartPole-v1 and procgen\.game=bigfish are two environments: env\.id=null takes"),
        ("options.num_levels=3", r"options\.num_levels is for env\.procgen to say"),
        ("backend=gymnasium", "only EnvPool has Procgen's games"),
        ("start_level=2147483640", "goes beyond them"),
        ("unseen.num_levels=-3", r"evaluation\.unseen: .*num_levels"),
        ("score_range=[3, 1]", r"score_range is a low number and a higher one, got \[3\.0, 1\.0\]"),
    ],
)
def test_what_cannot_be_is_one_line(word: str, said: str, preset: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        load_experiment(preset, [word])
    assert "\n" not in str(caught.value)


def test_every_distribution_of_every_game_is_an_id_of_envpool() -> None:
    made, easy_and_hard = set(), 0
    for game in get_args(Game):
        for distribution in get_args(Distribution):
            try:
                part = Procgen(game=game, distribution=distribution)
            except ValueError:
                continue
            made.add(part.id)
            if part.score_range is not None:
                low, high = part.score_range
                assert low < high
                easy_and_hard += 1
    ids = {name for name in known_ids()["envpool"] if name.lower().startswith(get_args(Game))}
    assert made == ids - {"Maze-v0"}  # which is another one's
    assert easy_and_hard == 32


def test_levels_are_those_that_were_asked_for_and_follow_from_the_seed() -> None:
    spec = Env(procgen=Procgen(game="coinrun", start_level=500, num_levels=10))
    first, *others = levels(spec, range(60))
    assert set(first) == set(range(500, 510))
    assert all(set(later) <= set(range(500, 510)) and later != first for later in others)
    assert levels(spec, range(7, 9)) == [part[7:9] for part in (first, *others)]


def test_unseen_levels_lie_behind_those_of_training(preset: str) -> None:
    experiment = load_experiment(preset, ["start_level=2147483000"])
    assert experiment.unseen is not None
    assert experiment.unseen.procgen == Procgen(game="bigfish", start_level=2147483200)
    found = np.concatenate(levels(experiment.unseen, range(60)))
    assert 2147483200 <= found.min() <= found.max() < LEVELS
    assert load_experiment(preset, ["num_levels=0"]).unseen is None
    assert load_experiment(preset, ["evaluation.unseen={}"]).unseen is None
    chosen = load_experiment(preset, ["evaluation.unseen={num_levels: 3, center_agent: false}"]).unseen
    assert chosen == Env(
        procgen=Procgen(game="bigfish", num_levels=3), max_steps=20, options={"center_agent": False}
    )


def test_a_game_comes_through_a_text(preset: str, tmp_path: Path) -> None:
    experiment = load_experiment(preset, ["algorithm.type=ga", "vbn=null"])
    with closing(pursue(experiment)) as pursuit:
        read, _ = from_text(to_text(experiment, pursuit.begin(None)))
    assert read.env == experiment.env


def test_without_qt_the_extra_is_named(command: Command, preset: str, tmp_path: Path) -> None:
    done = command("run", preset, "--runs", tmp_path, script=NO_QT)
    assert (done.returncode, done.stdout) == (2, "")
    what = "BigfishEasy-v0 is drawn with Qt 5, which is missing here: pip install 'rookery[procgen]'"
    assert done.stderr == f"error: {what}\n"
