"""What can be asked for in algorithm.type, and within the libraries that some types stand for."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill

from rookery.errors import UserError
from rookery.evolution import Searcher, evosax, nevergrad

_WIDTH = 100
_LIBRARIES: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "nevergrad": ("algorithm.type=nevergrad algorithm.optimizer=", nevergrad.names),
    "evosax": ("algorithm.type=evosax algorithm.strategy=", evosax.names),
}


def catalogue() -> dict[str, list[str]]:
    """Our own types, and the names that each library knows; none for one that is not installed."""
    own = [str(kind.__struct_config__.tag) for kind in typing.get_args(Searcher)]
    return {"algorithms": own, **{library: _names(find) for library, (_, find) in _LIBRARIES.items()}}


def describe(found: Mapping[str, Sequence[str]]) -> str:
    """The same for a person."""
    parts = [f"algorithm.type=  (`rookery run lander algorithm.type=TYPE`)\n{_block(found['algorithms'])}"]
    for library, (key, _) in _LIBRARIES.items():
        listed = _block(found[library]) if found[library] else f"  pip install 'rookery[{library}]'"
        parts.append(f"{key}\n{listed}")
    return "\n\n".join(parts)


def _names(find: Callable[[], list[str]]) -> list[str]:
    try:
        return find()
    except UserError:
        return []


def _block(names: Sequence[str]) -> str:
    return fill(", ".join(names), _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
