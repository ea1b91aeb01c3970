"""Updates of many members by one compiled program.

On a CPU each member is an execution of it, as many at a time as cores: XLA runs small products on one core, so
that members as an axis would use no other. On an accelerator it is the other way round: members become an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.errors import RookeryError
from rookery.learning.ppo import PPO, Actor, Member
from rookery.learning.rewards import RewardMoments
from rookery.learning.update import METRICS, Batch, Optimised, Shape, Stale, make_update
from rookery.policies.actor_critic import ActorCritic
from rookery.policies.xla import compiler_options
from rookery.rollout.collect import Trajectory

# What tells most about how learning goes comes first.
_ORDER = ("explained_variance", "kl", "clipped", "entropy", "value_loss", "policy_loss", "gradient_norm")


class _Exercise(NamedTuple):
    """An update that is to be made: whose, by what, and all that the program is given."""

    member: Member
    trajectory: Trajectory
    settings: dict[str, float]
    rewards: RewardMoments | None
    arguments: tuple[Any, ...]


class Trainer:
    """Holds the program, and the threads that it runs in. `together` makes members an axis of one execution."""

    def __init__(self, ppo: PPO, model: ActorCritic, threads: int, together: bool | None = None) -> None:
        self.ppo, self.model = ppo, model
        self.together = jax.default_backend() != "cpu" if together is None else together
        normaliser = model.network.normaliser
        shape = Shape(
            minibatch=ppo.minibatch,
            accumulate=ppo.accumulate,
            normalise_advantages=ppo.normalise_advantages,
            clip_values=ppo.clip_value is not None,
            stop_at_kl=ppo.kl_stop is not None,
            clip_observations=normaliser.clip if normaliser else None,
        )
        options = compiler_options() if model.images else {}
        update = make_update(model, shape)
        self.program: Callable[..., Any] = jax.jit(update, compiler_options=options)
        self.program_for_all: Callable[..., Any] = jax.jit(jax.vmap(update), compiler_options=options)
        self.compiling, self.compiled = Lock(), False
        self.waiting: list[tuple[_Exercise, Future[Member]]] = []
        self.pool = ThreadPoolExecutor(threads, "update")

    def start(self, seed: int, member: Member, trajectory: Trajectory, actor: Actor | None) -> Future[Member]:
        """An update of a member by its rollout: on its way at once, or when `go` says that all are there."""
        if not self.together:
            return self.pool.submit(self.update, seed, member, trajectory, actor)
        future: Future[Member] = Future()
        self.waiting.append((self._exercise(seed, member, trajectory, actor), future))
        return future

    def go(self) -> None:
        """Make the updates that wait for each other."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            self.pool.submit(self._update_all, waiting)

    def update(self, seed: int, member: Member, trajectory: Trajectory, actor: Actor | None) -> Member:
        """The member after an update; `actor` is the older policy that collected, where that was not its own."""
        exercise = self._exercise(seed, member, trajectory, actor)
        return _learned(exercise, *self._run(*exercise.arguments))

    def _update_all(self, waiting: Sequence[tuple[_Exercise, Future[Member]]]) -> None:
        """All updates in one execution."""
        try:
            exercises = [exercise for exercise, _ in waiting]
            stacked = jax.tree.map(lambda *parts: np.stack(parts), *(each.arguments for each in exercises))
            found, told = jax.device_get(self.program_for_all(*stacked))
            for place, (exercise, future) in enumerate(waiting):
                own = jax.tree.map(lambda part, place=place: part[place], found)
                future.set_result(_learned(exercise, own, told[place]))
        except Exception as error:  # noqa: BLE001  (whoever waits for a member is told)
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)

    def _exercise(self, seed: int, member: Member, trajectory: Trajectory, actor: Actor | None) -> _Exercise:
        settings = self.ppo.settings(member)
        order = self.ppo.order(seed, member, self.model.recurrent)
        rewards, moments = trajectory.rewards, member.rewards
        if not np.isfinite(rewards).all():
            raise RookeryError(_diagnosis(member, trajectory, "a reward is not a number"))
        if moments is not None:
            moments, rewards = moments.normalised(rewards, trajectory.over, settings["gamma"])
        batch = Batch(
            trajectory.observations,
            trajectory.drawn,
            rewards,
            trajectory.terminated,
            trajectory.over,
            trajectory.fresh,
            trajectory.carry,
        )
        stale = None
        if actor is not None:
            stale = Stale(actor.parameters, *self._moments(actor), trajectory.carry)
        optimised = Optimised(member.parameters, member.mean, member.square, np.float32(member.count))
        values = {name: np.float32(value) for name, value in settings.items()}
        arguments = (optimised, batch, self._moments(member), stale, order, values)
        return _Exercise(member, trajectory, settings, moments, arguments)

    def _run(self, *arguments: Any) -> tuple[Optimised, Any]:
        """The program's answer; whoever comes first compiles it, and the others wait for that."""
        if self.compiled:
            found: tuple[Optimised, Any] = self.program(*arguments)
            return found
        with self.compiling:
            found = self.program(*arguments)
            self.compiled = True
            return found

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _moments(self, of: Member | Actor) -> tuple[Any, Any]:
        """Mean and standard deviation of the observations, as the policy is shown them."""
        scaling = self.model.policy.scaling(of.moments)
        return (np.float32(0), np.float32(1)) if scaling is None else (scaling.mean, scaling.std)


def _learned(exercise: _Exercise, found: Optimised, told: Any) -> Member:
    """The member after its update, unless that came to nothing that is a number."""
    told, parameters = np.asarray(told), np.asarray(found.parameters)
    metrics = dict(zip((*METRICS, "explained_variance"), told.tolist(), strict=True))
    if not (np.isfinite(parameters).all() and np.isfinite(told).all()):
        member, trajectory = exercise.member, exercise.trajectory
        raise RookeryError(_diagnosis(member, trajectory, "the update is not a number", metrics))
    return replace(
        exercise.member,
        parameters=parameters,
        mean=np.asarray(found.mean),
        square=np.asarray(found.square),
        count=int(found.count),
        rewards=exercise.rewards,
        metrics={name: metrics[name] for name in _ORDER} | {"lr": exercise.settings["lr"]},
    )


def _diagnosis(
    member: Member, trajectory: Trajectory, what: str, metrics: Mapping[str, float] | None = None
) -> str:
    """What went wrong with whom, and what the rollout was like."""
    parts = [
        f"member {member.id}: {what}",
        _spread("observations", trajectory.observations),
        _spread("rewards", trajectory.rewards),
        _spread("parameters", member.parameters),
    ]
    if metrics:
        parts.append(", ".join(f"{name} {value:.3g}" for name, value in metrics.items()))
    used = ", ".join(f"{name} {value:g}" for name, value in member.hyperparameters.items())
    return "; ".join([*parts, f"hyperparameters: {used}"])


def _spread(name: str, array: NDArray[Any]) -> str:
    """Least, mean and greatest of an array's numbers, and how many are none."""
    finite = array[np.isfinite(array)]
    broken = array.size - finite.size
    if not finite.size:
        return f"{name}: none of {array.size} is finite"
    told = f"{name} {finite.min():.3g} … {finite.mean():.3g} … {finite.max():.3g}"
    return f"{told} ({broken} of {array.size} not finite)" if broken else told
