"""A failing observer costs itself, not the run."""

from __future__ import annotations

import pytest

from rookery.observers.bus import Bus
from rookery.observers.events import Boundary, Event, Notice, Started

STARTED = Started(time=1.0, seconds=0.0, name="r", directory="runs/r", generation=0, steps=0, version="1")


class Listener:
    def __init__(self, fails_on: int | None = None, essential: bool = False) -> None:
        self.essential = essential
        self.seen: list[Event | Boundary] = []
        self.closed = 0
        self._fails_on = fails_on

    def on(self, event: Event | Boundary) -> None:
        self.seen.append(event)
        if len(self.seen) == self._fails_on:
            raise OSError("No space left\non device")

    def close(self) -> None:
        self.closed += 1


class FailsToClose(Listener):
    def close(self) -> None:
        super().close()
        raise RuntimeError("cannot close")


def test_a_failing_observer_is_dropped_with_one_notice_to_the_others() -> None:
    before, broken, after = Listener(), Listener(fails_on=1), Listener()
    bus = Bus([before, broken, after])
    for _ in range(3):
        bus.publish(STARTED)
    bus.close()
    for listener in (before, after):
        notices = [event.message for event in listener.seen if isinstance(event, Notice)]
        assert len(listener.seen) == 4
        assert len(notices) == 1
        assert "Listener" in notices[0]
        assert "No space left on device" in notices[0]
    assert len(broken.seen) == 1
    assert [listener.closed for listener in (before, broken, after)] == [1, 1, 1]


def test_an_observer_that_fails_on_the_notice_is_dropped_as_well() -> None:
    first, second, last = Listener(fails_on=1), Listener(fails_on=2), Listener()
    bus = Bus([first, second, last])
    bus.publish(STARTED)
    bus.publish(STARTED)
    assert [type(event) for event in last.seen] == [Started, Notice, Notice, Started]


def test_an_essential_observer_fails_the_run() -> None:
    bus = Bus([Listener(fails_on=1, essential=True)])
    with pytest.raises(OSError, match="No space"):
        bus.publish(STARTED)


def test_closing_reaches_every_observer() -> None:
    broken, essential, last = FailsToClose(), FailsToClose(essential=True), Listener()
    with pytest.raises(RuntimeError, match="cannot close"):
        Bus([broken, essential, last]).close()
    assert last.closed == 1
    assert [type(event) for event in last.seen] == [Notice]
