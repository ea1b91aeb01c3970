"""The contract of every environment, whatever simulates it: seeded episodes that are stepped by id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Arena, BatchedEnv, Continuous, Discrete, Env, Spaces, arena, make
from rookery.errors import RookeryError, UserError

KINDS = {
    "envpool cartpole": Env(id="CartPole-v1"),
    "envpool pendulum": Env(id="Pendulum-v1"),
    "envpool lunar lander": Env(id="LunarLander-v3"),
    "envpool bipedal walker": Env(id="BipedalWalker-v3"),
    "envpool half cheetah": Env(id="HalfCheetah-v4"),
    "envpool frozen lake": Env(id="FrozenLake-v1"),
    "envpool pong": Env(id="Pong-v5"),
    "envpool bigfish": Env(id="BigfishEasy-v0"),
    "envpool cheetah run": Env(id="CheetahRun-v1", flatten=True),
    "envpool panda, a dictionary of one": Env(id="PandaPickCube-v1"),
    "gymnasium cartpole": Env(id="CartPole-v1", backend="gymnasium"),
    "gymnasium pendulum": Env(id="Pendulum-v1", backend="gymnasium"),
    "synthetic ackley": Env(id="synthetic:ackley", options={"noise": 0.1, "dimensions": 3}),
    "own maze": Env(id="tests.environments:Maze"),
    "own levers": Env(id="tests.environments:Levers"),
    "own rooms": Env(id="tests.environments:Rooms", flatten=True),
}
SHAPES: dict[str, tuple[tuple[int, ...], str, int]] = {  # observation, its dtype, numbers of an action
    "envpool cartpole": ((4,), "float32", 1),
    "envpool pendulum": ((3,), "float32", 1),
    "envpool lunar lander": ((8,), "float32", 1),
    "envpool bipedal walker": ((24,), "float32", 4),
    "envpool half cheetah": ((17,), "float32", 6),
    "envpool frozen lake": ((16,), "float32", 1),
    "envpool pong": ((4, 84, 84), "uint8", 1),
    "envpool bigfish": ((3, 64, 64), "uint8", 1),
    "envpool cheetah run": ((17,), "float32", 6),
    "envpool panda, a dictionary of one": ((66,), "float32", 8),
    "gymnasium cartpole": ((4,), "float32", 1),
    "gymnasium pendulum": ((3,), "float32", 1),
    "synthetic ackley": ((1,), "float32", 3),
    "own maze": ((12,), "float32", 1),
    "own levers": ((3,), "float32", 3),
    "own rooms": ((3,), "float32", 2),
}
BACKENDS = ["envpool", "gymnasium"]
Episode = list[tuple[Any, ...]]

every_kind = pytest.mark.parametrize("name", KINDS)
both_backends = pytest.mark.parametrize("backend", BACKENDS)


@pytest.fixture(scope="module")
def arenas() -> Callable[[str], Arena]:
    made: dict[str, Arena] = {}
    return lambda name: made.setdefault(name, arena(KINDS[name]))


def actions(spaces: Spaces, clock: int, ids: NDArray[np.int32]) -> NDArray[Any]:
    """Actions that depend on the step and the environment's number alone."""
    rows = [_action(spaces, np.random.default_rng([clock, env])) for env in ids.tolist()]
    return np.stack(rows)


def _action(spaces: Spaces, rng: np.random.Generator) -> Any:
    if isinstance(spaces.action, Continuous):
        low, high = spaces.action.bounds
        return rng.uniform(np.maximum(low, -9), np.minimum(high, 9)).astype(np.float32)
    assert isinstance(spaces.action, Discrete)
    drawn = rng.integers(spaces.action.choices)
    return drawn[0] if spaces.action.scalar else drawn


