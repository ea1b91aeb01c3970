"""The pages keep their promises: links lead somewhere, commands exist, and the table of keys is up to date."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from benchmarks import report
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


def test_tables_of_figures_are_those_that_were_measured():
    for page in report.PAGES:
        written = (ROOT / page).read_text(encoding="utf-8")
        assert written == report.filled(written), f"{page}: fill it again with `python -m benchmarks.report`"


def test_what_was_never_measured_is_said_to_be_so():
    page = "<!-- table: nothing -->\n<!-- end -->"
    assert report.filled(page) == "<!-- table: nothing -->\n*Not measured yet.*\n<!-- end -->"


@pytest.mark.parametrize("engine", ["Process(workers=2)", "Inline()"])
def test_the_actor_of_the_fleet_page_throws_darts(engine, tmp_path):
    actor, program = re.findall(r"```python\n(.*?)```", (ROOT / "docs/fleet.md").read_text(), re.DOTALL)
    (tmp_path / "pi.py").write_text(actor)
    program = program.replace("Process(workers=2)", engine).replace("import", "import Inline,", 1)
    (tmp_path / "main.py").write_text(program)
    start = [sys.executable, "main.py"]
    done = subprocess.run(start, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("3.14"), done.stderr
