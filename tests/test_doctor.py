"""The doctor tries everything, survives whatever it meets, and says in one line what helps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rookery.doctor import TRIALS, Finding, Kind, Report, Trial, describe, examine
from rookery.envs.envpool import library
from rookery.fleet.specs import cores
from tests.conftest import environment

FATAL = """
import os, subprocess, sys, time
def abort(): os.abort()
def leave(): os._exit(3)
def complain(): print("what(): no luck", file=sys.stderr, flush=True); os._exit(4)
def hang():
    with open(os.environ["PID"], "w") as file: print(subprocess.Popen(["sleep", "100"]).pid, file=file)
    time.sleep(100)
"""


def doctor(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`rookery doctor` as it is typed in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "rookery", "doctor", *arguments],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def without(folder: Path, *packages: str) -> str:
    """A PYTHONPATH with which these packages cannot be imported."""
    (folder / "sitecustomize.py").write_text(f"import sys\nfor name in {packages}: sys.modules[name] = None\n")
    return os.pathsep.join([str(folder), environment()["PYTHONPATH"]])


@pytest.fixture
def fatal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `fatal` of environments that end or block the process in which they are made."""
    (tmp_path / "fatal.py").write_text(FATAL)
    monkeypatch.syspath_prepend(tmp_path)


def one(name: str, subject: str, kind: Kind = "gymnasium") -> Trial:
    return Trial(name, kind, subject, f"mend {name}")


def test_everything_is_tried_and_what_does_not_work_comes_with_a_remedy(tmp_path: Path) -> None:
    done = doctor(tmp_path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["healthy"]
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["cores"] == cores()
    found = {(finding["kind"], finding["name"]): finding for finding in report["findings"]}
    assert list(found) == [(trial.kind, trial.name) for trial in TRIALS]
    assert {name for kind, name in found if kind == "engine"} == {"inline", "process", "ray", "mpi"}
    engines = [key for key in found if key[0] == "engine"]
    for basic in (*engines, ("envpool", "mujoco"), ("gymnasium", "classic control"), ("film", "mp4")):
        assert found[basic]["works"], found[basic]
    for finding in found.values():
        assert finding["detail"]
        assert bool(finding["remedy"]) != finding["works"]
    assert not list(tmp_path.iterdir()), "environments that write files do so elsewhere"


def test_every_family_that_envpool_has_is_tried() -> None:
    library()
    from envpool.registration import registry

    families = {module for module, *_ in registry.specs.values()}
    assert {registry.specs[trial.subject][0] for trial in TRIALS if trial.kind == "envpool"} == families


def test_without_the_basics_the_exit_code_is_1_and_the_lines_can_be_shown_anywhere(tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    path = without(tmp_path / "path", "envpool", "ray", "mpi4py")
    done = doctor(tmp_path, PYTHONPATH=path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert "Traceback" not in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    remedy = "pip install --force-reinstall 'envpool<1.3'"
    assert f"no box2d import of envpool halted; None in sys.modules: {remedy}" in lines
    assert f"no mujoco frames import of envpool halted; None in sys.modules: {remedy}" in lines
    assert "ok inline all in one process" in lines
    assert "ok classic control CartPole-v1" in lines, "Gymnasium's own does not need EnvPool"
    assert lines[-1].startswith("Not ready:")


def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", without(tmp_path, "ray", "mpi4py", "Box2D"))
    report = examine([trial for trial in TRIALS if trial.name in ("ray", "mpi") or trial.kind == "gymnasium"])
    found = {finding.name: finding for finding in report.findings}
    for name, package, extra in (("ray", "ray", "ray"), ("mpi", "mpi4py", "mpi"), ("box2d", "Box2D", "gymnasium")):
        assert not found[name].works
        assert package in found[name].detail
        assert found[name].remedy == f"pip install 'rookery[{extra}]'"
    assert found["toy text"].works
    assert report.healthy, "nobody needs these to begin"


@pytest.mark.usefixtures("fatal")
def test_a_family_that_ends_its_process_does_not_stop_the_others() -> None:
    trials = [
        one("first", "CartPole-v1"),
        one("aborts", "fatal:abort"),
        one("unknown", "NoSuchThing-v0"),
        one("leaves", "fatal:leave"),
        one("complains", "fatal:complain"),
        one("last", "FrozenLake-v1"),
    ]
    findings = examine(trials).findings
    assert [finding.name for finding in findings] == [trial.name for trial in trials]
    assert [finding.works for finding in findings] == [True, False, False, False, False, True]
    assert [finding.remedy for finding in findings[1:-1]] == [f"mend {trial.name}" for trial in trials[1:-1]]
    aborts, unknown, leaves, complains = (finding.detail for finding in findings[1:-1])
    assert aborts.startswith("it crashed: Abort")
    assert "unknown environment 'NoSuchThing-v0'" in unknown
    assert leaves == "it ended with exit code 3"
    assert complains == "it ended with exit code 4 (what(): no luck)"


@pytest.mark.usefixtures("fatal")
def test_a_family_that_hangs_is_given_up_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PID", str(tmp_path / "pid"))
    hangs, last = examine([one("hangs", "fatal:hang"), one("last", "CartPole-v1")], seconds=2.0).findings
    assert hangs == Finding(
        "hangs", "gymnasium", False, "no answer within 2 s", "try again when the machine is less busy"
    )
    assert last.works
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    assert not status.exists() or "Z (zombie)" in status.read_text()


def test_without_opengl_mujoco_is_not_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_DIRS", str(tmp_path))
    (frames,) = examine([trial for trial in TRIALS if trial.name == "mujoco frames"]).findings
    assert not frames.works
    assert frames.remedy.startswith("apt install libegl1 libgl1-mesa-dri")


def test_a_report_is_one_aligned_line_for_each_finding() -> None:
    good = Finding("a", "engine", True, "fine")
    bad = Finding("longer", "film", False, "pas installé", "apt install it")
    report = Report("1.0", "3.12.1", 4, True, (good, bad))
    lines = ["Rookery 1.0, Python 3.12.1, 4 cores", "", "Engines", "  ✓ a       fine", "", "Films"]
    end = ["", "Ready: rookery run lander"]
    assert describe(report).split("\n") == [*lines, "  ✗ longer  pas installé: apt install it", *end]
    plain = describe(report, "ascii").split("\n")
    assert [plain[3], plain[6]] == ["  ok a       fine", "  no longer  pas install?: apt install it"]
