"""What a live object of another library holds, as plain data, to be laid over a fresh object of the same kind.

Only data is read and written: numbers, text, arrays, and containers of them. What else hangs on the object
(functions, classes, clocks) is left as the fresh object has it. No class is looked up and nothing is called, so
this is neither as powerful nor as dangerous as pickle: it works for objects that are built alike.
"""

from __future__ import annotations

from collections.abc import Collection
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_PLAIN = (bool, int, float, str, bytes, type(None))
_CODE = (FunctionType, MethodType, ModuleType, type)


class Overlay(msgspec.Struct, frozen=True, eq=False):
    """Data, and the arrays that it mentions by their number."""

    data: bytes
    arrays: tuple[NDArray[Any], ...]


def take(target: Any, skip: Collection[str] = ()) -> Overlay:
    """The data in an object, without the attributes of these names wherever they are."""
    reader = _Reader(skip)
    data = msgspec.msgpack.encode(reader.read(target))
    return Overlay(data, tuple(reader.arrays))


def lay(overlay: Overlay, target: Any) -> Any:
    """Put the data into a fresh object."""
    return _Writer(overlay.arrays).write(msgspec.msgpack.decode(overlay.data), target)


class _Reader:
    """Every value becomes a list: a letter for its kind, then what is in it. `=` is one that was met before."""

    def __init__(self, skip: Collection[str]) -> None:
        self.skip = frozenset(skip)
        self.arrays: list[NDArray[Any]] = []
        self.met: dict[int, int] = {}
        self.alive: list[Any] = []  # an id is a name only as long as its object lives

    def read(self, value: Any) -> list[Any]:
        if type(value) in _PLAIN:
            return ["v", value] if not isinstance(value, int) or abs(value) < 2**63 else ["i", str(value)]
        if isinstance(value, np.generic):
            return ["n", value.dtype.str, value.tobytes()]
        if isinstance(value, tuple):
            return ["t", *map(self.read, value)]
        if id(value) in self.met:
            return ["=", self.met[id(value)]]
        self.met[id(value)] = len(self.met)
        self.alive.append(value)
        return self._container(value)

    def _container(self, value: Any) -> list[Any]:
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            return ["o", *map(self.read, value.tolist())]
        if isinstance(value, np.ndarray):
            self.arrays.append(value.copy())
            return ["a", len(self.arrays) - 1]
        if type(value) is list:
            return ["l", *map(self.read, value)]
        if type(value) is dict:
            return ["d", *([self.read(key), self.read(item)] for key, item in value.items())]
        code = isinstance(value, _CODE) or not hasattr(value, "__dict__")
        return ["k"] if code else self._attributes(value)

    def _attributes(self, value: Any) -> list[Any]:
        """An object's own attributes; the items of one that is also a dictionary come along."""
        own = {name: item for name, item in vars(value).items() if name not in self.skip}
        items = list(value.items()) if isinstance(value, dict) else None
        return [
            "x",
            {name: self.read(item) for name, item in own.items()},
            None if items is None else [[self.read(key), self.read(item)] for key, item in items],
        ]


class _Writer:
    """The way back, beside the fresh object: what is not data stays as it is there."""

    def __init__(self, arrays: tuple[NDArray[Any], ...]) -> None:
        self.arrays = arrays
        self.met: list[Any] = []

    def write(self, data: list[Any], fresh: Any = None) -> Any:
        kind, *parts = data
        if kind == "v":
            return parts[0]
        if kind == "i":
            return int(parts[0])
        if kind == "n":
            return np.frombuffer(parts[1], np.dtype(parts[0]))[0]
        if kind == "t":
            old = fresh if isinstance(fresh, tuple) and len(fresh) == len(parts) else (None,) * len(parts)
            return tuple(self.write(part, item) for part, item in zip(parts, old, strict=True))
        return self.met[parts[0]] if kind == "=" else self._container(kind, parts, fresh)

    def _container(self, kind: str, parts: list[Any], fresh: Any) -> Any:
        place = len(self.met)
        self.met.append(fresh)
        if kind == "a":
            self.met[place] = self.arrays[parts[0]].copy()
        elif kind in "lo":
            made: list[Any] = []
            self.met[place] = made
            made += [self.write(part) for part in parts]
            if kind == "o":
                self.met[place] = np.array(made, object)
        elif kind == "d":
            table: dict[Any, Any] = {}
            self.met[place] = table
            old = fresh if isinstance(fresh, dict) else {}
            for key_data, item in parts:
                key = self.write(key_data)
                table[key] = self.write(item, old.get(key))
        elif kind == "x":
            self._fill(fresh, *parts)
        return self.met[place]

    def _fill(self, fresh: Any, attributes: dict[str, Any], items: list[Any] | None) -> None:
        old = vars(fresh)
        for name, data in attributes.items():
            old[name] = self.write(data, old.get(name))
        if items is not None:
            before = dict(fresh)
            fresh.clear()
            for key_data, item in items:
                key = self.write(key_data)
                fresh[key] = self.write(item, before.get(key))
