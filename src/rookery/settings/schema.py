"""The shape of a tree of settings, read off a msgspec struct: its keys, its parts and their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec import NODEFAULT, inspect

Tree = dict[str, Any]
Conditions = tuple[tuple[str, str], ...]  # (`algorithm.type`, `es`)


@dataclass(frozen=True)
class Slot:
    """One field of a struct: what may stand there, and what stands there when nothing is said."""

    name: str
    type: inspect.Type
    annotation: Any
    help: str = ""
    default: Any = NODEFAULT
    factory: Any = NODEFAULT

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is NODEFAULT and self.factory is NODEFAULT

    @property
    def members(self) -> tuple[inspect.Type, ...]:
        """The alternatives of a union; the type itself otherwise."""
        return members(self.type)

    @property
    def structs(self) -> tuple[inspect.StructType, ...]:
        """The structs that may stand here; this makes the slot a part."""
        return tuple(member for member in self.members if isinstance(member, inspect.StructType))

    @property
    def tag_field(self) -> str | None:
        """The key that chooses among the types of a part, usually `type`."""
        structs = self.structs
        return structs[0].tag_field if structs else None

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the types that may stand here."""
        return tuple(str(struct.tag) for struct in self.structs)

    @property
    def optional(self) -> bool:
        """Whether null may stand here."""
        return any(isinstance(member, inspect.NoneType) for member in self.members)

    @property
    def free(self) -> bool:
        """Whether this is a mapping whose keys are the user's own."""
        return any(isinstance(member, inspect.DictType) for member in self.members)

    @property
    def takes_text(self) -> bool:
        """Whether any text may stand here."""
        return any(isinstance(member, inspect.StrType) for member in self.members)

    def value(self) -> Any:
        """The default as plain data; only for a slot that is not required."""
        default = self.factory() if self.default is NODEFAULT else self.default
        return msgspec.to_builtins(default)

    def select(self, value: Mapping[str, Any]) -> inspect.StructType | None:
        """The struct that a mapping describes; None when its type is unknown or not said."""
        structs = self.structs
        field = self.tag_field
        if field is None or (field not in value and len(structs) == 1):
            return structs[0]
        return next((struct for struct in structs if struct.tag == value.get(field)), None)


def members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """The alternatives of a union without their metadata; the type itself otherwise."""
    kind = bare(kind)
    if isinstance(kind, inspect.UnionType):
        return tuple(bare(member) for member in kind.types)
    return (kind,)


def bare(kind: inspect.Type) -> inspect.Type:
    """The type without its metadata."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


@cache
def slots(schema: type[msgspec.Struct]) -> Mapping[str, Slot]:
    """The fields of a struct by the names they have in a file, in order."""
    info = inspect.type_info(schema)
    assert isinstance(info, inspect.StructType)
    hints = get_type_hints(schema, include_extras=True)
    found = (
        Slot(
            name=field.encode_name,
            type=bare(field.type),
            annotation=hints[field.name],
            help=_help(field.type),
            default=field.default,
            factory=field.default_factory,
        )
        for field in info.fields
    )
    return {slot.name: slot for slot in found}


def _help(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        text = str((kind.extra_json_schema or {}).get("description", ""))
        return " ".join(text.split()) or _help(kind.type)
    return ""


def tag_of(schema: type[msgspec.Struct]) -> Tree:
    """`{type: name}` of a tagged struct; nothing for another."""
    config = schema.__struct_config__
    return {} if config.tag_field is None else {config.tag_field: config.tag}


@dataclass(frozen=True)
class Key:
    """One key of a tree: its full path, its slot, and the types that must be selected for it to exist."""

    path: str
    slot: Slot
    conditions: Conditions = ()
    chooses: bool = False


@cache
def every_key(schema: type[msgspec.Struct]) -> tuple[Key, ...]:
    """All keys of a schema, those of every type of every part."""
    return tuple(_keys(schema, "", (), ()))


def _keys(
    schema: type[msgspec.Struct], prefix: str, conditions: Conditions, above: tuple[type, ...]
) -> Iterator[Key]:
    for name, slot in slots(schema).items():
        path = prefix + name
        yield Key(path, slot, conditions)
        field = slot.tag_field
        if field is not None:
            choice = Slot(field, inspect.LiteralType(slot.tags), str, slot.help)
            yield Key(f"{path}.{field}", choice, conditions, chooses=True)
        for struct in slot.structs:
            if struct.cls in (*above, schema):
                continue
            chosen = (f"{path}.{field}", str(struct.tag))
            inner = conditions if field is None or len(slot.structs) == 1 else (*conditions, chosen)
            yield from _keys(struct.cls, path + ".", inner, (*above, schema))
