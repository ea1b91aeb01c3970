"""Ranges: a number written as `{low: a, high: b, scale: log}` is a gene; its middle takes its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, inspect

from rookery.errors import did_you_mean
from rookery.settings.build import SettingError, leaf
from rookery.settings.phrases import show
from rookery.settings.schema import Slot, Tree
from rookery.settings.tree import complete, lookup, place, selected

_FORM = "a range is {low: a, high: b, scale: linear or log}"


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the values of a gene come from."""

    low: Annotated[float, Meta(description="the smallest value")]
    high: Annotated[float, Meta(description="the largest value")]
    scale: Annotated[
        Literal["linear", "log"], Meta(description="whether values are even by difference or by ratio")
    ] = "linear"
    integer: Annotated[bool, Meta(description="whether values are whole")] = False

    @property
    def middle(self) -> float:
        """The value in the middle: the geometric mean on a log scale, a whole number for integers."""
        if self.scale == "log":
            middle = math.sqrt(self.low) * math.sqrt(self.high)
        else:
            middle = self.low / 2 + self.high / 2
        middle = min(max(middle, self.low), self.high)
        return round(middle) if self.integer else middle

    def written(self) -> Tree:
        """The range as it stands in a file."""
        low, high = (int(self.low), int(self.high)) if self.integer else (self.low, self.high)
        return {"low": low, "high": high, "scale": self.scale}


def pull_ranges(schema: type[msgspec.Struct], tree: Mapping[str, Any]) -> tuple[Tree, dict[str, Range]]:
    """The complete tree with the middle of each range in its place, and the ranges by full path."""
    full = complete(schema, tree)
    ranges: dict[str, Range] = {}
    for path, key in selected(schema, full).items():
        value = lookup(full, path)
        if isinstance(value, Mapping) and _is_number(key.slot):
            ranges[path] = _range(key.slot, value, path)
            full = place(full, path, ranges[path].middle)
    return full, ranges


def _is_number(slot: Slot) -> bool:
    number = any(isinstance(member, inspect.IntType | inspect.FloatType) for member in slot.members)
    return number and not slot.structs and not slot.free


def _range(slot: Slot, value: Mapping[str, Any], path: str) -> Range:
    for name in value:
        if name not in ("low", "high", "scale"):
            hint = did_you_mean(name, ("low", "high", "scale"))
            raise SettingError(path, f"{path}: {_FORM}, without {name!r}.{hint}".removesuffix("."))
    low, high = (_end(slot, value, path, end) for end in ("low", "high"))
    scale = value.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise SettingError(f"{path}.scale", f"{path}.scale: expected linear or log, got {show(scale)}")
    if low >= high:
        raise SettingError(path, f"{path}: low must be less than high, got {show(value)}")
    if scale == "log" and low <= 0:
        raise SettingError(path, f"{path}: a log scale needs low > 0, got {show(value)}")
    integer = not any(isinstance(member, inspect.FloatType) for member in slot.members)
    return Range(low=float(low), high=float(high), scale=scale, integer=integer)


def _end(slot: Slot, value: Mapping[str, Any], path: str, end: str) -> float:
    if end not in value:
        raise SettingError(path, f"{path}: {_FORM}; {end} is missing")
    given = value[end]
    where = f"{path}.{end}"
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise SettingError(where, f"{where}: expected a number, got {show(given)}")
    number: float = leaf(slot, given, where)
    try:
        finite = math.isfinite(number)
    except OverflowError:
        finite = False
    if not finite:
        raise SettingError(where, f"{where}: expected a finite number, got {show(given)}")
    return number
