"""A run's directory: its experiment, its checkpoints, its events, and a lock for the process that writes it."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rookery.errors import RookeryError, UserError, did_you_mean
from rookery.store.codec import DamagedError, decode
from rookery.store.files import link_whole, write_whole

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CHECKPOINT = re.compile(r"(\d{6,})\.safetensors")


class RunDirectory:
    """Where one run lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.experiment_path = path / "experiment.yaml"
        self.events_path = path / "events.jsonl"
        self.tensorboard_path = path / "tensorboard"
        self.best_path = path / "best.safetensors"
        self._checkpoints = path / "checkpoints"

    @classmethod
    def create(cls, runs: Path, name: str | None, stem: str, experiment: str) -> RunDirectory:
        """A new run called `name`, or else `stem`-1, -2, ...; the name is taken by making the directory."""
        if name is not None and not _NAME.fullmatch(name):
            raise UserError(f"--name: '{name}' cannot name a run; use letters, digits, '.', '_' and '-'")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            path = _take_name(runs, name, stem)
            run = cls(path)
            run._checkpoints.mkdir()
            write_whole(run.experiment_path, experiment.encode())
        except OSError as error:
            raise UserError(
                f"cannot write runs to '{runs}': {error.strerror}; --runs DIR writes elsewhere"
            ) from error
        return run

    @classmethod
    def open(cls, runs: Path, name: str) -> RunDirectory:
        """An existing run, by its name or by the path of its directory."""
        for path in (runs / name, Path(name)):
            if (path / "experiment.yaml").is_file():
                return cls(path)
        known = [run.name for run in cls.all(runs)]
        hint = did_you_mean(name, known) or (" `rookery list` shows the runs." if known else "")
        raise UserError(f"no run '{name}' in '{runs}'.{hint}")

    @classmethod
    def all(cls, runs: Path) -> list[RunDirectory]:
        """Every run in a directory, oldest first."""
        if not runs.is_dir():
            return []
        found = [cls(path.parent) for path in runs.glob("*/experiment.yaml")]
        return sorted(found, key=lambda run: (run.experiment_path.stat().st_mtime, run.name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from carrying on the same run; the lock goes with the process."""
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                raise UserError(f"run '{self.name}' is going on in process {file.read().strip()}") from error
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            for half_written in self.path.rglob(".*.tmp"):
                half_written.unlink()
            yield

    def is_locked(self) -> bool:
        """Whether a process is carrying on this run now."""
        try:
            with (self.path / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def checkpoints(self) -> dict[int, Path]:
        """Checkpoints by generation, oldest first."""
        found = ((_CHECKPOINT.fullmatch(path.name), path) for path in self._checkpoints.glob("*.safetensors"))
        return dict(sorted((int(match[1]), path) for match, path in found if match))

    def save(self, generation: int, data: bytes, best: bool, keep: int) -> Path:
        """Write a checkpoint, whole or not at all, and thin out older ones to `keep`."""
        path = self._checkpoints / f"{generation:06d}.safetensors"
        write_whole(path, data)
        if best:
            link_whole(path, self.best_path)
        self._thin_out(keep)
        return path

    def _thin_out(self, keep: int) -> None:
        """Drop the checkpoints whose neighbours are nearest, so that those that stay are spread over the run."""
        kept = list(self.checkpoints().items())
        while len(kept) > keep:
            gaps = [kept[i + 1][0] - kept[i - 1][0] for i in range(1, len(kept) - 1)]
            where = 1 + gaps.index(min(gaps)) if gaps else 0
            kept.pop(where)[1].unlink()

    def load(self, which: str, kind: type[T]) -> tuple[T, list[str]]:
        """A checkpoint (`latest`, `best` or a generation), and what had to be passed over to get at it."""
        if which == "latest":
            return self._newest_whole(kind)
        if which == "best":
            if not self.best_path.exists():
                return self._newest_whole(kind)
            path = self.best_path
        else:
            checkpoints = self.checkpoints()
            if not (which.isascii() and which.isdigit()) or int(which) not in checkpoints:
                kept = ", ".join(map(str, checkpoints)) or "none yet"
                raise UserError(f"run '{self.name}' has no checkpoint '{which}'; it has latest, best and {kept}")
            path = checkpoints[int(which)]
        try:
            return decode(path.read_bytes(), kind), []
        except DamagedError as error:
            raise RookeryError(f"the checkpoint {path} is damaged: {error}") from error

    def _newest_whole(self, kind: type[T]) -> tuple[T, list[str]]:
        passed_over: list[str] = []
        for generation, path in reversed(self.checkpoints().items()):
            try:
                return decode(path.read_bytes(), kind), passed_over
            except DamagedError as error:
                passed_over.append(
                    f"the checkpoint of generation {generation} is damaged ({error}); using the one before"
                )
        reason = passed_over[0] if passed_over else "it was stopped before it wrote one"
        raise RookeryError(f"run '{self.name}' has no whole checkpoint: {reason}")


def _take_name(runs: Path, name: str | None, stem: str) -> Path:
    if name is not None:
        try:
            (runs / name).mkdir()
        except FileExistsError as error:
            raise UserError(
                f"the run '{name}' exists already: `rookery resume {name}` goes on with it; "
                "another --name starts a new one"
            ) from error
        return runs / name
    numbers = [
        int(path.name.removeprefix(f"{stem}-"))
        for path in runs.glob(f"{stem}-*")
        if path.name[len(stem) + 1 :].isdigit()
    ]
    number = max(numbers, default=0) + 1
    while True:  # another process may take the same number at the same time
        try:
            (runs / f"{stem}-{number}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return runs / f"{stem}-{number}"
