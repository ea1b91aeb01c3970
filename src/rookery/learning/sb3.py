"""Stable-Baselines3's algorithms as learners: what to build, and what a member of such a population is.

What is here knows neither torch nor Stable-Baselines3: members are arrays. `sb3_model.py` brings them to life.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Env
from rookery.errors import UserError
from rookery.genomes import Genome, Vector
from rookery.learning.member import ENV_GENES, AnyMember, Whole
from rookery.learning.ppo import Actor
from rookery.policies import PolicySpec

POLICY = "policy/"  # what the names of the arrays begin with that a policy acts by

_Above = Annotated[float, Meta(gt=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_AtLeast0 = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=1)]


class Statistics(msgspec.Struct, frozen=True, eq=False):
    """What VecNormalize knows of observations or returns."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    count: float


class Normaliser(msgspec.Struct, frozen=True, eq=False):
    """The statistics of VecNormalize: of observations, where those are no images, and of returns."""

    observations: Statistics | None
    returns: Statistics


class SB3Member(AnyMember, frozen=True, eq=False, kw_only=True):
    """One member, complete. `age` is how many updates it has lived; what is random follows from it.

    `arrays` are the weights and the states of the optimisers, by where the library keeps them; there are none
    before it is born, which it is where it first lives. `counts` are the library's own counters.
    """

    VARIES: ClassVar[tuple[str, ...]] = ENV_GENES

    arrays: dict[str, NDArray[Any]] = msgspec.field(default_factory=dict)
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    normaliser: Normaliser | None = None
    recent: tuple[float, ...] = ()
    metrics: dict[str, float] = msgspec.field(default_factory=dict)

    def inherit(self, parent: SB3Member) -> SB3Member:
        """This member with what its parent has learned, and learned it with; its name and times are its own."""
        return replace(parent, id=self.id, age=self.age, steps=self.steps, episodes=self.episodes)


class SB3State(msgspec.Struct, frozen=True, eq=False, tag="sb3"):
    """All members between two selections."""

    seed: int
    members: tuple[SB3Member, ...]


