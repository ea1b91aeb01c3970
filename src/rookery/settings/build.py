"""From a tree to a frozen struct; every way in which a tree can be wrong becomes one line about one key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from rookery.errors import UserError, did_you_mean
from rookery.settings.phrases import choices, expected, show
from rookery.settings.schema import Key, Slot, Tree, every_key, members, slots
from rookery.settings.tree import ABSENT, complete, lookup, selected, unmet

S = TypeVar("S", bound=msgspec.Struct)
_Root = tuple[type[msgspec.Struct], Tree]


class SettingError(UserError):
    """What is wrong with the value at one dotted path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def build(schema: type[S], tree: Mapping[str, Any]) -> S:
    """The struct that a tree describes, validated; defaults are filled in."""
    full = complete(schema, tree)
    return _struct(schema, full, "", (schema, full))


def _struct(schema: type[S], tree: Mapping[str, Any], path: str, root: _Root) -> S:
    prefix = f"{path}." if path else ""
    known = slots(schema)
    tag_field = schema.__struct_config__.tag_field
    for name in tree:
        if name not in known and name != tag_field:
            raise SettingError(prefix + name, unknown(*root, prefix + name))
    values = {name: _value(slot, tree.get(name, ABSENT), prefix + name, root) for name, slot in known.items()}
    fields = dict(zip(schema.__struct_encode_fields__, schema.__struct_fields__, strict=True))
    try:
        return schema(**{fields[name]: value for name, value in values.items()})
    except (ValueError, TypeError) as error:
        raise SettingError(path, f"{path}: {error}" if path else str(error)) from None


def _value(slot: Slot, value: Any, path: str, root: _Root) -> Any:
    if value is ABSENT:
        if not slot.structs or slot.tag_field is not None:
            raise SettingError(path, f"{path} is missing: {slot.help or expected(slot.type, None)}")
        value = {}
    if slot.structs and isinstance(value, Mapping):
        chosen = slot.select(value)
        if chosen is None:
            raise unknown_type(slot, value.get(slot.tag_field or "", ABSENT), path)
        return _struct(chosen.cls, value, path, root)
    return leaf(slot, value, path)


def leaf(slot: Slot, value: Any, path: str) -> Any:
    """The value of one key, converted to its type."""
    value = _whole(slot.type, value)
    try:
        converted = msgspec.convert(value, slot.annotation)
    except msgspec.ValidationError as error:
        raise SettingError(path, f"{path}: {_complaint(slot, value, error)}") from None
    if isinstance(converted, float) and math.isnan(converted):
        raise SettingError(path, f"{path}: expected {expected(slot.type, value)}, got .nan")
    return converted


def _complaint(slot: Slot, value: Any, error: msgspec.ValidationError) -> str:
    wanted = expected(slot.type, value)
    if slot.tag_field is not None:
        wanted = f"one of {', '.join(slot.tags)}" + (" or null" if slot.optional else "")
    text = f"expected {wanted}, got {show(value)}"
    if isinstance(value, Mapping) and slot.free:
        return " ".join(str(error).split())
    if isinstance(value, str) and (words := choices(slot.type)):
        hint = did_you_mean(value, words)
        return f"{text}.{hint}" if hint else text
    return text


def _whole(kind: inspect.Type, value: Any) -> Any:
    kinds = members(kind)
    if isinstance(value, float) and value.is_integer():
        names = {type(member) for member in kinds}
        return int(value) if inspect.IntType in names and inspect.FloatType not in names else value
    if isinstance(value, list | tuple):
        for member in kinds:
            if isinstance(member, inspect.ListType | inspect.VarTupleType):
                return [_whole(member.item_type, item) for item in value]
            if isinstance(member, inspect.TupleType) and len(value) == len(member.item_types):
                return [_whole(part, item) for part, item in zip(member.item_types, value, strict=True)]
    return value


def unknown_type(slot: Slot, given: Any, path: str) -> SettingError:
    """The error for a type that a part does not have, or that is not given."""
    types = ", ".join(slot.tags)
    where = f"{path}.{slot.tag_field}"
    if given is ABSENT:
        return SettingError(path, f"{where} is missing: one of {types}")
    hint = did_you_mean(given, slot.tags) if isinstance(given, str) else ""
    message = f"{where}: there is no type {show(given)}; the types are {types}.{hint}"
    return SettingError(where, message if hint else message.removesuffix("."))


def unknown(schema: type[msgspec.Struct], tree: Mapping[str, Any], name: str) -> str:
    """Why a key does not exist in a complete tree, and which one was perhaps meant."""
    if ":" in name:
        written = name.rpartition(".")[2].replace(":", ": ", 1)
        return f"unknown setting {name!r}. YAML wants a space after the colon: {{{written}}}"
    keys = selected(schema, tree)
    deeper = [path for path, key in keys.items() if is_named(key, name)]
    if deeper:
        return f"unknown setting {name!r}. Did you mean {' or '.join(repr(path) for path in deeper)}?"
    elsewhere = [key for key in every_key(schema) if is_named(key, name) and unmet(tree, key)]
    if elsewhere:
        return _belongs(tree, name, elsewhere)
    head, _, last = name.rpartition(".")
    parents = [path.rpartition(".") for path in keys]
    siblings = [child for parent, _, child in parents if head and f".{parent}".endswith(f".{head}")]
    hint = did_you_mean(last, siblings) or did_you_mean(name, _names(keys, name))
    return f"unknown setting {name!r}.{hint}" if hint else f"unknown setting {name!r}"


def _belongs(tree: Mapping[str, Any], name: str, keys: list[Key]) -> str:
    wanted = [condition for key in keys if (condition := unmet(tree, key))]
    where = wanted[0][0]
    types = " or ".join(dict.fromkeys(tag for path, tag in wanted if path == where))
    current = lookup(tree, where)
    has = f"{where.rpartition('.')[0]}=null" if current is ABSENT else f"{where}={current}"
    return f"{name!r} belongs to {where}={types}; this experiment has {has}"


def is_named(key: Key, name: str) -> bool:
    """Whether a name is a key's full path, the end of it, or `ray.address` for the address of engine=ray."""
    if key.path == name or key.path.endswith(f".{name}"):
        return True
    parts = ((condition.rpartition(".")[0], tag) for condition, tag in key.conditions)
    return any(name == tag + key.path.removeprefix(part) for part, tag in parts if key.path.startswith(f"{part}."))


def _names(keys: Mapping[str, Key], like: str) -> list[str]:
    """What keys may be called in as many words as a name has; full paths where that is ambiguous."""
    words = like.count(".") + 1
    last = like.rpartition(".")[2]
    # A typo in the name of a part resembles the key of its type as well, and that is not what was meant.
    paths = [path for path, key in keys.items() if not key.chooses or key.slot.name == last]
    ends = {path: ".".join(path.split(".")[-words:]) for path in paths if path.count(".") >= words - 1}
    counts = Counter(ends.values())
    return [end if counts[end] == 1 or end in keys else path for path, end in ends.items()]
