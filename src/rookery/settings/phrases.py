"""Types and values in the words that a reader of an error or of a help page expects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import inspect

from rookery.settings.schema import bare, members
from rookery.settings.yaml12 import parse

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def phrase(kind: inspect.Type, *, bounds: bool = True) -> str:
    """A type in words: `integer >= 1 or null`, `list of integers`, `tanh or relu`."""
    return _join([_phrase(member, bounds) for member in members(kind)])


def expected(kind: inspect.Type, value: Any) -> str:
    """What should have been given, with its article; bounds only where they may be what is wrong."""
    return _join([_article(_phrase(member, _matters(member, value))) for member in members(kind)])


def limits(kind: inspect.Type) -> str:
    """The bounds of a number: `> 0, <= 1`; of each item for a list."""
    texts = []
    for member in members(kind):
        item = bare(getattr(member, "item_type", member))
        if isinstance(item, inspect.IntType | inspect.FloatType):
            texts.append(_bounds(item))
    return "; ".join(text for text in texts if text)


def choices(kind: inspect.Type) -> tuple[str, ...]:
    """The words that may be given, where there is a fixed set of them."""
    found = [member.values for member in members(kind) if isinstance(member, inspect.LiteralType)]
    return tuple(str(value) for values in found for value in values)


def show(value: Any) -> str:
    """A value as the user might have typed it, on one line and not too long."""
    text = repr(value) if isinstance(value, str) else flow(value)
    return text if len(text) <= 80 else text[:77] + "..."


def flow(value: Any) -> str:  # noqa: PLR0911 - a case per kind of value
    """A value as YAML on one line, such that reading it gives the value again."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float(value)
        case str():
            return _text(value)
        case Mapping():
            return "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
        case Sequence() | set() | frozenset():
            return "[" + ", ".join(flow(item) for item in value) + "]"
        case _:
            return _text(str(value))


def _float(value: float) -> str:
    text = repr(value)
    return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and parse(value) == value:
        return value
    return '"' + "".join(_escape(letter) for letter in value) + '"'


def _escape(letter: str) -> str:
    if letter.isprintable() or letter in _ESCAPES:
        return _ESCAPES.get(letter, letter)
    return f"\\U{ord(letter):08x}"


def _phrase(kind: inspect.Type, bounds: bool) -> str:  # noqa: PLR0911 - a case per kind of type
    match kind:
        case inspect.IntType() | inspect.FloatType():
            word = "integer" if isinstance(kind, inspect.IntType) else "number"
            limit = _bounds(kind) if bounds else ""
            return f"{word} {limit}" if limit else word
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "text" + (f" matching {kind.pattern}" if kind.pattern and bounds else "")
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType():
            return _join([str(value) for value in kind.values])
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            least = f"{kind.min_length} or more " if kind.min_length and bounds else ""
            return f"list of {least}{_plural(kind.item_type, bounds)}"
        case inspect.TupleType():
            return f"list [{', '.join(phrase(item, bounds=bounds) for item in kind.item_types)}]"
        case inspect.DictType() | inspect.StructType():
            return "mapping"
        case _:
            return "value"


def _plural(kind: inspect.Type, bounds: bool) -> str:
    text = phrase(kind, bounds=bounds)
    return re.sub(r"^(integer|number|mapping|value|list)\b", r"\1s", text)


def _article(text: str) -> str:
    first = text.split(maxsplit=1)[0]
    if first == "integer":
        return f"an {text}"
    return f"a {text}" if first in ("number", "list", "mapping", "value") else text


def _matters(kind: inspect.Type, value: Any) -> bool:
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return True


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    signs = {">": kind.gt, ">=": kind.ge, "<": kind.lt, "<=": kind.le, "a multiple of": kind.multiple_of}
    return ", ".join(f"{sign} {limit:.12g}" for sign, limit in signs.items() if limit is not None)


def _join(words: list[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"
