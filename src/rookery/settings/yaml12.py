"""YAML as people expect it: `1e-4` is a number, `no` is a word, and a key written twice is an error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rookery.errors import UserError

_TAG = "tag:yaml.org,2002:"
_SCALARS: dict[str, tuple[re.Pattern[str], list[str]]] = {
    "null": (re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    "int": (
        re.compile(r"^(?:[-+]?[0-9]+|[-+]?[0-9]{1,3}(?:_[0-9]{3})+|0o[0-7]+|0x[0-9a-fA-F]+)$"),
        list("-+0123456789"),
    ),
    "float": (
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        list("-+.0123456789"),
    ),
}


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain data only: mappings with text keys, sequences, and the scalars of YAML 1.2."""

    # Fresh tables: the inherited ones hold YAML 1.1 (dates, sexagesimals, yes and no).
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012
    yaml_constructors: dict[str | None, Any] = {}  # noqa: RUF012


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise _problem("expected a mapping", node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise _problem(f"keys are words, but this one is {key!r}; quote it to make it a word", key_node)
        if key in result:
            raise _problem(f"the key {key!r} is given twice", key_node)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _sequence(loader: Any, node: Any) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode):
        raise _problem("expected a list", node)
    return [loader.construct_object(item, deep=True) for item in node.value]


def _scalar(loader: Any, node: Any) -> Any:
    text = loader.construct_scalar(node)
    kind = node.tag.removeprefix(_TAG)
    if kind == "str":
        return text
    if not _SCALARS[kind][0].match(text):
        raise _problem(f"{text!r} is not a YAML {kind}", node)
    match kind:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            return int(text, base)
        case _:
            return float(text.replace(".", "") if text[-1] in "fFnN" else text)


def _unknown(_: Any, node: Any) -> Any:
    raise _problem(f"the tag {node.tag!r} is not allowed here", node)


def _problem(text: str, node: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, text, node.start_mark)


for _kind, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, _first)
    _Loader.add_constructor(_TAG + _kind, _scalar)
_Loader.add_constructor(_TAG + "str", _scalar)
_Loader.add_constructor(_TAG + "map", _mapping)
_Loader.add_constructor(_TAG + "seq", _sequence)
_Loader.add_constructor(None, _unknown)


def parse(text: str, source: str = "") -> Any:
    """The value of a YAML document; errors are one line and name the source and the line."""
    try:
        return yaml.load(text, Loader=_Loader)  # the loader builds plain data only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}" if mark is not None and (source or "\n" in text) else ""
        where = ", ".join(part for part in (source, line) if part)
        what = error.problem or error.context or "not valid YAML"
        raise UserError(_one_line(where, what)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(_one_line(source, f"not valid YAML: {error}")) from None


def read_yaml(text: str, source: str = "") -> dict[str, Any]:
    """A tree of settings from YAML text; nothing but comments is an empty tree."""
    tree = parse(text, source)
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        raise UserError(_one_line(source, "the top level must be a mapping, such as `seed: 1`"))
    return dict(tree)


def read_file(path: Path) -> dict[str, Any]:
    """A tree of settings from a YAML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"there is no file {str(path)!r}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"cannot read {str(path)!r}: {reason}") from None
    return read_yaml(text, str(path))


def _one_line(where: str, what: str) -> str:
    return " ".join((f"{where}: {what}" if where else what).split())
