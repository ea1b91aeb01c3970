"""The event log: one JSON object per line, only ever appended to, and enough to redraw a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from rookery.errors import RookeryError, UserError
from rookery.observers.events import (
    Boundary,
    Copied,
    Ended,
    Event,
    Generation,
    Notice,
    Population,
    Started,
    Validated,
)

_BLOCK = 65536
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_KINDS: dict[object, type[msgspec.Struct]] = {kind.__struct_config__.tag: kind for kind in Event.__args__}


class EventLog:
    """Appends every event to `path`. A full disk costs lines of the log, never the run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab", buffering=0)
            self._size = _cut_torn_tail(path)
        except OSError as error:
            raise UserError(f"cannot write the event log {path}: {error.strerror}") from error
        self._encoder = msgspec.json.Encoder()
        self._warned = False

    def on(self, event: Event | Boundary) -> None:
        """Append one line, whole or not at all."""
        if isinstance(event, Boundary) or self._file.closed:
            return
        line = self._encoder.encode(event) + b"\n"
        try:
            # Part of a line may be on disk after a failed write; the next line must not continue it.
            if self._file.tell() != self._size:
                self._file.truncate(self._size)
                self._file.seek(self._size)
            if self._file.write(line) != len(line):
                raise OSError(0, "only part of a line could be written")
            self._size += len(line)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        """Release the file."""
        try:
            self._file.close()
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        """Say it once: a full disk would repeat it for every generation."""
        if not self._warned:
            self._warned = True
            cause = f"{self.path} cannot be written ({error.strerror})"
            sys.stderr.write(f"warning: {cause}; the run goes on, the log has a gap.\n")


def _cut_torn_tail(path: Path) -> int:
    """Remove what follows the last newline, left by a process killed while writing; the size that remains."""
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            file.truncate(end)
        return end


def read_events(path: Path) -> list[Event]:
    """All events of a log in order, without a torn last line and kinds that this version does not know."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the event log {path}: {error.strerror}") from error
    lines = data.split(b"\n")
    lines.pop()
    events: list[Event] = []
    decode = _DECODER.decode
    for number, line in enumerate(lines, 1):
        try:
            events.append(decode(line))
        except msgspec.MsgspecError as error:
            if not line.strip():
                continue
            event = _decode_leniently(line, f"{path}, line {number}", error)
            if event is not None:
                events.append(event)
    return events


def _decode_leniently(line: bytes, where: str, error: msgspec.MsgspecError) -> Event | None:
    """Decode a line that the strict decoder refused: an unknown kind, or a number that JSON cannot hold."""
    try:
        fields: Any = msgspec.json.decode(line)
        name = fields["event"]
        kind = _KINDS.get(name)
        if kind is None and isinstance(name, str):
            return None
        if kind is not None:
            event: Event = msgspec.convert(_restore_nan(kind, fields), Event)
            return event
    except (msgspec.MsgspecError, KeyError, TypeError):
        pass
    raise RookeryError(f"{where} is not an event: {error}") from error


def _restore_nan(kind: type[msgspec.Struct], fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN or infinity and they are written as null: read null as NaN where a number must be."""
    numbers = {field.name for field in msgspec.structs.fields(kind) if field.type is float}
    restored = {key: _nan_for_null(value) if key in numbers else value for key, value in fields.items()}
    telemetry = fields.get("telemetry")
    if isinstance(telemetry, dict):
        restored["telemetry"] = {key: _nan_for_null(value) for key, value in telemetry.items()}
    return restored


def _nan_for_null(value: Any) -> Any:
    """NaN instead of None, anything else as it is."""
    return float("nan") if value is None else value


class History(msgspec.Struct, frozen=True):
    """What really counts of a run: work that was lost with a killed process and done again appears once."""

    generations: list[Generation]
    validated: list[Validated]
    started: list[Started]
    ended: list[Ended]
    notices: list[Notice]
    populations: list[Population]
    copied: list[Copied]
    complete: bool
    """Whether the last sitting met a stop condition."""

    @property
    def best(self) -> Validated | None:
        """The validation of the best champion so far."""
        chosen = [entry for entry in self.validated if entry.best]
        return chosen[-1] if chosen else max(self.validated, key=lambda entry: entry.score, default=None)


def history(events: Iterable[Event]) -> History:
    """Sort events into a history; a sitting that starts at generation g supersedes all that was later."""
    found = History([], [], [], [], [], [], [], complete=False)
    complete = False
    for event in events:
        match event:
            case Generation():
                found.generations.append(event)
            case Validated():
                found.validated.append(event)
            case Population():
                found.populations.append(event)
            case Copied():
                found.copied.append(event)
            case Notice():
                found.notices.append(event)
            case Started():
                found.started.append(event)
                for entries in (found.generations, found.validated, found.populations, found.copied):
                    _drop_after(entries, event.generation)
                complete = False
            case Ended():
                found.ended.append(event)
                complete = event.complete
            case _:
                pass
    return msgspec.structs.replace(found, complete=complete)


def _drop_after(entries: list[Any], generation: int) -> None:
    """Remove the entries of later generations, which stand at the end."""
    while entries and entries[-1].generation > generation:
        entries.pop()
