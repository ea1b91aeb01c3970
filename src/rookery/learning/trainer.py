"""Updates of many members: one compiled program, each member an execution of it, as many at a time as cores.

Members side by side are faster here than members as an axis of one execution: XLA runs small products on one core.
On an accelerator it is the other way round, and members become an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import jax
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.errors import RookeryError
from rookery.learning.ppo import PPO, Actor, Member
from rookery.learning.update import METRICS, Batch, Optimised, Shape, Stale, make_update
from rookery.policies.actor_critic import ActorCritic
from rookery.policies.xla import compiler_options
from rookery.rollout.collect import Trajectory

# What tells most about how learning goes comes first.
_ORDER = ("explained_variance", "kl", "clipped", "entropy", "value_loss", "policy_loss", "gradient_norm")


class Trainer:
    """Holds the program, and the threads that it runs in."""

    def __init__(self, ppo: PPO, model: ActorCritic, threads: int) -> None:
        self.ppo, self.model = ppo, model
        normaliser = model.network.normaliser
        shape = Shape(
            minibatch=ppo.minibatch,
            accumulate=ppo.accumulate,
            normalise_advantages=ppo.normalise_advantages,
            clip_values=ppo.clip_value is not None,
            stop_at_kl=ppo.kl_stop is not None,
            stale=ppo.staleness > 0,
            clip_observations=normaliser.clip if normaliser else None,
        )
        options = compiler_options() if model.images else {}
        self.program: Callable[..., Any] = jax.jit(make_update(model, shape), compiler_options=options)
        self.compiling, self.compiled = Lock(), False
        self.pool = ThreadPoolExecutor(threads, "update")

    def start(self, seed: int, member: Member, trajectory: Trajectory, actor: Actor | None) -> Future[Member]:
        """An update of a member by its rollout, on its way."""
        return self.pool.submit(self.update, seed, member, trajectory, actor)

    def update(self, seed: int, member: Member, trajectory: Trajectory, actor: Actor | None) -> Member:
        """The member after an update; `actor` is the older policy that collected, where that was not its own."""
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
        found, told = self._run(optimised, batch, self._moments(member), stale, order, values)
        metrics = dict(zip((*METRICS, "explained_variance"), np.asarray(told).tolist(), strict=True))
        parameters = np.asarray(found.parameters)
        if not (np.isfinite(parameters).all() and np.isfinite(told).all()):
            raise RookeryError(_diagnosis(member, trajectory, "the update is not a number", metrics))
        return replace(
            member,
            parameters=parameters,
            mean=np.asarray(found.mean),
            square=np.asarray(found.square),
            count=int(found.count),
            rewards=moments,
            metrics={name: metrics[name] for name in _ORDER} | {"lr": settings["lr"]},
        )

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
