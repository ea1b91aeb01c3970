"""What every engine must do, as functions of a fleet of at least two `Probe` workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rookery.errors import UserError
from rookery.fleet import ActorSpec, Fleet, Move, Newest, RemoteError
from tests.actors import Parcel

PROBE = ActorSpec("tests.actors:Probe", {"base": 5, "parcel": Parcel("p", np.arange(3, dtype=np.float32), (1, 2))})
Check = Callable[[Fleet, Path], None]


def all_reaches_everyone(fleet: Fleet, folder: Path) -> None:
    found = fleet.all("who")
    assert sorted(found) == fleet.workers
    assert len({tuple(who) for who in found.values()}) == len(fleet.workers) >= 2


def any_is_done_once(fleet: Fleet, folder: Path) -> None:
    assert fleet.any("add", 3) == 8
    assert fleet.any("add", 3, 4) == 12
    fleet.all("note", 0)
    before = sum(fleet.all("produced_count").values())
    fleet.any("produce")
    assert sum(fleet.all("produced_count").values()) == before + 1


def map_gives_every_result_once(fleet: Fleet, folder: Path) -> None:
    results = list(fleet.map("add", ((x,) for x in range(300))))
    assert sorted(results) == [(x, x + 5) for x in range(300)]
    assert list(fleet.map("add", [])) == []


def map_takes_calls_as_they_are_needed(fleet: Fleet, folder: Path) -> None:
    taken = itertools.count()
    calls = ((number, next(taken)) for number in itertools.count())
    results = list(itertools.islice(fleet.map("add", calls), 50))
    assert len(results) == 50
    assert next(taken) < 50 + 100 * len(fleet.workers), "it does not run ahead without end"


def values_arrive_as_their_types(fleet: Fleet, folder: Path) -> None:
    parcel = Parcel("ab", np.linspace(0, 1, 4000, dtype=np.float32), (3, 4))
    back = fleet.any("typed", parcel, np.ones((2, 3), np.float32))
    assert isinstance(back, Parcel)
    assert (back.name, back.parts) == ("abab", (3, 4))
    np.testing.assert_array_equal(back.values, parcel.values * 2 + 6)
    assert fleet.any("given").values.tolist() == [0, 1, 2], "constructor arguments too"
    for value in (None, True, -3, 2.5, "text", [1, [2]], {"a": {"b": [None]}}, b"bytes"):
        assert fleet.any("echo", value) == value
    for array in (np.zeros(0, np.float32), np.array(7.5), np.eye(90)[:, ::2], np.array([True]), np.arange(4) * 1j):
        back = fleet.any("echo", {"array": array})["array"]
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def gather_produces_no_more_than_is_read(fleet: Fleet, folder: Path) -> None:
    before = sum(fleet.all("produced_count").values())
    stream = fleet.gather("produce", unread=3)
    seen = []
    while len(seen) < 40 or set(seen) != set(fleet.workers):
        seen.append(next(stream)[0])
    stream.close()
    made = sum(fleet.all("produced_count").values()) - before
    assert len(seen) <= made <= len(seen) + 3 * len(fleet.workers)


def gather_uses_what_was_published_last(fleet: Fleet, folder: Path) -> None:
    fleet.publish("weights", 0.0)
    stream = fleet.gather("produce", Newest("weights"), unread=1)
    assert next(stream)[1] == 0.0
    for version in range(1, 6):
        fleet.publish("weights", float(version))
        seen: dict[int, list[float]] = {worker: [] for worker in fleet.workers}
        while min(map(len, seen.values())) < 2:
            worker, value = next(stream)
            seen[worker].append(value)
        for values in seen.values():
            assert set(values[1:]) == {version}, "at most one was made, and not read, before the new value"
    stream.close()


def submitted_calls_can_be_waited_for(fleet: Fleet, folder: Path) -> None:
    tasks = [fleet.submit("add", x) for x in range(10)]
    assert len(fleet.wait(tasks, at_least=3)) >= 3
    assert [task.result() for task in fleet.wait(tasks)] == [x + 5 for x in range(10)]
    worker = fleet.workers[-1]
    (task,) = fleet.wait([fleet.submit("add", 1, worker=worker)])
    assert task.worker == worker


def a_hundred_megabytes_reach_everyone(fleet: Fleet, folder: Path) -> None:
    value = np.ones(13_000_000)
    big = fleet.publish("big", value)
    assert set(fleet.all("total", big).values()) == {13_000_000.0}
    assert sorted(fleet.map("total", [(big,)] * 6)) == [(n, 13_000_000.0) for n in range(6)]
    assert fleet.any("echo", value).sum() == 13_000_000.0, "and in a call and its reply"


def what_was_published_before_is_replaced(fleet: Fleet, folder: Path) -> None:
    refs = [fleet.publish("value", np.full(2000, float(version))) for version in range(5)]
    assert fleet.any("total", refs[-1]) == 8000.0
    held = fleet.submit("total", fleet.publish("value", np.full(2000, 7.0)))
    fleet.publish("value", np.full(2000, 8.0))
    assert fleet.wait([held])[0].result() == 14000.0, "a call keeps the value that it was given"


def an_exception_comes_with_its_traceback(fleet: Fleet, folder: Path) -> None:
    with pytest.raises(RemoteError, match="so it goes") as raised:
        list(fleet.map("fail", [("so it goes",)]))
    assert str(raised.value) == f"fail failed on worker {raised.value.worker}: ValueError: so it goes"
    assert "tests/actors.py" in raised.value.traceback
    assert "raise ValueError(text)" in raised.value.traceback
    assert any(raised.value.traceback in note for note in raised.value.__notes__), "shown when nobody catches it"
    assert fleet.any("add", 1) == 6, "the fleet is as good as before"


def short_calls_travel_together_and_fail_alone(fleet: Fleet, folder: Path) -> None:
    list(fleet.map("reciprocal", [(1,)] * 500))  # after this, the calls are known to be short
    numbers = [*range(200, 0, -1), 0, *range(1, 200)]
    found = []
    with pytest.raises(RemoteError, match=r"reciprocal failed on worker .*ZeroDivisionError"):  # noqa: PT012
        for result in fleet.map("reciprocal", [(x,) for x in numbers]):
            found.append(result)  # noqa: PERF402
    assert len(found) >= 100, "what came before is not lost"
    assert all(value == 1 / numbers[number] for number, value in found)


def calls_that_are_not_alike_keep_their_order(fleet: Fleet, folder: Path) -> None:
    one, other = fleet.publish("one", np.full(300, 1.0)), fleet.publish("other", np.full(300, 2.0))
    list(fleet.map("total", [(one,)] * 200))
    calls = [(one,), (np.full(2, 7.0),), (other,), (other,)] * 30
    results = sorted(fleet.map("total", calls))
    assert [value for _, value in results] == [300.0, 14.0, 600.0, 600.0] * 30
    assert sorted(fleet.map("add", [(1,), (1, 2)] * 50)) == list(enumerate([6, 8] * 50))


def mistakes_are_named(fleet: Fleet, folder: Path) -> None:
    with pytest.raises(UserError, match="Probe has no method 'ad'"):
        fleet.any("ad", 1)
    with pytest.raises(RemoteError, match="TypeError"):
        fleet.any("add")
    assert fleet.any("add", 1) == 6


def results_that_nobody_wants_are_thrown_away(fleet: Fleet, folder: Path) -> None:
    abandoned = fleet.map("work", [(number,) for number in range(100, 110)])
    next(abandoned)
    abandoned.close()
    assert sorted(number for number, _ in fleet.map("work", [(n,) for n in range(10)])) == list(range(10))
    found = {value[0] for _, value in fleet.map("work", [(n,) for n in range(10)])}
    assert found == set(range(10)), "nothing of the older batch is counted into a newer one"


def things_move_between_actors_all_at_once(fleet: Fleet, folder: Path) -> None:
    one, other = fleet.workers[:2]
    for worker in (one, other):
        fleet.wait([fleet.submit("hold", key, 10.0 * worker + key, worker=worker) for key in (1, 2)])
    fleet.transfer([Move(one, 1, other, 1), Move(other, 1, one, 1), Move(one, 2, one, 3), Move(one, 2, other, 3)])
    values = fleet.all("held_values", remember=False)
    assert values[one] == {1: 10.0 * other + 1, 2: 10.0 * one + 2, 3: 10.0 * one + 2}
    assert values[other] == {1: 10.0 * one + 1, 2: 10.0 * other + 2, 3: 10.0 * one + 2}


def figures_are_kept(fleet: Fleet, folder: Path) -> None:
    fleet.stats()
    list(fleet.map("sleep", [(0.02,)] * 10))
    stats = fleet.stats()
    assert stats.workers == len(fleet.workers)
    assert stats.joined >= stats.workers
    assert 0.0 <= stats.idle < 0.9


CHECKS: list[Check] = [
    all_reaches_everyone,
    any_is_done_once,
    map_gives_every_result_once,
    map_takes_calls_as_they_are_needed,
    values_arrive_as_their_types,
    gather_produces_no_more_than_is_read,
    gather_uses_what_was_published_last,
    submitted_calls_can_be_waited_for,
    a_hundred_megabytes_reach_everyone,
    what_was_published_before_is_replaced,
    an_exception_comes_with_its_traceback,
    short_calls_travel_together_and_fail_alone,
    calls_that_are_not_alike_keep_their_order,
    mistakes_are_named,
    results_that_nobody_wants_are_thrown_away,
    things_move_between_actors_all_at_once,
    figures_are_kept,
]