def play(place: Arena, seeds: list[int], steps: int = 25, groups: list[list[int]] | None = None) -> list[Episode]:
    """What each environment did, stepped all together or one group after the other."""
    batch = place.batch(seeds, 2)
    batch.reset()
    first = batch.receive()
    episodes: list[Episode] = [[] for _ in seeds]
    for env, observation in zip(first.ids.tolist(), first.observations, strict=True):
        episodes[env].append((observation.copy(),))
    for group in groups or [list(range(len(seeds)))]:
        ids = np.array(group, np.int32)
        for clock in range(steps):
            if not len(ids):
                break
            batch.send(actions(place.spaces, clock, ids), ids)
            step = batch.receive()
            assert not step.failures
            assert sorted(step.ids.tolist()) == sorted(ids.tolist())
            for row, env in enumerate(step.ids.tolist()):
                flags = bool(step.terminated[row]), bool(step.truncated[row])
                episodes[env].append((step.observations[row].copy(), float(step.rewards[row]), *flags))
            ids = step.ids[~(step.terminated | step.truncated)]
    batch.close()
    return episodes


def bits(episode: Episode) -> list[Any]:
    return [(observation.tobytes(), *rest) for observation, *rest in episode]


def go(batch: BatchedEnv, action: Any, ids: list[int] | None = None) -> Any:
    """One step of some environments with the same action."""
    chosen = np.array([0] if ids is None else ids, np.int32)
    batch.send(np.stack([np.asarray(action)] * len(chosen)), chosen)
    return batch.receive()


@every_kind
def test_observations_and_actions_are_what_the_spaces_say(name: str, arenas: Callable[[str], Arena]) -> None:
    place = arenas(name)
    shape, dtype, size = SHAPES[name]
    assert (place.spaces.observation.shape, place.spaces.observation.dtype) == (shape, dtype)
    action = place.spaces.action
    assert len(action.choices if isinstance(action, Discrete) else action.low) == size
    for episode in play(place, [1, 2], 3):
        assert {(observation.shape, str(observation.dtype)) for observation, *_ in episode} == {(shape, dtype)}


@every_kind
def test_a_seed_is_an_episode(name: str, arenas: Callable[[str], Arena]) -> None:
    steps = 60 if "pong" in name else 25
    one, again = play(arenas(name), [11], steps), play(arenas(name), [11], steps)
    assert bits(one[0]) == bits(again[0])
    others = [bits(play(arenas(name), [seed], steps)[0]) for seed in (12, 13)]
    assert any(other != bits(one[0]) for other in others)


@every_kind
def test_who_else_is_stepped_and_when_makes_no_difference(name: str, arenas: Callable[[str], Arena]) -> None:
    place, seeds = arenas(name), [5, 6, 7, 8]
    together = play(place, seeds)
    apart = play(place, seeds, groups=[[3, 1], [0], [2]])
    for one, other in zip(together, apart, strict=True):
        assert bits(one) == bits(other)


def play_on(
    place: Arena, seeds: list[int], steps: int = 40, groups: Sequence[Sequence[int]] | None = None
) -> tuple[list[Episode], int]:
    """What each environment did over several episodes, stepped in groups, and how many of them ended."""
    batch = place.batch(seeds, 2)
    batch.reset()
    rows: list[Episode] = [[(seen.copy(),)] for seen in batch.receive().observations]
    ended, over = 0, np.zeros(len(seeds), np.bool_)
    for clock in range(steps):
        for group in groups or [range(len(seeds))]:
            ids = np.array(group, np.int32)
            batch.send(actions(place.spaces, clock, ids), ids)
            step = batch.receive()
            assert step.ids.tolist() == ids.tolist()
            now = step.terminated | step.truncated
            assert not now[over[ids]].any()
            assert not step.rewards[over[ids]].any()
            over[ids] = now
            ended += int(now.sum())
            for env, row in zip(ids.tolist(), zip(*step[1:5], strict=True), strict=True):
                rows[env].append((row[0].copy(), *row[1:]))
    batch.close()
    return rows, ended


@every_kind
def test_episode_follows_episode_the_same_whoever_else_is_stepped(name: str) -> None:
    place, seeds = arena(replace(KINDS[name], max_steps=9)), [5, 6, 7]
    together, ended = play_on(place, seeds)
    assert ended >= 3 * 4
    apart, _ = play_on(place, seeds, groups=[[2], [0, 1]])
    alone, _ = play_on(place, [5])
    for one, other in zip(together + together[:1], apart + alone, strict=True):
        assert bits(one) == bits(other)


