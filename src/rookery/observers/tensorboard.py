"""TensorBoard curves of a run, over environment steps."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from rookery.observers.events import Boundary, Event, Generation, Population, Started, Validated


class TensorBoard:
    """Writes one event file per sitting into `directory`; a resumed run hides the points it does again."""

    def __init__(self, directory: Path) -> None:
        # The events are put together here and not by tensorboard.summary.Writer: that one cannot write the
        # session start that purges superseded points, and it imports TensorFlow, seconds of it, wherever that
        # is installed. The import below was measured at 0.05 s beside NumPy; it needs no thread of its own.
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._events = event_pb2
        directory.mkdir(parents=True, exist_ok=True)
        # Readers take the files in the order of their names, so the names count sittings and not a clock.
        sitting = 1 + len(list(directory.glob("events.out.tfevents.*")))
        self._file = (directory / f"events.out.tfevents.{sitting:010d}.rookery").open("xb")
        self._records = RecordWriter(self._file)
        self._write(event_pb2.Event(wall_time=time.time(), file_version="brain.Event:2"))
        self._varied: set[str] = set()  # hyperparameters in which members have differed

    def on(self, event: Event | Boundary) -> None:
        """Write the scalars of one event."""
        match event:
            case Started():
                self._purge(event)
            case Generation():
                self._scalars(event, generation_scalars(event))
            case Validated():
                self._scalars(event, validation_scalars(event))
            case Population():
                self._varied |= varied(event)
                self._scalars(event, population_scalars(event, self._varied))
            case _:
                pass

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def _purge(self, event: Started) -> None:
        """Tell readers that later points are superseded; they keep what is below the step of this record."""
        start = self._events.SessionLog(status=self._events.SessionLog.START)
        self._write(self._events.Event(wall_time=event.time, step=event.steps + 1, session_log=start))

    def _scalars(self, event: Generation | Validated | Population, values: Mapping[str, float]) -> None:
        """One record with all values of a moment."""
        record = self._events.Event(wall_time=event.time, step=event.steps)
        for tag, value in values.items():
            record.summary.value.add(tag=tag, simple_value=value)
        self._write(record)

    def _write(self, record: object) -> None:
        """Append a whole record, visible at once to a TensorBoard that is watching."""
        self._records.write(record.SerializeToString())  # type: ignore[attr-defined]
        self._file.flush()


def validation_scalars(event: Validated) -> dict[str, float]:
    """Tag and value of the scores of a validation."""
    scalars = {"score/validated": event.score}
    if event.unseen is not None:
        scalars["score/unseen"] = event.unseen
    names = {"score": "score/normalised", "unseen": "score/unseen_normalised"}
    return scalars | {names[name]: value for name, value in event.normalised.items()}


def varied(event: Population) -> set[str]:
    """The hyperparameters in which members differ."""
    names = event.members[0].hyperparameters if event.members else {}
    return {name for name in names if len({row.hyperparameters[name] for row in event.members}) > 1}


def population_scalars(event: Population, names: Collection[str]) -> dict[str, float]:
    """Tag and value of what each member earned, and of these hyperparameters of it."""
    scalars = {}
    for row in event.members:
        scalars[f"member/{row.id}/score"] = row.score
        scalars |= {f"member/{row.id}/{name}": row.hyperparameters[name] for name in sorted(names)}
    return scalars


def generation_scalars(event: Generation) -> dict[str, float]:
    """Tag and value of everything that a generation tells."""
    scalars = {
        "fitness/min": event.fitness_min,
        "fitness/mean": event.fitness_mean,
        "fitness/max": event.fitness_max,
        "steps_per_second": event.steps_per_second,
        "episode_length": event.episode_length,
        "failed": float(event.failed),
        "generation": float(event.generation),
    }
    if event.score is not None:
        scalars["score/champion"] = event.score
    if event.fleet is not None:
        scalars |= {f"fleet/{name}": float(value) for name, value in msgspec.structs.asdict(event.fleet).items()}
    scalars |= {f"time/{name}": seconds for name, seconds in event.times.items()}
    return scalars | {f"algorithm/{name}": value for name, value in event.telemetry.items()}
