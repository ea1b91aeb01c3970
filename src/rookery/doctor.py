"""What works on this machine: each engine and family of environments is tried where its crash harms nobody."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

import rookery
from rookery.errors import RookeryError
from rookery.fleet import MPI, ActorSpec, EngineSpec, Fleet, Inline, Process, Ray
from rookery.fleet.specs import cores

Kind = Literal["engine", "envpool", "gymnasium", "film"]

_TITLES: dict[Kind, str] = {
    "engine": "Engines",
    "envpool": "Environments of EnvPool",
    "gymnasium": "Environments of Gymnasium itself (env.backend=gymnasium)",
    "film": "Films",
}
_SHARING = ("envpool", "gymnasium")  # kinds that are tried in one process, so that a library is loaded once
_SECONDS = 20.0  # for one trial
_ALL_SECONDS = 60.0  # after which nothing more is begun, and what was begun has one trial's time to end
_CHILD = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from rookery.doctor import carry_out; carry_out(sys.argv[2], float(sys.argv[3]))"
)
_OPEN_MPI = {  # it asks root and the owners of few cores whether they mean it
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
_FOUND, _SAID = "found.jsonl", "said.txt"
_LIBRARY = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")


class Trial(msgspec.Struct, frozen=True):
    """Something to be tried: an engine's name, an environment's id or ffmpeg; and what helps where it fails."""

    name: str
    kind: Kind
    subject: str
    remedy: str


class Finding(msgspec.Struct, frozen=True):
    """What came of a trial: what was found or what is wrong and, where it does not work, what to do."""

    name: str
    kind: Kind
    works: bool
    detail: str
    remedy: str = ""


class Report(msgspec.Struct, frozen=True):
    """A machine as the doctor found it; it is healthy if the simplest runs work."""

    rookery: str
    python: str
    cores: int
    healthy: bool
    findings: tuple[Finding, ...]


_ENVPOOL = "pip install --force-reinstall 'envpool<1.3'"
_GYMNASIUM = "pip install 'rookery[gymnasium]'"
_QT = "pip install 'rookery[procgen]'"
_PLAIN = (("libQt5", _QT), ("envpool", _ENVPOOL))  # what such a reason asks for, whatever was tried

TRIALS = (
    Trial("inline", "engine", "inline", "pip install --force-reinstall rookery"),
    Trial("process", "engine", "process", "pip install --force-reinstall rookery"),
    Trial("ray", "engine", "ray", "pip install 'rookery[ray]'"),
    Trial("mpi", "engine", "mpi", "pip install 'rookery[mpi]'"),
    Trial("classic control", "envpool", "CartPole-v1", _ENVPOOL),
    Trial("box2d", "envpool", "LunarLander-v3", _ENVPOOL),
    Trial("toy text", "envpool", "FrozenLake-v1", _ENVPOOL),
    Trial("mujoco", "envpool", "InvertedPendulum-v5", _ENVPOOL),
    Trial("dm_control", "envpool", "CartpoleBalance-v1", _ENVPOOL),
    Trial("robotics", "envpool", "FetchReach-v4", _ENVPOOL),
    Trial("metaworld", "envpool", "MetaWorld/Reach-v3", _ENVPOOL),
    Trial("myosuite", "envpool", "myoFingerReachFixed-v0", _ENVPOOL),
    Trial("playground", "envpool", "Go1Getup-v1", _ENVPOOL),
    Trial("atari", "envpool", "Pong-v5", _ENVPOOL),
    Trial("procgen", "envpool", "BigfishEasy-v0", _ENVPOOL),
    Trial("football", "envpool", "gfootball/academy_empty_goal-v1", _ENVPOOL),
    Trial("vizdoom", "envpool", "Basic-v1", _ENVPOOL),
    Trial("minigrid", "envpool", "MiniGrid-Empty-5x5-v0", _ENVPOOL),
    Trial("highway", "envpool", "Highway-v0", _ENVPOOL),
    Trial("jumanji", "envpool", "Game2048-v1", _ENVPOOL),
    Trial("pgx", "envpool", "Play2048-v1", _ENVPOOL),
    Trial("classic control", "gymnasium", "CartPole-v1", _GYMNASIUM),
    Trial("box2d", "gymnasium", "LunarLander-v3", _GYMNASIUM),
    Trial("toy text", "gymnasium", "FrozenLake-v1", _GYMNASIUM),
    Trial("mujoco", "gymnasium", "InvertedPendulum-v5", "pip install 'gymnasium[mujoco]'; EnvPool's does without"),
    Trial(
        "mujoco frames",
        "film",
        "InvertedPendulum-v5",
        "apt install libegl1 libgl1-mesa-dri; training and evaluating do without",
    ),
    Trial("mp4", "film", "ffmpeg", "pip install 'imageio[ffmpeg]', or write a .gif"),
)
_BASICS = (("engine", "inline"), ("envpool", "classic control"), ("envpool", "box2d"))


def examine(trials: Sequence[Trial] = TRIALS, seconds: float = _SECONDS) -> Report:
    """Try everything, each for so many seconds at most."""
    until = time.monotonic() + _ALL_SECONDS
    findings: list[Finding] = []
    for kind in _TITLES:
        alike = [trial for trial in trials if trial.kind == kind]
        for together in [alike] if kind in _SHARING else [[trial] for trial in alike]:
            findings += _try(together, seconds, until)
    ill = {(finding.kind, finding.name) for finding in findings if not finding.works}
    return Report(
        rookery.__version__, platform.python_version(), cores(), ill.isdisjoint(_BASICS), tuple(findings)
    )


def describe(report: Report, encoding: str = "utf-8") -> str:
    """The report as lines that a terminal with this encoding can show."""
    good, bad = ("✓", "✗") if "✓✗".encode(encoding, "ignore").decode(encoding) == "✓✗" else ("ok", "no")
    width = max((len(finding.name) for finding in report.findings), default=0)
    lines = [f"Rookery {report.rookery}, Python {report.python}, {report.cores} cores"]
    for kind, title in _TITLES.items():
        found = [finding for finding in report.findings if finding.kind == kind]
        lines += ["", title] if found else []
        for finding in found:
            told = ": ".join(filter(None, (finding.detail, finding.remedy)))
            lines.append(f"  {good if finding.works else bad:<{len(bad)}} {finding.name:<{width}}  {told}")
    names = " and ".join(name for _, name in _BASICS[1:])
    ready = "Ready: rookery run lander" if report.healthy else f"Not ready: inline, {names} of EnvPool must work"
    return "\n".join([*lines, "", ready]).encode(encoding, "replace").decode(encoding)


def _try(trials: Sequence[Trial], seconds: float, until: float) -> list[Finding]:
    """Try these in one process. One that ends it is tried again by itself, and the others go on without it."""
    if not trials:
        return []
    if time.monotonic() > until:
        reason = "not tried, as other trials took too long"
        return [Finding(trial.name, trial.kind, False, reason, trial.remedy) for trial in trials]
    patience = min((seconds + 1) * len(trials), until - time.monotonic() + seconds)
    found, ending, slow = _attempt(trials, seconds, patience)
    if len(found) == len(trials):
        return found
    culprit, rest = trials[len(found)], trials[len(found) + 1 :]
    if slow:
        found.append(Finding(culprit.name, culprit.kind, False, ending, "try again when the machine is less busy"))
    elif len(trials) == 1:
        found.append(Finding(culprit.name, culprit.kind, False, ending, culprit.remedy))
    else:
        found += _try([culprit], seconds, until)
    return found + _try(rest, seconds, until)


def _attempt(trials: Sequence[Trial], seconds: float, patience: float) -> tuple[list[Finding], str, bool]:
    """The findings of a process up to its end, how it ended, and whether that was for being slow."""
    work = [json.dumps(sys.path), msgspec.json.encode(trials).decode(), str(seconds)]
    try:
        with tempfile.TemporaryDirectory(prefix="rookery-doctor-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            code = _run([sys.executable, "-W", "ignore", "-c", _CHILD, *work], folder, patience)
            found = [
                msgspec.json.decode(line, type=Finding) for line in _lines(folder / _FOUND) if line[-1:] == b"\n"
            ]
            said = _lines(folder / _SAID)
    except OSError as error:
        raise RookeryError(f"nothing can be tried here: {error}") from error
    if code == -signal.SIGALRM:
        return found, f"no answer within {seconds:g} s", True
    ending = f"it crashed: {signal.strsignal(-code)}" if code < 0 else f"it ended with exit code {code}"
    last = said[-1].decode(errors="replace").strip()[:200] if said else ""
    return found, f"{ending} ({last})" if last else ending, False


def _run(command: Sequence[str], folder: Path, seconds: float) -> int:
    """The exit code of a command that is run in a folder; what it has started and left ends with it."""
    with (folder / _SAID).open("wb") as said:
        process = subprocess.Popen(
            command,
            cwd=folder,  # some environments write files where they stand
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:  # its own alarm did not end it
            return -signal.SIGALRM
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def carry_out(trials: str, seconds: float) -> None:
    """In a process of its own: one trial after the other, and what came of each on a line of a file."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with Path(_FOUND).open("ab") as file:
        for trial in msgspec.json.decode(trials, type=tuple[Trial, ...]):
            signal.setitimer(signal.ITIMER_REAL, seconds)  # it ends the process, whatever that is doing
            file.write(msgspec.json.encode(_find(trial)) + b"\n")
            file.flush()


