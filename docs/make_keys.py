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
    rows = sorted((row for row in describe(Experiment) if row.path != _DERIVED), key=lambda row: "." in row.path)
    parts = [_HEADER, *(_section(name, list(group)) for name, group in groupby(rows, key=_part))]
    chosen = [row for row in rows if row.path.endswith(".type")]
    parts += [_variant(rows, row.path, tag) for row in chosen for tag in row.choices if tag != row.default]
    return "\n".join(parts)


def _variant(rows: Iterable[Row], path: str, tag: str) -> str:
    """What another type of a part changes: keys that it adds or gives another default, and keys it lacks."""
    tree, _ = apply_overrides(Experiment, {"env": {"id": "any"}}, [f"{path}={tag}"])
    prefix = path.removesuffix("type")
    usual = {row.path: row for row in rows if row.path.startswith(prefix) and row.path != path}
    found = {row.path: row for row in describe(build(Experiment, tree)) if row.path.startswith(prefix)}
    changed = [row for name, row in found.items() if name != path and row != usual.get(name)]
    missing = ", ".join(f"`{name}`" for name in usual if name not in found)
    text = f"With `{path}={tag}`" + (f" there is no {missing}." if missing else " there is more.")
    return f"## {prefix}type={tag}\n\n{text}\n" + (f"\n{_table(changed)}" if changed else "")


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
