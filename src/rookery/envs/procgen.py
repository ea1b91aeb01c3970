"""Procgen: sixteen games with a level for every number, and so with levels that an agent was never shown."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Game = Literal[
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
]
Distribution = Literal["easy", "hard", "extreme", "memory", "exploration"]
ScoreRange = tuple[float, float]

LEVELS = 2**31 - 1
_EVERYWHERE = ("easy", "hard")
_FURTHER: dict[str, tuple[str, ...]] = {
    "caveflyer": ("memory", "exploration"),
    "chaser": ("extreme",),
    "climber": ("exploration",),
    "coinrun": ("exploration",),
    "dodgeball": ("extreme", "memory"),
    "heist": ("memory", "exploration"),
    "jumper": ("memory", "exploration"),
    "leaper": ("extreme", "exploration"),
    "maze": ("memory", "exploration"),
    "miner": ("memory",),
    "ninja": ("exploration",),
    "starpilot": ("extreme",),
}
# From blind play to the best that can be done, easy and hard: appendix C of Cobbe et al. 2019, arXiv:1912.01588.
_SCORES: dict[str, tuple[ScoreRange, ScoreRange]] = {
    "bigfish": ((1, 40), (0, 40)),
    "bossfight": ((0.5, 13), (0.5, 13)),
    "caveflyer": ((3.5, 12), (2, 13.4)),
    "chaser": ((0.5, 13), (0.5, 14.2)),
    "climber": ((2, 12.6), (1, 12.6)),
    "coinrun": ((5, 10), (5, 10)),
    "dodgeball": ((1.5, 19), (1.5, 19)),
    "fruitbot": ((-1.5, 32.4), (-0.5, 27.2)),
    "heist": ((3.5, 10), (2, 10)),
    "jumper": ((3, 10), (1, 10)),
    "leaper": ((3, 10), (1.5, 10)),
    "maze": ((5, 10), (4, 10)),
    "miner": ((1.5, 13), (1.5, 20)),
    "ninja": ((3.5, 10), (2, 10)),
    "plunder": ((4.5, 30), (3, 30)),
    "starpilot": ((2.5, 64), (1.5, 35)),
}


class Procgen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A game, and the levels that it is played on."""

    game: Annotated[Game, Meta(description="one of the sixteen games")]
    start_level: Annotated[int, Meta(ge=0, lt=LEVELS, description="number of the first level")] = 0
    num_levels: Annotated[int, Meta(ge=0, lt=LEVELS, description="how many levels; 0 = all from there on")] = 0
    distribution: Annotated[
        Distribution, Meta(description="how hard, or what for; only some games have more than easy and hard")
    ] = "easy"

    def __post_init__(self) -> None:
        known = (*_EVERYWHERE, *_FURTHER.get(self.game, ()))
        if self.distribution not in known:
            raise ValueError(f"{self.game} has no distribution '{self.distribution}'; it has {', '.join(known)}")
        if self.start_level + self.num_levels > LEVELS:
            raise ValueError(f"there are {LEVELS} levels, and start_level + num_levels goes beyond them")

    @property
    def name(self) -> str:
        """What it is called on screens."""
        return called(self.game, self.distribution)

    @property
    def id(self) -> str:
        """What EnvPool calls it."""
        return f"{self.game.capitalize()}{self.distribution.capitalize()}-v0"

    @property
    def options(self) -> dict[str, int]:
        """What EnvPool has to be told of the levels; with num_levels=0 it would take no notice of start_level."""
        if not self.start_level:
            return {"num_levels": self.num_levels}
        return {"start_level": self.start_level, "num_levels": self.num_levels or LEVELS - self.start_level}

    @property
    def beyond(self) -> Procgen | None:
        """All levels behind these, None where there is none."""
        end = self.start_level + self.num_levels
        if not self.num_levels or end == LEVELS:
            return None
        return msgspec.structs.replace(self, start_level=end, num_levels=0)

    @property
    def score_range(self) -> ScoreRange | None:
        """What scores are normalised by; the paper has it for two distributions."""
        if self.distribution not in _EVERYWHERE:
            return None
        return _SCORES[self.game][_EVERYWHERE.index(self.distribution)]


def called(game: str, distribution: str) -> str:
    """What a game is called on screens."""
    return f"{game} ({distribution})"
