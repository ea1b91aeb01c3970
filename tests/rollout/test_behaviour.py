"""Behaviour: what an episode comes to is picked up from where the experiment says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rookery.envs import Env
from rookery.errors import RookeryError, UserError
from rookery.genomes import SeedChain
from rookery.policies import MLP
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Candidate, Context, Result, Trial

TRAP = Env(id="tests.environments:Trap", options={"steps": 5})
NOWHERE = Context(np.zeros(0, np.float32))


def results(env: Env, behaviour: str | None, *seeds: int, candidates: int = 2) -> list[Result]:
    evaluator = Evaluator(env, MLP(hidden=(4,), output_scale=1.0), behaviour=behaviour)
    try:
        trials = [Trial(Candidate(n, SeedChain(0, n)), seeds) for n in range(candidates)]
        return evaluator.evaluate(NOWHERE, trials)
    finally:
        evaluator.close()


def shown(env: Env, behaviour: str, *seeds: int) -> list[Any]:
    found = [result.behaviour for result in results(env, behaviour, *seeds)]
    assert all(b is not None for b in found)
    return found


def mean_position(observations: np.ndarray[Any, Any]) -> Any:
    return observations[:, :2].mean(axis=0)


def whole(observations: np.ndarray[Any, Any]) -> Any:
    return observations


def broken(observations: np.ndarray[Any, Any]) -> Any:
    raise ValueError(f"no use\nfor {len(observations)}")


def test_nothing_is_picked_up_unless_it_is_asked_for() -> None:
    assert [result.behaviour for result in results(TRAP, None, 1)] == [None, None]


def test_the_last_observation_the_info_and_a_function_tell_the_same_story() -> None:
    last = shown(TRAP, "last", 1)
    info = shown(TRAP, "info:position", 1)
    every = [b.reshape(6, 3) for b in shown(TRAP, "tests.rollout.test_behaviour:whole", 1)]
    mean = shown(TRAP, "tests.rollout.test_behaviour:mean_position", 1)
    for end, position, trajectory, average in zip(last, info, every, mean, strict=True):
        assert end[2] == 1.0
        np.testing.assert_array_equal(end, trajectory[-1])
        np.testing.assert_allclose(position, end[:2], rtol=1e-6)
        np.testing.assert_allclose(average, trajectory[:, :2].mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose(trajectory[:, 2], 2 * np.arange(6) / 5 - 1, rtol=1e-6)
    assert not np.array_equal(*last)


def test_episodes_of_different_lengths_are_averaged_and_do_not_mix() -> None:
    pole = Env(id="CartPole-v1")
    one, other, both = (shown(pole, "last", *seeds) for seeds in ((3,), (8,), (3, 8)))
    for a, b, mean in zip(one, other, both, strict=True):
        np.testing.assert_allclose(mean, (a + b) / 2)
    trajectories = shown(pole, "tests.rollout.test_behaviour:whole", 3)
    lengths = [result.lengths[0] for result in results(pole, None, 3)]
    assert [t.size for t in trajectories] == [4 * (length + 1) for length in lengths]
    np.testing.assert_array_equal(trajectories[0][-4:], one[0])


def test_a_field_of_the_info_also_comes_through_repeated_actions_and_from_envpool() -> None:
    repeated = Env(id="tests.environments:Trap", options={"steps": 6}, action_repeat=3)
    for result, position in zip(shown(repeated, "last", 1), shown(repeated, "info:position", 1), strict=True):
        np.testing.assert_allclose(position, result[:2], rtol=1e-6)
    (x,) = results(Env(id="HalfCheetah-v4", max_steps=20), "info:x_position", 1, candidates=1)
    assert x.behaviour is not None
    assert x.behaviour.shape == (1,)
    assert x.behaviour[0] != 0


@pytest.mark.parametrize(
    ("env", "behaviour", "said"),
    [
        ("CartPole-v1", "lst", "expected last, info:FIELD or my_package.module:function"),
        ("CartPole-v1", "no_such:thing", "cannot import 'no_such'"),
        ("CartPole-v1", "math:sinus", "module 'math' has no function 'sinus'"),
        ("HalfCheetah-v4", "info:x_positon", "has no such field. Did you mean 'x_position'"),
    ],
)
def test_what_cannot_be_picked_up_is_one_line_at_once(env: str, behaviour: str, said: str) -> None:
    with pytest.raises(UserError) as refused:
        Evaluator(Env(id=env), MLP(), behaviour=behaviour)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_goes_wrong_later_says_what_it_was() -> None:
    with pytest.raises(RookeryError, match=r"test_behaviour:broken failed: ValueError: no use for 6"):
        results(TRAP, "tests.rollout.test_behaviour:broken", 1)
    (failed, _) = results(TRAP, "info:speed", 1)
    assert failed.error is not None
    assert "the info has no 'speed'; it has: position" in failed.error
