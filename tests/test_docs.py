"""The pages keep their promises: links lead somewhere, commands exist, and the table of keys is up to date."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer

from rookery.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<(?:img|source|a)\b[^>]*?(?:src|srcset|href)=\"([^\"\s]+)")
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:\S+=\S+ )*(?:\S*/)?rookery (.+)$")
_PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|\.\.\.|\[")


def name_of(page):
    return str(page.relative_to(ROOT))


def headings(page):
    """The anchors that GitHub gives to the headings of a page."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def commands(page):
    """What follows `rookery` on the command lines in a page's fenced blocks."""
    for block in _FENCE.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines()[1:-1]:
            if match := _COMMAND.match(line):
                yield match[1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for groups in _LINK.findall(text):
        link = next(filter(None, groups))
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{name_of(page)} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in headings(target), f"{name_of(page)} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_can_be_typed(page):
    known = typer.main.get_command(app).commands
    for line in commands(page):
        words = shlex.split(line, comments=True)
        if words[0].startswith("-"):
            continue
        assert words[0] in known, f"{name_of(page)}: there is no `rookery {words[0]}`"
        if _PLACEHOLDER.search(line):
            continue
        # Options that do not exist, and arguments that are missing or too many, raise here.
        known[words[0]].make_context(words[0], words[1:])


def test_table_of_keys_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_keys", ROOT / "docs" / "make_keys.py")
    make_keys = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_keys)
    written = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
    assert written == make_keys.page(), "write it again with `python docs/make_keys.py`"
