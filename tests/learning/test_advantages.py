"""Advantages are those of the definition, episode by episode and step by step."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.learning.advantages import advantages

STEPS, ENVS = 40, 6

Array = NDArray[np.float64]


class Case(NamedTuple):
    rewards: Array
    values: Array
    terminated: NDArray[np.bool_]
    over: NDArray[np.bool_]
    weights: Array


@pytest.fixture(scope="module")
def case() -> Case:
    """Episodes that end in both ways, each followed by the step that only begins the next."""
    rng = np.random.default_rng(3)
    over = np.zeros((STEPS + 1, ENVS), np.bool_)
    terminated = np.zeros((STEPS, ENVS), np.bool_)
    over[0, :2] = True  # the last rollout ended with an episode
    for step in range(STEPS):
        over[step + 1] = (rng.random(ENVS) < 0.15) & ~over[step]
        terminated[step] = over[step + 1] & (rng.random(ENVS) < 0.5)
    over[STEPS, 3], terminated[STEPS - 1, 3] = True, True
    over[STEPS, 4], terminated[STEPS - 1, 4] = True, False
    over[STEPS - 1, 3:5] = False
    rewards = np.where(over[:-1], 0.0, rng.normal(size=(STEPS, ENVS)))
    assert terminated.any()
    assert (over[1:] & ~terminated).any()
    return Case(
        rewards, rng.normal(size=(STEPS + 1, ENVS)), terminated, over, rng.lognormal(sigma=0.7, size=(STEPS, ENVS))
    )


def found(case: Case, gamma: float, trace: float, weights: Array | None) -> Array:
    """What the learner's program makes of a case."""
    program = jax.jit(advantages)
    rewards, values = case.rewards.astype(np.float32), case.values.astype(np.float32)
    ratios = None if weights is None else weights.astype(np.float32)
    return np.asarray(program(rewards, values, case.terminated, case.over, gamma, trace, ratios), np.float64)


def expected(case: Case, gamma: float, trace: float, weights: Array) -> Array:
    """The sum that defines an advantage, for each step on its own."""
    result = np.zeros((STEPS, ENVS))
    for env in range(ENVS):
        for start in range(STEPS):
            factor = 1.0
            for step in range(start, STEPS):
                rho = min(1.0, weights[step, env])
                ahead = 0.0 if case.terminated[step, env] else case.values[step + 1, env]
                surprise = case.rewards[step, env] + gamma * ahead - case.values[step, env]
                result[start, env] += factor * rho * surprise
                if case.over[step + 1, env]:
                    break
                factor *= gamma * trace * rho
    return result


@pytest.mark.parametrize(("gamma", "trace"), [(0.99, 0.95), (0.9, 1.0), (0.9, 0.0), (1.0, 1.0), (0.0, 0.5)])
def test_generalised_advantages_are_those_of_the_definition(case: Case, gamma: float, trace: float) -> None:
    counted = ~case.over[:-1]
    wanted = expected(case, gamma, trace, np.ones((STEPS, ENVS)))
    np.testing.assert_allclose(found(case, gamma, trace, None)[counted], wanted[counted], atol=2e-5)


def test_actions_of_an_older_policy_count_by_how_likely_they_are_now(case: Case) -> None:
    counted = ~case.over[:-1]
    wanted = expected(case, 0.97, 0.9, case.weights)
    np.testing.assert_allclose(found(case, 0.97, 0.9, case.weights)[counted], wanted[counted], atol=2e-5)


def test_weights_of_one_change_nothing(case: Case) -> None:
    ones = np.ones((STEPS, ENVS))
    np.testing.assert_array_equal(found(case, 0.97, 0.9, ones), found(case, 0.97, 0.9, None))


def test_what_was_cut_off_has_a_future_and_what_has_ended_has_none(case: Case) -> None:
    last = found(case, 0.9, 0.95, None)[-1]
    rewards, values = case.rewards[-1], case.values
    assert last[3] == pytest.approx(rewards[3] - values[-2, 3], abs=1e-6)
    assert last[4] == pytest.approx(rewards[4] + 0.9 * values[-1, 4] - values[-2, 4], abs=1e-6)
    assert last[5] == pytest.approx(rewards[5] + 0.9 * values[-1, 5] - values[-2, 5], abs=1e-6)


def test_the_step_that_begins_an_episode_is_seen_by_no_other(case: Case) -> None:
    """Its reward and what would follow from it reach no step that counts."""
    counted = ~case.over[:-1]
    loud = case._replace(rewards=np.where(counted, case.rewards, 1e6))
    quiet = found(case, 0.9, 0.95, None)
    np.testing.assert_array_equal(found(loud, 0.9, 0.95, None)[counted], quiet[counted])
