"""Proximal policy optimisation: members that collect steps, and climb on them for a few epochs without going far.

What is here knows no JAX: hyperparameters, a member's whole state, and what follows from a
rollout. `update.py` has the mathematics, `trainer.py` brings both together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs import Env, arena
from rookery.errors import UserError, did_you_mean
from rookery.genomes import Genome, Vector
from rookery.learning.member import ENV_GENES, AnyMember, M, Whole
from rookery.learning.rewards import RewardMoments
from rookery.policies import Moments, PolicySpec
from rookery.policies.actor_critic import ActorCritic, Sharing
from rookery.rollout.collect import Stint, Trajectory
from rookery.streams import stream

_Positive = Annotated[int, Meta(ge=1)]
_Above = Annotated[float, Meta(gt=0)]
_RECENT = 100  # episodes that a member's score is the mean of


class Worlds(msgspec.Struct, frozen=True, eq=False):
    """Where a member's environments stand: those made for generation `begun`, after all that was done in them."""

    begun: int
    done: tuple[NDArray[Any], ...] = ()
    carry: tuple[NDArray[np.float32], ...] = ()


class Member(AnyMember, frozen=True, eq=False, kw_only=True):
    """One learner, complete."""

    VARIES: ClassVar[tuple[str, ...]] = ENV_GENES
    parameters: NDArray[np.float32]
    mean: NDArray[np.float32]
    square: NDArray[np.float32]
    count: int = 0
    rewards: RewardMoments | None = None
    worlds: Worlds
    recent: tuple[float, ...] = ()
    metrics: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def score(self) -> float | None:
        """The mean return of the last episodes, as they were played to learn from."""
        return float(np.mean(self.recent)) if self.recent else None

    def inherit(self, parent: Member) -> Member:
        """This member with what its parent has learned, and learned it with; its name and worlds are its own."""
        rewards = parent.rewards
        if rewards is not None and self.rewards is not None:
            rewards = replace(rewards, running=self.rewards.running)
        own = replace(
            parent,
            id=self.id,
            age=self.age,
            rewards=rewards,
            worlds=self.worlds,
            steps=self.steps,
            episodes=self.episodes,
        )
        return own._in_worlds_of(self.hyperparameters)

    def changed(self, values: Mapping[str, float]) -> Member:
        """This member with other hyperparameters; where they change its environment, it goes on in new ones."""
        changed = replace(self, hyperparameters={**self.hyperparameters, **values})
        return changed._in_worlds_of(self.hyperparameters)

    def _in_worlds_of(self, hyperparameters: Mapping[str, float]) -> Member:
        """This member, whose environments are those of some hyperparameters; in new ones where its own differ."""
        if all(hyperparameters.get(name) == self.hyperparameters.get(name) for name in self.VARIES):
            return self
        worlds = Worlds(self.age, (), tuple(np.zeros_like(part) for part in self.worlds.carry))
        return replace(self, worlds=worlds, rewards=self.rewards.interrupted() if self.rewards else None)


class Actor(msgspec.Struct, frozen=True, eq=False):
    """What a member acts with: parameters, and the moments that its observations are scaled by."""

    parameters: NDArray[np.float32]
    moments: Moments | None


class PPOState(msgspec.Struct, frozen=True, eq=False, tag="ppo"):
    """All members between two generations. `older` are the actors of rollouts under way, the oldest first."""

    seed: int
    policy_size: int
    members: tuple[Member, ...]
    older: tuple[tuple[Actor, ...], ...] = ()

    @property
    def best(self) -> Member:
        """The member with the best recent episodes; the first one before there are any."""
        return max(self.members, key=lambda m: -np.inf if m.score is None else m.score)


