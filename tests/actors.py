"""Actors for the tests of the fleet."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class Parcel(msgspec.Struct, frozen=True, eq=False):
    """A struct with an array in it."""

    name: str
    values: NDArray[np.float32]
    parts: tuple[int, ...] = ()


class Probe:
    """Does what a test wants to see happen in a worker."""

    def __init__(self, base: int = 0, parcel: Parcel | None = None, broken: bool = False) -> None:
        if broken:
            raise ValueError("the probe has no battery")
        self.base, self.parcel = base, parcel
        self.noted = 0
        self.produced = 0
        self.pause = 0.0
        self.held: dict[int, NDArray[np.float64]] = {}

    def add(self, x: int, y: int = 0) -> int:
        return self.base + x + y

    def reciprocal(self, x: int) -> float:
        return 1 / x

    def who(self) -> list[int]:
        """Process, and object within it."""
        return [os.getpid(), id(self)]

    def echo(self, value: Any) -> Any:
        return value

    def typed(self, parcel: Parcel, matrix: NDArray[np.float32]) -> Parcel:
        assert isinstance(parcel, Parcel)
        assert isinstance(parcel.parts, tuple)
        return Parcel(parcel.name * 2, parcel.values * 2 + matrix.sum(), parcel.parts)

    def given(self) -> Parcel | None:
        return self.parcel

    def total(self, values: NDArray[np.float64]) -> float:
        return float(values.sum())

    def nothing(self) -> None:
        pass

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def unsendable(self) -> Any:
        return {"lock": threading.Lock()}

    def mislabelled(self) -> int:
        return "no number"  # type: ignore[return-value]

    def note(self, value: int) -> None:
        self.noted = value

    def noted_value(self) -> int:
        return self.noted

    def produce(self, value: float = 0.0) -> float:
        self.produced += 1
        return value

    def produced_count(self) -> int:
        return self.produced

    def slow_down(self, seconds: float) -> None:
        self.pause = seconds

    def work(self, number: int) -> tuple[int, int]:
        """The number, and who did it."""
        time.sleep(self.pause)
        return number, id(self) ^ os.getpid()

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def die_once(self, marker: str, number: int) -> int:
        """Kill the process in the middle of the call, the first time."""
        if first(marker):
            os.kill(os.getpid(), 9)
        return number

    def hang_once(self, marker: str, number: int) -> int:
        if first(marker):
            time.sleep(600)
        return number

    def straggle_once(self, marker: str, number: int) -> int:
        if number == 0 and first(marker):
            time.sleep(30)
        return number

    def die(self) -> None:
        os.kill(os.getpid(), 9)

    def hold(self, key: int, value: float) -> None:
        self.held[key] = np.full(5000, value)

    def held_values(self) -> dict[int, float]:
        return {key: float(array.mean()) for key, array in self.held.items()}

    def give(self, key: int) -> NDArray[np.float64]:
        return self.held[key]

    def take(self, key: int, value: NDArray[np.float64]) -> None:
        self.held[key] = np.array(value)


def first(marker: str) -> bool:
    """Whether nobody was here before."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
