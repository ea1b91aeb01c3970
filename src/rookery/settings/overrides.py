"""Overrides `key=value` from the command line, where a key may be any unambiguous end of a full path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rookery.errors import UserError
from rookery.settings.build import SettingError, is_named, leaf, unknown, unknown_type
from rookery.settings.schema import Key, Slot, Tree
from rookery.settings.tree import ABSENT, complete, merge, place, selected
from rookery.settings.yaml12 import parse


class _Override(NamedTuple):
    name: str
    text: str


class _Target(NamedTuple):
    key: Key
    rest: str = ""

    @property
    def path(self) -> str:
        return f"{self.key.path}.{self.rest}" if self.rest else self.key.path


def apply_overrides(
    schema: type[msgspec.Struct], tree: Mapping[str, Any], overrides: Sequence[str]
) -> tuple[Tree, tuple[str, ...]]:
    """The complete tree with the overrides applied, and the full paths that they set.

    Overrides that choose a type are applied first, outermost part first, wherever they stand.
    """
    full = complete(schema, tree)
    pending = [_split(text) for text in overrides]
    paths: list[str] = []
    while chosen := _next_choice(selected(schema, full), pending):
        override, target, value = chosen
        pending.remove(override)
        paths.append(target.path)
        full = merge(schema, full, place({}, target.path, value))
    keys = selected(schema, full)
    for override in pending:
        target = _resolve(schema, full, keys, override.name)
        value = _value(target, override)
        paths.append(target.path)
        full = merge(schema, full, place({}, target.path, value))
    return full, tuple(paths)


def _split(text: str) -> _Override:
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals:
        raise UserError(f"{text!r} is not an override; write key=value")
    if not name:
        raise UserError(f"{text!r} has no key; write key=value")
    return _Override(name, value.strip())


def _next_choice(keys: Mapping[str, Key], pending: Sequence[_Override]) -> tuple[_Override, _Target, Any] | None:
    found: list[tuple[_Override, _Target, Any]] = []
    for override in pending:
        targets = _targets(keys, override.name)
        if len(targets) != 1 or targets[0].rest:
            continue
        target = targets[0]
        if target.key.chooses:
            part = keys[target.key.path.rpartition(".")[0]]
            found.append((override, target, _check_type(part, override.text)))
        elif target.key.slot.tag_field is not None:
            value = _value(target, override)
            named = value.get(target.key.slot.tag_field, ABSENT) if isinstance(value, Mapping) else value
            if isinstance(named, str):
                _check_type(target.key, named)
                found.append((override, target, value))
    return min(found, key=lambda item: item[1].path.count("."), default=None)


def _check_type(part: Key, given: str) -> str:
    given = parse(given) if given[:1] in ("'", '"') else given
    if given not in part.slot.tags and not part.slot.takes_text:
        raise unknown_type(part.slot, given, part.path)
    return given


def _resolve(schema: type[msgspec.Struct], tree: Tree, keys: Mapping[str, Key], name: str) -> _Target:
    targets = _targets(keys, name)
    if not targets:
        raise UserError(unknown(schema, tree, name))
    if len(targets) > 1:
        paths = " or ".join(target.path for target in targets)
        raise UserError(f"{name!r} is ambiguous: write {paths}")
    return targets[0]


def _targets(keys: Mapping[str, Key], name: str) -> list[_Target]:
    """What a name may mean: an exact path wins, then ends of paths, then a key inside a free mapping."""
    if name in keys:
        return [_Target(keys[name])]
    if ends := [_Target(key) for key in keys.values() if is_named(key, name)]:
        return ends
    words = name.split(".")
    if not all(words):
        return []
    for cut in range(len(words) - 1, 0, -1):
        head, rest = ".".join(words[:cut]), ".".join(words[cut:])
        free = [key for key in keys.values() if is_named(key, head) and key.slot.free]
        exact = [key for key in free if key.path == head]
        if free:
            return [_Target(key, rest) for key in exact or free]
    return []


def _value(target: _Target, override: _Override) -> Any:
    slot = target.key.slot
    text = slot.takes_text and not target.rest
    try:
        value = parse(override.text)
    except UserError as error:
        if text:
            return override.text
        message = f"{target.path}: cannot read {override.text!r}: {error}"
        raise SettingError(target.path, message) from None
    return override.text if text and not _fits(slot, value) else value


def _fits(slot: Slot, value: Any) -> bool:
    try:
        leaf(slot, value, "")
    except SettingError:
        return False
    return True
