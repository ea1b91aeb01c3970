"""Environments: batches of seeded episodes behind one interface, whatever simulates them."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.envs.batch import Arena, BatchedEnv, Ids, Step
from rookery.envs.spec import Action, Continuous, Discrete, Env, Observation, Spaces
from rookery.errors import UserError, did_you_mean

__all__ = [
    "Action",
    "Arena",
    "BatchedEnv",
    "Continuous",
    "Discrete",
    "Env",
    "Ids",
    "Observation",
    "Spaces",
    "Step",
    "arena",
    "known_ids",
    "make",
]


def known_ids() -> dict[str, frozenset[str]]:
    """Every environment id, by backend."""
    from rookery.envs import envpool, gymnasium, synthetic

    return {
        "envpool": envpool.known_ids(),
        "gymnasium": gymnasium.known_ids(),
        "synthetic": synthetic.known_ids(),
    }


def arena(spec: Env, info: str | None = None) -> Arena:
    """The place where environments of this kind are made; their steps show a field of their `info`."""
    return _Adjusted(_backend(spec, info), spec)


def make(spec: Env, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv:
    """A batch of environments, one per seed."""
    return arena(spec).batch(seeds, threads, render)


def _backend(spec: Env, info: str | None) -> Arena:
    spec = spec.by_id
    if spec.name.startswith("synthetic:"):
        from rookery.envs.synthetic import SyntheticArena

        return SyntheticArena(spec)
    if ":" in spec.name or spec.backend == "gymnasium":
        from rookery.envs.gymnasium import GymnasiumArena

        return GymnasiumArena(spec, info)
    from rookery.envs import envpool

    if spec.name in envpool.known_ids():
        return envpool.EnvPoolArena(spec, info)
    known = known_ids()
    if spec.backend == "auto" and spec.name in known["gymnasium"]:
        from rookery.envs.gymnasium import GymnasiumArena

        return GymnasiumArena(spec, info)
    names = known["envpool"] if spec.backend == "envpool" else frozenset().union(*known.values())
    raise UserError(
        f"unknown environment '{spec.name}'.{did_you_mean(spec.name, names)} "
        "`rookery envs` lists them; your own is my_package.module:Class"
    )


class _Adjusted:
    """An arena whose batches are wrapped as the experiment says."""

    def __init__(self, inner: Arena, spec: Env) -> None:
        self.inner = inner
        self.spec = spec
        self.spaces = inner.spaces

    def batch(self, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv:
        from rookery.envs.wrappers import ActionRepeat, RewardScale

        batch = self.inner.batch(seeds, threads, render)
        if self.spec.action_repeat > 1:
            batch = ActionRepeat(batch, self.spec.action_repeat)
        if self.spec.reward_scale != 1.0:
            batch = RewardScale(batch, self.spec.reward_scale)
        return batch

    def close(self) -> None:
        self.inner.close()