def _find(trial: Trial) -> Finding:
    probe = {"engine": _engine, "envpool": _environment, "gymnasium": _environment, "film": _film}[trial.kind]
    try:
        return Finding(trial.name, trial.kind, True, probe(trial))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what was looked for)
        reason = _reason(error)
        remedy = next((remedy for sign, remedy in _PLAIN if sign in reason), trial.remedy)
        return Finding(trial.name, trial.kind, False, reason, remedy)


class Pulse:
    """An actor whose only use is to answer."""

    def beat(self) -> int:
        """Which process it lives in."""
        return os.getpid()


def _engine(trial: Trial) -> str:
    """Have workers, and an answer from each."""
    module = importlib.import_module(f"rookery.fleet.{trial.subject}")
    if trial.subject == "mpi":
        return _ranks(_mpiexec())
    specs: dict[str, EngineSpec] = {"inline": Inline(), "process": Process(), "ray": Ray(workers=1)}
    workers = len(_beats(specs[trial.subject]))
    if trial.subject == "ray":
        return f"Ray {module.ray.__version__}"
    return f"{workers} workers" if workers > 1 else "all in one process"


def _beats(spec: EngineSpec) -> list[int]:
    with Fleet(ActorSpec("rookery.doctor:Pulse"), spec) as fleet:
        fleet.assemble()
        return list(fleet.all("beat").values())


