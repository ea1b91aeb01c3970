"""What can happen in a run. Algorithms raise these; observers listen; the event log is made of them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from rookery.fleet import FleetStats

ScoreRange = tuple[float, float]


def normalise(score: float, score_range: ScoreRange) -> float:
    """Where a score lies between low, which becomes 0, and high, which becomes 1."""
    low, high = score_range
    return (score - low) / (high - low)


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """`time` is seconds since the epoch, `seconds` how long the run has run, all sittings together."""

    time: float
    seconds: float


class Started(_Event, frozen=True, tag="started"):
    """A sitting begins: a new run at generation 0, or a resumed one at the generation of its checkpoint."""

    name: str
    directory: str
    generation: int
    steps: int
    version: str
    engine: str = "inline"
    workers: int = 1


class Generation(_Event, frozen=True, tag="generation"):
    """One generation is done. `score` is what the champion that it began with earned; `times` are in seconds."""

    generation: int
    steps: int
    episodes: int
    fitness_min: float
    fitness_mean: float
    fitness_max: float
    score: float | None
    episode_length: float
    steps_per_second: float
    times: dict[str, float] = msgspec.field(default_factory=dict)
    failed: int = 0
    telemetry: dict[str, float] = msgspec.field(default_factory=dict)
    fleet: FleetStats | None = None


class Validated(_Event, frozen=True, tag="validated"):
    """The champion of `generation` was evaluated on fresh episodes, in `taken` steps that are not counted.

    `unseen` is what it earned on as many episodes of what training never shows, where the experiment has that.
    """

    generation: int
    steps: int
    score: float
    std: float
    episodes: int
    best: bool
    taken: int = 0
    unseen: float | None = None
    unseen_std: float | None = None
    score_range: ScoreRange | None = None

    @property
    def normalised(self) -> dict[str, float]:
        """The score and the unseen one as shares of the range of scores, where there is one."""
        if self.score_range is None:
            return {}
        found = {"score": normalise(self.score, self.score_range)}
        return found if self.unseen is None else {**found, "unseen": normalise(self.unseen, self.score_range)}


class MemberRow(msgspec.Struct, frozen=True):
    """A member of a population when it was measured, with the hyperparameters that it had learned with."""

    id: int
    score: float
    steps: int
    hyperparameters: dict[str, float]


class Population(_Event, frozen=True, tag="population"):
    """All members of `generation`, as they were compared."""

    generation: int
    steps: int
    members: tuple[MemberRow, ...]


class Copied(_Event, frozen=True, tag="copied"):
    """A member became a copy of another, each at so many of its own steps, and its hyperparameters changed."""

    generation: int
    steps: int
    child: int
    parent: int
    at: int
    parent_at: int
    reason: str
    before: dict[str, float]
    after: dict[str, float]


class Checkpointed(_Event, frozen=True, tag="checkpointed"):
    """A checkpoint is whole on disk."""

    generation: int
    path: str
    best: bool = False


class Notice(_Event, frozen=True, tag="notice"):
    """Something that the user should know, in one line."""

    message: str


class Ended(_Event, frozen=True, tag="ended"):
    """The sitting is over; `complete` says whether a stop condition was met (otherwise it can be resumed)."""

    generation: int
    steps: int
    reason: str
    complete: bool
    score: float | None = None
    resume: str | None = None


Event = Started | Generation | Validated | Population | Copied | Checkpointed | Notice | Ended
Told = tuple[type[Population | Copied], dict[str, Any]]  # an event but for the moment that it is published at


class Boundary(msgspec.Struct, frozen=True):
    """The run stands between two generations: `progress` is everything that is needed to go on from here.

    It is for the checkpoint observer and is not written to the log.
    """

    progress: Any
    seconds: float
    final: bool = False
    best: bool = False


class Observer(Protocol):
    """Listens to a run. It must not change anything that the run can see."""

    def on(self, event: Event | Boundary) -> None: ...

    def close(self) -> None: ...
