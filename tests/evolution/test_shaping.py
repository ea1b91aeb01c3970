"""Fitness shaping: from results to weights."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.evolution.shaping import centered_ranks, shape
from rookery.rollout.results import WORST, Result


def results(*fitness: float, signs: tuple[float, ...] = ()) -> list[Result]:
    return [
        Result(id=number, fitness=value, signs=signs[number] if signs else 0.0)
        for number, value in enumerate(fitness)
    ]


@pytest.mark.parametrize(
    ("fitness", "weights"),
    [
        ([10.0, -5.0, 3.0, 1000.0, 4.0], [0.25, -0.5, -0.25, 0.5, 0.0]),
        ([2.0, 1.0], [0.5, -0.5]),
        ([1.0, 1.0, 5.0], [-0.25, -0.25, 0.5]),
        ([5.0, 7.0, 7.0, 7.0, 9.0], [-0.5, 0.0, 0.0, 0.0, 0.5]),
        ([3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0]),
        ([4.0], [0.0]),
        ([1e-300, -1e300, 1e300], [0.0, -0.5, 0.5]),
    ],
    ids=str,
)
def test_ranks_are_centered_and_equals_share_theirs(fitness: list[float], weights: list[float]) -> None:
    shaped = shape(results(*fitness), "centered_rank")
    assert shaped.dtype == np.float32
    np.testing.assert_array_equal(shaped, np.array(weights, np.float32))
    assert shaped.sum() == pytest.approx(0, abs=1e-6)


def test_ranks_of_nothing_are_nothing() -> None:
    assert centered_ranks(np.zeros(0)).shape == (0,)


def test_a_failed_candidate_counts_as_the_worst_of_the_others() -> None:
    np.testing.assert_array_equal(shape(results(5.0, WORST, 3.0), "centered_rank"), [0.5, -0.25, -0.25])
    failed = results(5.0, WORST, 3.0, signs=(4.0, WORST, -2.0))
    np.testing.assert_array_equal(shape(failed, "sign"), [4.0, -2.0, -2.0])
    np.testing.assert_array_equal(shape(failed, "centered_sign_rank"), [0.5, -0.25, -0.25])


@pytest.mark.parametrize("shaping", ["centered_rank", "sign", "centered_sign_rank"])
def test_when_all_failed_nobody_pulls(shaping: str) -> None:
    everyone = results(WORST, WORST, signs=(WORST, WORST))
    np.testing.assert_array_equal(shape(everyone, shaping), [0.0, 0.0])  # type: ignore[arg-type]


def test_signs_are_taken_as_they_are_or_ranked() -> None:
    told = results(0.0, 0.0, 0.0, signs=(-3.0, 10.0, 2.5))
    np.testing.assert_array_equal(shape(told, "sign"), np.array([-3.0, 10.0, 2.5], np.float32))
    np.testing.assert_array_equal(shape(told, "centered_sign_rank"), [-0.5, 0.5, 0.0])