@pytest.mark.parametrize("name", ["envpool cartpole", "envpool lunar lander", "envpool bigfish", "own maze"])
@pytest.mark.parametrize("limit", [None, 17])
def test_episodes_that_end_at_different_times_do_not_meddle(name: str, limit: int | None) -> None:
    place = arena(replace(KINDS[name], max_steps=limit, action_repeat=3 if limit else 1))
    together, ended = play_on(place, [1, 2, 3, 4], 200)
    assert ended >= 4
    apart, _ = play_on(place, [1, 2, 3, 4], 200, groups=[[3, 1], [0, 2]])
    assert [bits(one) for one in together] == [bits(one) for one in apart]


@pytest.mark.parametrize("name", ["envpool cartpole", "envpool bigfish", "gymnasium cartpole", "own maze"])
@pytest.mark.parametrize("repeat", [1, 3])
def test_the_step_after_an_episode_is_none_of_the_next(name: str, repeat: int) -> None:
    batch = begun(replace(KINDS[name], max_steps=2, action_repeat=repeat), [4, 5])
    assert [bool(go(batch, 0).truncated[0]) for _ in range(9)] == [False, True, False] * 3


@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith("synthetic")])
def test_a_limit_of_steps_truncates_and_terminates_nothing(name: str) -> None:
    (episode,) = play(arena(replace(KINDS[name], max_steps=1)), [3])
    assert episode[-1][2:] == (False, True)
    assert len(episode) == 2


@both_backends
def test_a_limit_counts_the_steps_of_the_agent_and_may_be_longer_than_the_registered_one(backend: str) -> None:
    pendulum = Env(id="Pendulum-v1", backend=backend)
    for spec, steps in (
        (pendulum, 200),
        (replace(pendulum, max_steps=230), 230),
        (replace(pendulum, max_steps=7, action_repeat=3), 7),
    ):
        (episode,) = play(arena(spec), [3], 300)
        assert len(episode) - 1 == steps
        assert episode[-1][2:] == (False, True)


def begun(spec: Env, seeds: list[int]) -> BatchedEnv:
    """A batch whose first observations have been seen."""
    batch = make(spec, seeds)
    batch.reset()
    batch.receive()
    return batch


@both_backends
def test_a_fallen_pole_terminates_and_truncates_nothing(backend: str) -> None:
    batch = begun(Env(id="CartPole-v1", backend=backend), [1])
    for _ in range(30):
        step = go(batch, 1)
        if step.terminated[0]:
            break
    assert step.terminated.tolist() == [True]
    assert step.truncated.tolist() == [False]


@both_backends
def test_hidden_components_are_not_seen(backend: str) -> None:
    spec = Env(id="CartPole-v1", backend=backend)
    (whole,), (part,) = play(arena(spec), [4]), play(arena(replace(spec, hide=(1, 3))), [4])
    assert arena(replace(spec, hide=(1, 3))).spaces.observation.shape == (2,)
    for (all_of_it, *_), (seen, *_) in zip(whole, part, strict=True):
        np.testing.assert_array_equal(seen, all_of_it[[0, 2]])


@pytest.mark.parametrize("hide", [(4,), (-1,), (0, 1, 2, 3)])
def test_what_cannot_be_hidden_is_refused(hide: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"env.hide: CartPole-v1 shows 4 numbers \(0 to 3\)"):
        arena(Env(id="CartPole-v1", hide=hide))


@both_backends
def test_a_repeated_action_adds_up_its_rewards(backend: str) -> None:
    spec = Env(id="Pendulum-v1", backend=backend)
    single, repeated = begun(spec, [2]), begun(replace(spec, action_repeat=3), [2])
    steps = [go(single, [0.5]) for _ in range(3)]
    whole = go(repeated, [0.5])
    assert whole.rewards[0] == pytest.approx(sum(float(step.rewards[0]) for step in steps), rel=1e-6)
    np.testing.assert_array_equal(whole.observations, steps[-1].observations)


