"""Settings for the reader: all keys with their types and help, and a resolved struct as YAML."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import msgspec

from rookery.settings.phrases import choices, flow, limits, phrase
from rookery.settings.ranges import Range
from rookery.settings.schema import Key, Slot, Tree, slots, tag_of
from rookery.settings.tree import ABSENT, complete, lookup, selected, to_tree


class Row(msgspec.Struct, frozen=True):
    """One key of the settings, as a help page shows it."""

    path: str
    type: str
    default: Any
    required: bool
    help: str
    choices: tuple[str, ...] = ()
    bounds: str = ""


def describe(settings: type[msgspec.Struct] | msgspec.Struct) -> list[Row]:
    """A row for every key that can be set; of a struct instance, with its own values as the defaults."""
    if isinstance(settings, type):
        schema, tree = settings, complete(settings, {})
    else:
        schema, tree = type(settings), to_tree(settings)
    keys = selected(schema, tree).values()
    return [_row(key, lookup(tree, key.path)) for key in keys if not key.slot.structs or key.slot.optional]


def _row(key: Key, value: Any) -> Row:
    slot = key.slot
    required = value is ABSENT and slot.required and not key.chooses
    if value is ABSENT:
        value = None if slot.required else slot.value()
    if key.chooses and value is None and len(words := choices(slot.type)) == 1:
        value = words[0]
    kind = "settings below, or null" if slot.structs else phrase(slot.type, bounds=False)
    return Row(key.path, kind, value, required, slot.help, choices(slot.type), limits(slot.type))


def to_yaml(
    settings: msgspec.Struct,
    help: bool = False,  # noqa: A002
    ranges: Mapping[str, Range] | None = None,
    omit: Container[str] = (),
) -> str:
    """A struct as YAML that reads back as the same struct; ranges stand in for the values at their paths."""
    tree = to_tree(settings)
    lines = list(_lines(type(settings), tree, "", ranges or {}))
    kept = [line for line in lines if line[0] not in omit]
    width = min(max((len(text) for _, text, note in kept if note), default=0), 40)
    texts = [f"{text:<{width}}  # {note}" if help and note else text for _, text, note in kept]
    return "".join(f"{text}\n" for text in texts)


def _lines(
    schema: type[msgspec.Struct], tree: Tree, prefix: str, ranges: Mapping[str, Range], types: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Path, text and note of each line of a struct."""
    indent = "  " * prefix.count(".")
    for name, tag in tag_of(schema).items():
        yield prefix + name, f"{indent}{flow(name)}: {flow(tag)}", types
    for name, slot in slots(schema).items():
        path, value = prefix + name, tree[name]
        chosen = slot.select(value) if slot.structs and isinstance(value, Mapping) else None
        if chosen is not None:
            inner = list(_lines(chosen.cls, value, f"{path}.", ranges, phrase_types(slot)))
            yield path, f"{indent}{flow(name)}:" + ("" if inner else " {}"), slot.help
            yield from inner
            continue
        shown = ranges[path].written() if path in ranges else value
        yield path, f"{indent}{flow(name)}: {flow(shown)}", _note(slot)


def phrase_types(slot: Slot) -> str:
    """The types of a part, for the line that chooses one."""
    return f"one of: {', '.join(slot.tags)}" if len(slot.structs) > 1 else ""


def _note(slot: Slot) -> str:
    bounds = limits(slot.type)
    words = choices(slot.type)
    extra = f"one of: {', '.join(words)}" if words else bounds
    return f"{slot.help} ({extra})" if slot.help and extra else slot.help or extra
