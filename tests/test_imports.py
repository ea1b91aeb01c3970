"""What a start costs: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import environment

HEAVY = ("jax", "torch", "tensorflow", "pandas")
LATER = ("envpool", "gymnasium", "numpy", "tensorboard", "matplotlib", "PIL", "safetensors")


def imported(script: str, *arguments: str) -> set[str]:
    """The modules that are there when a script has run."""
    ending = "import sys; print('\\n'.join(['MODULES', *(n for n, m in sys.modules.items() if m is not None)]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\n{ending}", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.partition("MODULES\n")[2].split("\n"))


def test_importing_rookery_and_asking_for_help_imports_nothing_heavy() -> None:
    modules = imported(
        "import rookery\nfrom rookery.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert not end.code"
    )
    assert "rookery.cli" in modules
    assert not modules & {*HEAVY, *LATER}


def test_evolving_and_measuring_import_neither_jax_nor_torch(tmp_path: Path) -> None:
    modules = imported(
        "import sys\nfrom rookery.cli import main\n"
        "for line in ('run cartpole population=4 stop.generations=1 validation_episodes=1 --quiet --name one',\n"
        "             'evaluate one --episodes 2', 'list'):\n"
        "    try: main([*line.split(), '--runs', sys.argv[1]])\n"
        "    except SystemExit as end: assert not end.code, line\n",
        str(tmp_path),
    )
    assert "envpool" in modules
    assert not modules & set(HEAVY)
