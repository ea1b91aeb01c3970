"""Trees of settings: plain nested mappings, completed and merged as their schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rookery.settings.schema import Key, Slot, Tree, every_key, slots, tag_of

ABSENT: Any = object()


def to_tree(settings: msgspec.Struct) -> Tree:
    """A struct as a tree of plain data."""
    tree: Tree = msgspec.to_builtins(settings)
    return tree


def complete(schema: type[msgspec.Struct], tree: Mapping[str, Any]) -> Tree:
    """The tree with every default filled in, types included; required keys that are not given stay absent."""
    return _over(schema, _defaults(schema), tree)


def merge(schema: type[msgspec.Struct], base: Mapping[str, Any], child: Mapping[str, Any]) -> Tree:
    """The child over the base; a part whose type the child changes starts from the new type's defaults."""
    return _over(schema, complete(schema, base), child)


def lookup(tree: Any, path: str) -> Any:
    """The value at a dotted path, or ABSENT."""
    for name in path.split("."):
        if not isinstance(tree, Mapping) or name not in tree:
            return ABSENT
        tree = tree[name]
    return tree


def place(tree: Any, path: str, value: Any) -> Tree:
    """A copy of the tree with a value at a dotted path; what is not a mapping on the way gives way."""
    name, _, rest = path.partition(".")
    copy = dict(tree) if isinstance(tree, Mapping) else {}
    copy[name] = place(copy.get(name), rest, value) if rest else value
    return copy


def selected(schema: type[msgspec.Struct], tree: Mapping[str, Any]) -> dict[str, Key]:
    """The keys that exist under the types which a complete tree selects, by full path."""
    return {key.path: key for key in every_key(schema) if unmet(tree, key) is None}


def unmet(tree: Mapping[str, Any], key: Key) -> tuple[str, str] | None:
    """The first type that would have to be selected for the key to exist."""
    return next((need for need in key.conditions if lookup(tree, need[0]) != need[1]), None)


def _defaults(schema: type[msgspec.Struct]) -> Tree:
    values = {name: slot.value() for name, slot in slots(schema).items() if not slot.required}
    return {**tag_of(schema), **values}


def _over(schema: type[msgspec.Struct], base: Tree, child: Mapping[str, Any]) -> Tree:
    known = slots(schema)
    merged = dict(base)
    for name, value in child.items():
        slot = known.get(name)
        if slot is not None and slot.structs:
            merged[name] = _part(slot, base.get(name), value)
        elif slot is not None and slot.free:
            merged[name] = _blend(base.get(name), value)
        else:
            merged[name] = value
    return merged


def _part(slot: Slot, base: Any, value: Any) -> Any:
    if isinstance(value, str) and slot.tag_field is not None and not slot.takes_text:
        value = {slot.tag_field: value}
    if not isinstance(value, Mapping):
        return value
    base = base if isinstance(base, Mapping) else {}
    current = slot.select(base) if base else None
    chosen = current if current is not None and slot.tag_field not in value else slot.select(value)
    if chosen is None:
        return dict(value) if slot.tag_field in value else {**base, **value}
    start = base if chosen is current else _defaults(chosen.cls)
    return _over(chosen.cls, dict(start), value)


def _blend(base: Any, value: Any) -> Any:
    if not isinstance(base, Mapping) or not isinstance(value, Mapping):
        return value
    return {**base, **{name: _blend(base.get(name), item) for name, item in value.items()}}
