"""Write docs/keys.md, the table of every key of an experiment, from the descriptions in the code.

Run it after changing a key, from the top of the repository: `.venv/bin/python docs/make_keys.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from rookery.experiment import Experiment
from rookery.settings import Row, apply_overrides, build, describe
from rookery.settings.phrases import flow

PAGE = Path(__file__).with_name("keys.md")
_DERIVED = "genes"  # filled while loading; nobody sets it
_HEADER = """# Every key of an experiment

Written by `docs/make_keys.py` from the descriptions in the code; do not edit it by hand.
`rookery presets PRESET` shows the same keys with the values of a preset.
How keys are set is described in [Experiments](experiments.md).
"""


def page() -> str:
    """The whole page as Markdown."""
    rows = [row for row in describe(Experiment) if row.path != _DERIVED]
    parts = [_HEADER, *(_section(name, list(group)) for name, group in groupby(rows, key=_part))]
    for choice in rows:
        for tag in choice.choices if choice.path.endswith(".type") else ():
            if tag != choice.default and (extra := _differences(rows, choice.path, tag)):
                part = choice.path.removesuffix(".type")
                text = f"With `{choice.path}={tag}`, these replace the keys of `{part}` that have the same name,"
                parts.append(f"## {part}: {tag}\n\n{text} or come in addition.\n\n{_table(extra)}")
    return "\n".join(parts)


def _differences(rows: Iterable[Row], path: str, tag: str) -> list[Row]:
    """The rows below a part that another of its types adds, or to which it gives another default."""
    tree, _ = apply_overrides(Experiment, {"env": {"id": "any"}}, [f"{path}={tag}"])
    other, prefix = describe(build(Experiment, tree)), path.removesuffix("type")
    known = {(row.path, flow(row.default)) for row in rows}
    return [r for r in other if r.path.startswith(prefix) and r.path != path and _identity(r) not in known]


def _identity(row: Row) -> tuple[str, str]:
    return row.path, flow(row.default)


def _part(row: Row) -> str:
    return row.path.partition(".")[0] if "." in row.path else "experiment"


def _section(name: str, rows: list[Row]) -> str:
    return f"## {name}\n\n{_table(rows)}"


def _table(rows: Iterable[Row]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{row.path}` | {_type(row)} | {_default(row)} | {_cell(row.help)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _type(row: Row) -> str:
    return _cell(f"{row.type}, {row.bounds}" if row.bounds else row.type)


def _default(row: Row) -> str:
    return "required" if row.required else f"`{_cell(flow(row.default))}`"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
