"""Novelty search: what is new, who is chosen, what is best, and a trap that reward alone does not get out of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.agent import load_agent
from rookery.evolution import Novelty, NoveltyState
from rookery.evolution.shaping import centered_ranks
from rookery.experiment import load_experiment
from rookery.genomes import ParameterSpace
from rookery.genomes.recipes import noise
from rookery.rollout.results import WORST, Result
from rookery.run import start

SPACE = ParameterSpace.flat(4)
TRAP = """
env: {id: "tests.environments:Trap"}
policy: {hidden: [8], normaliser: null}
algorithm: {type: es, population: 40, sigma: 0.3, lr: 0.1}
evaluation: {champion_share: 0, validation_episodes: 1, validate_every: 10}
stop: {generations: 100, score: -1}
"""
NOVELTY = ["algorithm=novelty", "population=40", "sigma=0.3", "lr=0.2", "centres=3", "centre_episodes=1"]


def tell(
    strategy: Novelty, state: NoveltyState, fitness: list[float], behaviours: list[float], **changes: Any
) -> NoveltyState:
    """A generation with these fitnesses and behaviours, the centre's and the best's last."""
    state, asked = strategy.ask(state)
    shown = [None if np.isnan(b) else np.array([b]) for b in behaviours]
    results = [
        Result(id=c.id, fitness=f, behaviour=b, **changes) for c, f, b in zip(asked, fitness, shown, strict=True)
    ]
    return strategy.tell(state, results)


@pytest.mark.parametrize(("variant", "share"), [("ns", 0.0), ("nsr", 0.5), ("nsra", 0.75)])
def test_candidates_are_weighted_by_ranks_of_reward_and_of_distance_from_the_archive(
    variant: Any, share: float
) -> None:
    strategy = Novelty(population=3, mirrored=False, variant=variant, weight=0.75, centres=1, neighbours=1)
    state = strategy.init(0, SPACE)
    before = state.centres[0]
    state = tell(strategy, state, [3, 2, 1, 0, 0], [4, -9, 2, 1, 1])
    weights = share * np.array([0.5, 0, -0.5]) + (1 - share) * centered_ranks(np.array([3.0, 10.0, 1.0]))
    gradient = sum(w * noise(0, 0, index, 4) for index, w in enumerate(weights)) / 3
    assert state.gradient_norm == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-5)
    assert not np.array_equal(before, state.centres[0])
    np.testing.assert_array_equal(state.archive, [[1.0]])


def test_the_archive_is_bounded_and_neighbours_are_the_nearest() -> None:
    strategy = Novelty(population=2, centres=1, archive=3, neighbours=2, variant="ns")
    state = strategy.init(0, SPACE)
    for shown in (9.0, 1.0, 2.0, 4.0):
        state = tell(strategy, state, [0] * 4, [0, 0, shown, 0])
    np.testing.assert_array_equal(state.archive, [[1.0], [2.0], [4.0]])
    assert state.novelty == pytest.approx(1.5), "0 is 1 and 2 away from its nearest two"


def test_each_centre_has_its_turn_and_then_the_newest_is_chosen_most_often() -> None:
    strategy = Novelty(population=2, centres=3, neighbours=1, variant="ns")
    state = strategy.init(0, SPACE)
    chosen = []
    for _ in range(40):
        chosen.append(state.chosen)
        state = tell(strategy, state, [0] * 4, [0, 1, [0.0, 0.0, 50.0][state.chosen], 0])
    assert chosen[:3] == [0, 1, 2]
    assert len({centre.tobytes() for centre in state.centres}) == 3


def test_a_centre_is_the_best_only_if_it_is_better_on_the_same_episodes() -> None:
    strategy = Novelty(population=2, centres=1, centre_episodes=7)
    state = strategy.init(0, SPACE)
    _, asked = strategy.ask(state)
    assert [(c.fresh, c.group) for c in asked[2:]] == [(7, 0), (7, 0)]
    first = state.best
    state = tell(strategy, state, [9, 9, 5, 5], [0, 1, 2, 3])
    assert np.array_equal(state.best, first), "children do not count, and equal is not better"
    centre = state.centres[0]
    state = tell(strategy, state, [0, 0, 6, 5], [0, 1, 2, 3])
    assert np.array_equal(state.best, centre)
    state = tell(strategy, state, [0, 0, WORST, 5], [0, 1, np.nan, 3])
    assert np.array_equal(state.best, centre)
    assert len(state.archive) == 2, "a centre that failed has shown nothing"


def test_the_share_of_reward_adapts() -> None:
    strategy = Novelty(population=2, centres=1, weight=0.5, weight_step=0.2, patience=2)
    state = strategy.init(0, SPACE)
    found = []
    for better in (False, False, True, True, True, True, False):
        state = tell(strategy, state, [0, 0, 1 if better else 0, 0], [0, 1, 2, 3])
        found.append(state.weight)
    assert found == pytest.approx([0.5, 0.3, 0.5, 0.7, 0.9, 1.0, 1.0])


@pytest.mark.parametrize(
    ("overrides", "gets_out"),
    [
        ([], False),
        ([*NOVELTY, "variant=nsr", "behaviour=info:position"], True),
        ([*NOVELTY, "variant=nsra", "weight_step=0.2", "patience=5", "behaviour=info:position"], True),
        ([*NOVELTY, "variant=nsr", "behaviour=tests.evolution.test_novelty:end"], True),
    ],
    ids=["es", "nsr", "nsra", "nsr with a function"],
)
def test_novelty_gets_out_of_a_trap_that_reward_leads_into(
    overrides: list[str], gets_out: bool, tmp_path: Path
) -> None:
    path = tmp_path / "trap.yaml"
    path.write_text(TRAP)
    assert start(load_experiment(str(path), overrides), tmp_path, None, "trap", "quiet") == 0
    mean = load_agent(tmp_path, "trap-1", "best").evaluate(1).mean
    assert mean > -1 if gets_out else mean < -2


def end(observations: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where an episode in the trap ended."""
    assert observations.shape == (51, 3)
    position: np.ndarray[Any, Any] = observations[-1, :2]
    return position