def _ranks(mpiexec: str) -> str:
    """Start two ranks as a user would, and see whether they find each other."""
    script = "from rookery.doctor import as_rank; as_rank()"
    command = [mpiexec, "-n", "2", sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=os.environ | _OPEN_MPI, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RookeryError(said[-1].removeprefix("error: ") if said else f"{mpiexec} failed")
    return f"{done.stdout.strip()}, started with {mpiexec}"


def as_rank() -> None:
    """One of the two ranks; the head says what MPI this is."""
    spec = MPI()
    try:
        if not spec.serve():
            import mpi4py.MPI

            _beats(spec)
            sys.stdout.write(mpi4py.MPI.Get_library_version().split(",")[0].splitlines()[0].strip())
    except RookeryError as error:
        sys.exit(f"error: {error}")


def _mpiexec() -> str:
    """How to call the mpiexec that was installed with this Python, or else another one."""
    on_path = shutil.which("mpiexec")
    own = Path(sys.executable).parent / "mpiexec"
    if own.exists():
        return "mpiexec" if on_path and own.samefile(on_path) else str(own)
    if on_path is None:
        raise RookeryError("mpi4py is there, but mpiexec is neither on the PATH nor beside Python")
    return "mpiexec"


def _environment(trial: Trial) -> str:
    """Make it as a run would, reset it, and take one step."""
    import numpy as np

    from rookery.envs import Continuous, Env, arena

    backend: Any = trial.kind
    place = arena(Env(id=trial.subject, backend=backend, flatten=True))
    batch = place.batch([0])
    batch.reset()
    step = batch.receive()
    action = place.spaces.action
    if isinstance(action, Continuous):
        choice = np.clip(np.zeros(len(action.low), np.float32), *action.bounds)
    else:
        choice = np.zeros(() if action.scalar else len(action.choices), np.int64)
    if not step.failures:
        batch.send(choice[None], step.ids)
        step = batch.receive()
    for failure in step.failures.values():
        raise RookeryError(failure)
    batch.close()
    place.close()
    return trial.subject


def _film(trial: Trial) -> str:
    """Encode with ffmpeg, or draw an environment of EnvPool."""
    if trial.subject == "ffmpeg":
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
        return f"ffmpeg {imageio_ffmpeg.get_ffmpeg_version()}"
    from rookery.envs.envpool import draw_one_frame

    draw_one_frame(trial.subject)
    return trial.subject


def _reason(error: BaseException) -> str:
    """What was wrong in the first place, on one line: the advice of those who passed it on is not ours."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split())
    if library := _LIBRARY.search(text):
        return f"{library[1]} is missing"
    if isinstance(error, RookeryError | ImportError) and text:
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")