class PPO(Whole, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="ppo"):
    """Proximal policy optimisation, for one member or many."""

    population: Annotated[int, Meta(ge=1, description="members, each with everything of its own")] = 1
    envs: Annotated[int, Meta(ge=1, description="environments of each member")] = 64
    rollout: Annotated[int, Meta(ge=1, description="steps of each environment from one update to the next")] = 64
    epochs: Annotated[int, Meta(ge=1, description="passes over the steps of a rollout")] = 6
    minibatch: Annotated[int, Meta(ge=1, description="steps of a minibatch; must divide envs * rollout")] = 256
    accumulate: Annotated[
        int, Meta(ge=1, description="parts that a minibatch's gradient is computed in, where memory is short")
    ] = 1
    lr: Annotated[_Above, Meta(description="Adam's learning rate")] = 3e-4
    lr_anneal: Annotated[
        _Positive | None, Meta(description="steps over which the learning rate falls to 0; null = it stays")
    ] = None
    gamma: Annotated[float, Meta(ge=0, le=1, description="discount of a reward that is a step away")] = 0.99
    gae_lambda: Annotated[
        float, Meta(ge=0, le=1, description="how far advantages trust rewards (1) rather than values (0)")
    ] = 0.95
    clip: Annotated[_Above, Meta(description="how far a probability may move from 1 times its old value")] = 0.2
    clip_anneal: Annotated[
        _Positive | None, Meta(description="steps over which the clip range falls to 0; null = it stays")
    ] = None
    clip_value: Annotated[
        _Above | None, Meta(description="how far a value may move in an update; null = as far as it wants")
    ] = None
    value: Annotated[float, Meta(ge=0, description="weight of the value loss")] = 0.5
    entropy: Annotated[float, Meta(ge=0, description="weight of the entropy bonus")] = 0.0
    gradient_norm: Annotated[_Above, Meta(description="gradients longer than this are shortened to it")] = 0.5
    kl_stop: Annotated[
        _Above | None,
        Meta(description="an update ends early where the KL divergence exceeds 1.5 times this; null = never"),
    ] = None
    normalise_advantages: Annotated[bool, Meta(description="in each minibatch: mean 0, standard deviation 1")] = (
        True
    )
    normalise_rewards: Annotated[
        bool, Meta(description="divide rewards by the running standard deviation of discounted returns")
    ] = False
    critic: Annotated[
        Sharing,
        Meta(description="layers of its own or the policy's; auto = own ones, but not for images and memories"),
    ] = "auto"
    std: Annotated[
        _Above, Meta(description="initial standard deviation of continuous actions, in half ranges")
    ] = 1.0
    schedule: Annotated[
        tuple[tuple[Annotated[int, Meta(ge=0)], dict[str, float]], ...],
        Meta(
            description="hyperparameters that change with a member's steps, such as [[0, {lr: 0.01}], "
            "[50000, {lr: 0.001}]]; each holds until the next"
        ),
    ] = ()
    staleness: Annotated[
        int,
        Meta(
            ge=0,
            le=8,
            description="updates by which the acting policy may be older than the one that learns, corrected by "
            "V-trace; acting and learning then go on at the same time",
        ),
    ] = 0
    renew: Annotated[
        int,
        Meta(
            ge=1,
            description="generations for which environments go on before they are made anew",
        ),
    ] = 100

    nursery: ClassVar[str] = "rookery.learning.nursery:Nursery"
    VARIES: ClassVar[tuple[str, ...]] = ENV_GENES
    DYNAMIC: ClassVar[tuple[str, ...]] = (
        "lr",
        "gamma",
        "gae_lambda",
        "clip",
        "clip_value",
        "value",
        "entropy",
        "gradient_norm",
        "kl_stop",
    )

    def __post_init__(self) -> None:
        batch = self.envs * self.rollout
        if batch % self.minibatch:
            raise ValueError(
                f"minibatch={self.minibatch} does not divide envs * rollout = {self.envs} * {self.rollout} = "
                f"{batch}; minibatch={nearest_divisor(batch, self.minibatch)} does"
            )
        if self.minibatch % self.accumulate:
            raise ValueError(
                f"accumulate={self.accumulate} does not divide minibatch={self.minibatch}; "
                f"accumulate={nearest_divisor(self.minibatch, self.accumulate)} does"
            )

        self._refuse_odd_schedule()

    def _refuse_odd_schedule(self) -> None:
        """A schedule says what could as well be said of the whole run, and goes on in time."""
        starts = [start for start, _ in self.schedule]
        if starts != sorted(set(starts)):
            raise ValueError(f"schedule: its steps must rise, got {starts}")
        plain = {**msgspec.to_builtins(self), "schedule": ()} if self.schedule else {}
        for name, value in ((name, value) for _, values in self.schedule for name, value in values.items()):
            if name not in self.DYNAMIC:
                hint = did_you_mean(name, self.DYNAMIC)
                raise ValueError(f"schedule: {name} cannot change while a member learns.{hint}".removesuffix("."))
            if getattr(self, name) is None:
                raise ValueError(f"schedule: {name} is null, and needs a value from which its schedule can depart")
            try:
                msgspec.convert({**plain, name: value}, PPO)
            except msgspec.ValidationError as error:
                raise ValueError(f"schedule: {name}={value:g}: {error}") from None

    def found(self, env: Env, network: PolicySpec, seed: int, start: Actor | None) -> PPOState:
        """All members before their first steps, for an environment and a network."""
        return self.init(seed, ActorCritic(network, arena(env).spaces, self.critic, self.std), start)

    def init(self, seed: int, model: ActorCritic, start: Actor | None = None) -> PPOState:
        """All members before their first steps, fresh or with the policy of `start`."""
        self.refuse_misfit(model)
        fresh = tuple(self._member(seed, number, model, start) for number in range(self.population))
        older = tuple(tuple(Actor(m.parameters, m.moments) for m in fresh) for _ in range(self.staleness))
        return PPOState(seed, model.policy.space.size, fresh, older)

    def _member(self, seed: int, number: int, model: ActorCritic, start: Actor | None) -> Member:
        policy = None if start is None else start.parameters
        vector = model.initial(stream(seed, "initial", 0, number), policy)
        moments = Moments.empty(model.policy.inputs) if model.network.normaliser else None
        if moments is not None and start is not None and start.moments is not None:
            moments = start.moments
        return Member(
            id=number,
            parameters=vector,
            mean=np.zeros_like(vector),
            square=np.zeros_like(vector),
            moments=moments,
            rewards=RewardMoments.empty(self.envs) if self.normalise_rewards else None,
            hyperparameters={name: value for name in self.DYNAMIC if (value := getattr(self, name)) is not None},
            worlds=Worlds(0, (), model.policy.carry(self.envs)),
        )

    def refuse_misfit(self, model: ActorCritic) -> None:
        """Where a policy remembers, a minibatch is made of whole sequences."""
        if model.recurrent and (self.minibatch // self.accumulate) % self.rollout:
            count = nearest_divisor(self.envs, max(1, round(self.minibatch / self.rollout)))
            raise UserError(
                f"algorithm.minibatch={self.minibatch}: a policy that remembers learns from whole sequences, so "
                f"each part of a minibatch must be a multiple of rollout={self.rollout}; "
                f"minibatch={count * self.rollout} accumulate=1 is"
            )

    def begin(self, state: PPOState) -> PPOState:
        """The state with new environments for the members for whom it is time."""
        return replace(state, members=tuple(self._settled(member) for member in state.members))

    def _settled(self, member: Member) -> Member:
        if member.age % self.renew or member.age == member.worlds.begun:
            return member
        carry = tuple(np.zeros_like(part) for part in member.worlds.carry)
        rewards = member.rewards.interrupted() if member.rewards else None
        return replace(member, worlds=Worlds(member.age, (), carry), rewards=rewards)

    def stint(self, state: PPOState, number: int) -> Stint:
        """What a member is to do next."""
        member = state.members[number]
        actor = state.older[0][number] if state.older else member
        return Stint(
            seed=state.seed,
            member=member.id,
            generation=member.age,
            steps=self.rollout,
            envs=self.envs,
            first=0,
            last=self.envs,
            begun=member.worlds.begun,
            parameters=actor.parameters,
            moments=actor.moments,
            rollouts=len(member.worlds.done),
            done=member.worlds.done,
            carry=member.worlds.carry,
        )

    def advance(self, state: PPOState, members: tuple[Member, ...]) -> PPOState:
        """The state after a generation that has made these of its members."""
        older = state.older
        if older:
            older = (*older[1:], tuple(Actor(member.parameters, member.moments) for member in state.members))
        return replace(state, members=members, older=older)

    def settings(self, member: Member) -> dict[str, float]:
        """The hyperparameters that the next update of a member uses, schedules applied."""
        values = {name: value for name, value in member.hyperparameters.items() if name in self.DYNAMIC}
        for start, changed in self.schedule:
            if start <= member.steps:
                values |= changed
        for name, horizon in (("lr", self.lr_anneal), ("clip", self.clip_anneal)):
            if horizon is not None:
                values[name] *= max(0.0, 1 - member.steps / horizon)
        return values

    def order(self, seed: int, member: Member, remembers: bool) -> NDArray[np.int32]:
        """Rows of each minibatch of each epoch: steps, or environments where the policy remembers."""
        rng = stream(seed, "minibatches", member.age, member.id)
        rows = self.envs if remembers else self.envs * self.rollout
        each = self.minibatch // self.rollout if remembers else self.minibatch
        drawn = [rng.permutation(rows).astype(np.int32).reshape(-1, each) for _ in range(self.epochs)]
        return np.stack(drawn)

    def champion(self, state: PPOState) -> Genome:
        """The best member's policy."""
        return Vector(state.best.parameters[: state.policy_size])

    def telemetry(self, state: PPOState) -> dict[str, float]:
        """The means over the members of what their updates told."""
        told = [member.metrics for member in state.members if member.metrics]
        return {name: float(np.mean([metrics[name] for metrics in told])) for name in (told[0] if told else ())}


def apply_hyperparameters(member: M, values: Mapping[str, float]) -> M:
    """The member with other hyperparameters, from its next update on; read back, they are exactly these."""
    known = (*member.hyperparameters, *member.VARIES)
    unknown = [name for name in values if name not in known]
    if unknown:
        raise UserError(f"{unknown[0]} is no hyperparameter of this member; it has {', '.join(known)}")
    return member.changed({name: float(value) for name, value in values.items()})


def varied(env: Env, genes: Mapping[str, float]) -> Env:
    """An environment with some of its settings changed."""
    whole = {"max_steps", "action_repeat"}
    changes = {name.removeprefix("env."): value for name, value in genes.items()}
    return replace(env, **{name: round(value) if name in whole else value for name, value in changes.items()})


def experienced(member: Member, trajectory: Trajectory, reward_scale: float) -> Member:
    """The member after a rollout, before it learns from it."""
    returns = tuple(value / reward_scale for value in trajectory.returns)
    return replace(
        member,
        age=member.age + 1,
        moments=None if member.moments is None else member.moments.merge([_seen(trajectory)]),
        worlds=replace(member.worlds, done=(*member.worlds.done, trajectory.drawn), carry=trajectory.carried),
        steps=member.steps + trajectory.steps,
        episodes=member.episodes + len(returns),
        recent=(*member.recent, *returns)[-_RECENT:],
        lengths=(*member.lengths, *trajectory.lengths)[-_RECENT:],
    )


def _seen(trajectory: Trajectory) -> Moments:
    """The moments of what a rollout showed."""
    seen = trajectory.observations[:-1].reshape(-1, trajectory.observations.shape[-1]).astype(np.float64)
    return Moments(len(seen), seen.sum(axis=0), np.einsum("ij,ij->j", seen, seen))


def nearest_divisor(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to what was wanted."""
    divisors: Sequence[int] = [n for n in range(1, number + 1) if number % n == 0]
    return min(divisors, key=lambda n: (abs(n - wanted), n))