@both_backends
def test_a_repeated_action_ends_with_the_episode_and_leaves_the_others_alone(backend: str) -> None:
    spec = Env(id="CartPole-v1", backend=backend)
    alone = begun(spec, [1])
    length = 1
    while not go(alone, 1).terminated[0]:
        length += 1
    repeated = begun(replace(spec, action_repeat=6), [1, 1, 2])
    earned, clock = 0.0, 0
    while True:
        step = go(repeated, 1, [0])
        earned, clock = earned + float(step.rewards[0]), clock + 1
        if step.terminated[0]:
            break
    assert earned == length
    assert clock == -(-length // 6)
    assert go(repeated, 1, [1, 2]).rewards.tolist() == [6.0, 6.0]


@both_backends
def test_rewards_are_scaled(backend: str) -> None:
    spec = Env(id="Pendulum-v1", backend=backend)
    (plain,), (scaled,) = play(arena(spec), [4], 5), play(arena(replace(spec, reward_scale=0.25)), [4], 5)
    assert [reward for _, reward, *_ in scaled[1:]] == [0.25 * reward for _, reward, *_ in plain[1:]]


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_an_unknown_id_is_named_with_the_one_that_was_meant(backend: str) -> None:
    with pytest.raises(UserError, match=r"unknown environment 'CartPoll-v1'\. Did you mean .*'CartPole-v1'"):
        make(Env(id="CartPoll-v1", backend=backend), [0])


def test_a_class_or_module_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"module 'tests.environments' has no 'Mase'\. Did you mean 'Maze'"):
        arena(Env(id="tests.environments:Mase"))
    with pytest.raises(UserError, match="cannot import 'no_such_package'"):
        arena(Env(id="no_such_package:Thing"))
    (tmp_path / "rotten_module.py").write_text("raise ZeroDivisionError('rotten\\nto the core')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RookeryError, match=r"importing failed: ZeroDivisionError: rotten to the core$"):
        arena(Env(id="rotten_module:Thing"))


@pytest.mark.parametrize(
    "spec",
    [
        Env(id="CartPole-v1"),
        Env(id="CartPole-v1", backend="gymnasium"),
        Env(id="tests.environments:Maze"),
        Env(id="synthetic:sphere"),
    ],
    ids=["envpool", "gymnasium", "own", "synthetic"],
)
def test_an_option_that_does_not_exist_is_refused_in_one_line(spec: Env) -> None:
    with pytest.raises(UserError, match="colour") as caught:
        arena(replace(spec, options={"colour": "red"}))
    assert spec.id in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_reach_the_environment() -> None:
    assert arena(Env(id="tests.environments:Maze", options={"length": 5})).spaces.observation.shape == (5,)


@pytest.mark.parametrize("spec", [Env(id="CheetahRun-v1"), Env(id="tests.environments:Rooms")], ids=str)
def test_a_dictionary_is_refused_until_it_is_to_be_flattened(spec: Env) -> None:
    with pytest.raises(UserError, match=r"shows a dictionary .*position.*env.flatten=true"):
        arena(spec)


@pytest.mark.parametrize("fault", ["raise", "shape"])
@pytest.mark.parametrize("at", [0, 2])
def test_an_environment_that_breaks_is_named_and_the_others_go_on(fault: str, at: int) -> None:
    spec = Env(id="tests.environments:Faulty", options={"fault": fault, "at": at, "every": 2})
    healthy = play(arena(spec), [1, 3, 5], 4)
    place = arena(spec)
    for _ in range(2):  # a second batch takes over what the first one left whole
        batch = place.batch([1, 2, 3, 4, 5])
        batch.reset()
        step = batch.receive()
        assert sorted(step.failures) == ([1, 3] if at == 0 else [])
        if at == 2:
            go(batch, 1, [0, 1, 2, 3, 4])
            step = go(batch, 1, [4, 3, 2, 1, 0])
            assert sorted(step.failures) == [1, 3]
            row = step.ids.tolist().index(2)
            np.testing.assert_array_equal(step.observations[row], healthy[1][2][0])
        if fault == "raise":
            assert set(step.failures.values()) == {"RuntimeError: the wheel came off"}
        assert not go(batch, 1, [0, 2, 4]).failures
        batch.close()