class SB3(
    Whole,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="sb3",
    rename={"keywords": "settings"},
):
    """An algorithm of Stable-Baselines3, for each member of a population."""

    algorithm: Annotated[
        str, Meta(description="A2C, DDPG, DQN, PPO, SAC or TD3, or module:Class for one of another package")
    ] = "PPO"
    policy: Annotated[str, Meta(description="Stable-Baselines3's name of the policy")] = "MlpPolicy"
    population: Annotated[int, Meta(ge=1, description="members, each with everything of its own")] = 8
    envs: Annotated[int, Meta(ge=1, description="environments of each member")] = 8
    normalise: Annotated[bool, Meta(description="normalise observations and rewards by VecNormalize")] = False
    rollout: Annotated[
        _Count | None,
        Meta(
            description="off-policy only: steps of each environment that count as one update of "
            "algorithm.interval; null = 256"
        ),
    ] = None
    horizon: Annotated[
        int, Meta(ge=1, description="steps of a member over which the algorithm's schedules run, as DQN's epsilon")
    ] = 100_000
    keywords: Annotated[
        dict[str, Any],
        Meta(description="further keyword arguments of the algorithm's constructor, such as {n_steps: 256}"),
    ] = msgspec.field(default_factory=dict)

    learning_rate: Annotated[
        _Above | None, Meta(description="this and those below: the algorithm's own arguments; null = its default")
    ] = None
    gamma: Annotated[_Share | None, Meta(description="discount of a reward that is a step away")] = None
    gae_lambda: Annotated[_Share | None, Meta(description="PPO, A2C: trust in rewards rather than values")] = None
    clip_range: Annotated[_Above | None, Meta(description="PPO: how far a probability may move")] = None
    clip_range_vf: Annotated[_Above | None, Meta(description="PPO: how far a value may move")] = None
    ent_coef: Annotated[
        _AtLeast0 | None, Meta(description="weight of the entropy; SAC's own default is to learn it")
    ] = None
    vf_coef: Annotated[_AtLeast0 | None, Meta(description="PPO, A2C: weight of the value loss")] = None
    max_grad_norm: Annotated[_Above | None, Meta(description="longer gradients are shortened to it")] = None
    target_kl: Annotated[_Above | None, Meta(description="PPO: an update ends early beyond 1.5 times this")] = None
    n_epochs: Annotated[_Count | None, Meta(description="PPO: passes over the steps of a rollout")] = None
    batch_size: Annotated[_Count | None, Meta(description="steps of a minibatch")] = None
    tau: Annotated[_Share | None, Meta(description="off-policy: how fast target networks follow")] = None
    gradient_steps: Annotated[_Count | None, Meta(description="off-policy: steps of the optimiser at a time")] = (
        None
    )
    target_update_interval: Annotated[
        _Count | None, Meta(description="DQN, SAC: steps from one update of the target network to the next")
    ] = None
    exploration_fraction: Annotated[
        _Above | None, Meta(description="DQN: share of the horizon in which epsilon falls")
    ] = None
    exploration_initial_eps: Annotated[_Share | None, Meta(description="DQN: epsilon at the beginning")] = None
    exploration_final_eps: Annotated[_Share | None, Meta(description="DQN: epsilon at the end")] = None
    policy_delay: Annotated[_Count | None, Meta(description="TD3: updates of the critic for one of the actor")] = (
        None
    )
    target_policy_noise: Annotated[_AtLeast0 | None, Meta(description="TD3: noise of the target's actions")] = None
    target_noise_clip: Annotated[_AtLeast0 | None, Meta(description="TD3: bound of that noise")] = None

    nursery: ClassVar[str] = "rookery.learning.sb3_nursery:SB3Nursery"
    VARIES: ClassVar[tuple[str, ...]] = ENV_GENES
    WHOLE: ClassVar[tuple[str, ...]] = (
        "n_epochs",
        "batch_size",
        "gradient_steps",
        "target_update_interval",
        "policy_delay",
    )
    DYNAMIC: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "gamma",
        "gae_lambda",
        "clip_range",
        "clip_range_vf",
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
        "target_kl",
        *WHOLE,
        "tau",
        "exploration_fraction",
        "exploration_initial_eps",
        "exploration_final_eps",
        "target_policy_noise",
        "target_noise_clip",
    )
    RESERVED: ClassVar[dict[str, str]] = {
        "policy": "write algorithm.learner.policy",
        "env": "write env.id",
        "seed": "everything random follows from the experiment's seed",
        "verbose": "Rookery shows how a run goes",
        "tensorboard_log": "a run writes TensorBoard's files itself",
    }

    def __post_init__(self) -> None:
        for name, value in self.keywords.items():
            if name in self.RESERVED:
                raise ValueError(f"settings.{name} is not for here: {self.RESERVED[name]}")
            if name in self.DYNAMIC and isinstance(value, int | float) and not isinstance(value, bool):
                raise ValueError(f"settings.{name}: write {name}={value} beside settings, where it may be a range")
            if isinstance(value, dict) and {"low", "high"} <= value.keys():
                where = f"; {name} beside settings can" if name in self.DYNAMIC else ""
                raise ValueError(f"settings.{name} cannot be a range{where}")

    def require(self) -> None:
        """Refuse to go on where the library is missing."""
        try:
            importlib.import_module("stable_baselines3")
        except ImportError as error:
            raise UserError(
                "algorithm.learner.type=sb3 needs Stable-Baselines3 and torch: pip install 'rookery[sb3]'"
            ) from error

    @property
    def arguments(self) -> dict[str, Any]:
        """What the algorithm's constructor is given."""
        named = {name: value for name in self.DYNAMIC if (value := getattr(self, name)) is not None}
        return {**self.keywords, **named}

    def found(self, env: Env, network: PolicySpec, seed: int, start: Actor | None) -> SB3State:
        """All members before they are born."""
        del env, network
        if start is not None:
            raise UserError(
                "policy.init_from: Stable-Baselines3 cannot go on with a policy of Rookery's; leave it null"
            )
        values = {name: float(value) for name in self.DYNAMIC if (value := getattr(self, name)) is not None}
        members = (SB3Member(id=number, hyperparameters=values) for number in range(self.population))
        return SB3State(seed, tuple(members))

    def settings(self, member: SB3Member) -> dict[str, float]:
        """The hyperparameters that the next update of a member uses."""
        return {name: value for name, value in member.hyperparameters.items() if name in self.DYNAMIC}

    def champion(self, state: SB3State) -> Genome:
        """The policy of the first member, which is the one that counts; empty before it is born."""
        return Vector(deployed(state.members[0]))

    def telemetry(self, state: SB3State) -> dict[str, float]:
        """The means over the members of what their updates told."""
        told = [member.metrics for member in state.members if member.metrics]
        return {name: float(np.mean([metrics[name] for metrics in told])) for name in (told[0] if told else ())}


def deployed(member: SB3Member) -> NDArray[np.float32]:
    """All that a member acts by: its policy's numbers by name, then mean and variance of the observations."""
    names = sorted(name for name in member.arrays if name.startswith(POLICY))
    parts = [member.arrays[name].reshape(-1) for name in names]
    seen = member.normaliser.observations if member.normaliser else None
    if seen is not None and parts:
        parts += [seen.mean.reshape(-1), seen.var.reshape(-1)]
    return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)
