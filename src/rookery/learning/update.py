"""The gradient side of PPO for one member: a rollout and its hyperparameters in, better parameters out.

One compiled program does all of it. Hyperparameters are arguments, so changing one compiles nothing. Parameters
are one flat vector, and so are Adam's moments: a step of the optimiser is a handful of operations however many
layers there are, which is what a small network's update would otherwise spend its time on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rookery.learning.advantages import advantages
from rookery.policies.actor_critic import ActorCritic
from rookery.policies.normaliser import Scaling
from rookery.policies.xla import in_chunks

METRICS = ("policy_loss", "value_loss", "entropy", "kl", "clipped", "gradient_norm")
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-5  # Adam's


class Shape(NamedTuple):
    """All that a change of compiles the program again."""

    minibatch: int
    accumulate: int
    normalise_advantages: bool
    clip_values: bool
    stop_at_kl: bool
    clip_observations: float | None  # None: observations are not scaled


class Optimised(NamedTuple):
    """A member's parameters and Adam's moments, all flat, and how many steps were taken."""

    parameters: Any
    mean: Any
    square: Any
    count: Any


class Batch(NamedTuple):
    """A member's rollout as the program takes it; time is the first axis, environments are the second."""

    observations: Any  # (steps + 1, envs, *shape)
    drawn: Any
    rewards: Any
    terminated: Any
    over: Any  # (steps + 1, envs)
    fresh: Any  # (steps + 1, envs): the observation is the first of its episode
    carry: tuple[Any, ...]  # (envs, width) each


class Stale(NamedTuple):
    """What the policy that acted had, where it is not the one that learns."""

    parameters: Any
    mean: Any
    std: Any
    carry: tuple[Any, ...]


def make_update(model: ActorCritic, shape: Shape) -> Callable[..., tuple[Optimised, Any]]:
    """The program, not yet compiled: (optimised, batch, (mean, std), stale, order, hyperparameters)."""

    def update(
        optimised: Optimised, batch: Batch, moments: Any, stale: Stale | None, order: Any, settings: Any
    ) -> tuple[Optimised, Any]:
        whole = _Rollout(model, shape, batch, moments)
        parameters = model.space.split(optimised.parameters)
        rows, explained = whole.rows(parameters, settings, stale)

        def epoch(state: Any, indices: Any) -> tuple[Any, None]:
            def step(state: Any, chosen: Any) -> tuple[Any, None]:
                part = jax.tree.map(lambda array: array[chosen], rows)
                return _step(model, shape, state, part, settings), None

            return jax.lax.scan(step, state, indices)[0], None

        start = (optimised, jnp.zeros(len(METRICS) + 1), jnp.array(True))
        (optimised, sums, _), _ = jax.lax.scan(epoch, start, order)
        return optimised, jnp.append(sums[:-1] / jnp.maximum(sums[-1], 1.0), explained)

    return update


class _Rollout:
    """A rollout, looked at by the policy that learns."""

    def __init__(self, model: ActorCritic, shape: Shape, batch: Batch, moments: Any) -> None:
        self.model, self.shape, self.batch = model, shape, batch
        self.seen = model.look(batch.observations, _scaling(shape, moments))

    def rows(
        self, parameters: Mapping[str, Any], settings: Any, stale: Stale | None
    ) -> tuple[dict[str, Any], Any]:
        """What minibatches are drawn from, and the share of the returns' variance that values explained.

        A row is a step; where the policy remembers, it is an environment with all its steps.
        """
        model, batch = self.model, self.batch
        outputs, values = self._look_back(parameters, self.seen, batch.carry)
        before = model.distribution.log_probability(parameters, outputs, batch.drawn)
        weights = None
        if stale is not None:
            seen = model.look(batch.observations, _scaling(self.shape, (stale.mean, stale.std)))
            theirs = model.space.split(stale.parameters)
            acted, _ = self._look_back(theirs, seen, stale.carry)
            weights = jnp.exp(before - model.distribution.log_probability(theirs, acted, batch.drawn))
        found = advantages(
            batch.rewards,
            values,
            batch.terminated,
            batch.over,
            settings["gamma"],
            settings["gae_lambda"],
            weights,
        )
        counted = (~batch.over[:-1]).astype(jnp.float32)
        rows = {
            "seen": self.seen[:-1],
            "drawn": batch.drawn,
            "before": before,
            "value": values[:-1],
            "advantage": found,
            "counted": counted,
        }
        explained = 1 - _variance(found, counted) / (_variance(found + values[:-1], counted) + 1e-8)
        if model.recurrent:
            by_env = {name: jnp.moveaxis(part, 0, 1) for name, part in rows.items()}
            by_env["fresh"] = jnp.moveaxis(batch.fresh[:-1], 0, 1)
            return by_env | {"carry": batch.carry}, explained
        return {name: part.reshape(-1, *part.shape[2:]) for name, part in rows.items()}, explained

    def _look_back(self, parameters: Any, seen: Any, carry: Any) -> tuple[Any, Any]:
        """Outputs (steps, envs, ...) and values (steps + 1, envs) of a whole rollout."""
        if self.model.recurrent:
            outputs, values = remember(self.model, parameters, seen, self.batch.fresh, carry)
            return outputs[:-1], values
        steps, envs, *each = seen.shape
        flat = seen[:-1].reshape(-1, *each)
        if self.model.images:  # a part at a time, which stays in the processor's cache
            few = self.model.network.chunk
            parts = flat.reshape(-1, next(n for n in range(few, 0, -1) if len(flat) % n == 0), *each)
            outputs, values = jax.lax.map(lambda part: self.model.both(parameters, part, ())[:2], parts)
        else:
            outputs, values, _ = self.model.both(parameters, flat, ())
        _, last, _ = self.model.both(parameters, seen[-1], ())
        values = jnp.concatenate([values.reshape(steps - 1, envs), last[None]])
        return outputs.reshape(steps - 1, envs, -1), values


def remember(model: ActorCritic, parameters: Any, seen: Any, fresh: Any, carry: Any) -> tuple[Any, Any]:
    """Outputs and values of sequences (steps, envs, ...); what is carried is dropped where an episode begins."""

    def step(carry: Any, now: Any) -> Any:
        x, fresh = now
        carry = tuple(jnp.where(fresh[:, None], 0.0, part) for part in carry)
        outputs, values, carry = model.both(parameters, x, carry)
        return carry, (outputs, values)

    found: tuple[Any, Any] = jax.lax.scan(step, carry, (seen, fresh))[1]
    return found


def _step(model: ActorCritic, shape: Shape, state: Any, part: Any, settings: Any) -> Any:
    """One step of the optimiser, on one minibatch."""
    optimised, sums, going = state
    part = _prepared(shape, part)
    parameters = model.space.split(optimised.parameters)

    def slope(part: Any) -> tuple[Any, Any]:
        gradient, metrics = jax.grad(
            lambda parameters: _loss(model, shape, parameters, part, settings), has_aux=True
        )(parameters)
        return _flat(model, gradient), metrics

    rows = len(part["share"]) // shape.accumulate
    flat, metrics = in_chunks(slope, part, min(rows, model.network.chunk) if model.images else rows)
    norm = jnp.sqrt((flat * flat).sum())
    flat = flat * jnp.minimum(1.0, settings["gradient_norm"] / (norm + 1e-8))
    stepped = _adam(optimised, flat, settings["lr"])
    sums = sums + jnp.where(going, jnp.concatenate([metrics, jnp.stack([norm, 1.0])]), 0.0)
    if not shape.stop_at_kl:
        return stepped, sums, going
    optimised = jax.tree.map(lambda new, old: jnp.where(going, new, old), stepped, optimised)
    kl = metrics[METRICS.index("kl")]
    return optimised, sums, going & (kl <= 1.5 * settings["kl_stop"])


def _prepared(shape: Shape, part: Any) -> Any:
    """A minibatch with what depends on all of it: normalised advantages, and each row's share in the means."""
    counted, advantage = part["counted"], part["advantage"]
    if shape.normalise_advantages:
        mean = (advantage * counted).sum() / jnp.maximum(counted.sum(), 1.0)
        advantage = (advantage - mean) / (jnp.sqrt(_variance(advantage, counted)) + 1e-8)
    share = counted / jnp.maximum(counted.sum(), 1.0)
    return {**part, "advantage": advantage, "return": part["advantage"] + part["value"], "share": share}


def _loss(model: ActorCritic, shape: Shape, parameters: Any, part: Any, settings: Any) -> tuple[Any, Any]:
    """PPO's loss of a minibatch, to be minimised, and what there is to tell of it."""
    if model.recurrent:
        seen, fresh = jnp.moveaxis(part["seen"], 1, 0), jnp.moveaxis(part["fresh"], 1, 0)
        outputs, values = remember(model, parameters, seen, fresh, part["carry"])
        outputs, values = jnp.moveaxis(outputs, 0, 1), jnp.moveaxis(values, 0, 1)
    else:
        outputs, values, _ = model.both(parameters, part["seen"], ())
    now = model.distribution.log_probability(parameters, outputs, part["drawn"])
    share, advantage, clip = part["share"], part["advantage"], settings["clip"]
    difference = now - part["before"]
    ratio = jnp.exp(difference)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    policy = -(share * jnp.minimum(ratio * advantage, clipped * advantage)).sum()
    miss = (values - part["return"]) ** 2
    if shape.clip_values:
        away = jnp.clip(values - part["value"], -settings["clip_value"], settings["clip_value"])
        miss = jnp.maximum(miss, (part["value"] + away - part["return"]) ** 2)
    value = (share * miss).sum()
    entropy = (share * model.distribution.entropy(parameters, outputs)).sum()
    kl = (share * (ratio - 1 - difference)).sum()
    outside = (share * (jnp.abs(ratio - 1) > clip)).sum()
    total = policy + settings["value"] * value - settings["entropy"] * entropy
    return total, jnp.stack([policy, value, entropy, kl, outside])


def _adam(optimised: Optimised, gradient: Any, lr: Any) -> Optimised:
    count = optimised.count + 1
    mean = _BETA1 * optimised.mean + (1 - _BETA1) * gradient
    square = _BETA2 * optimised.square + (1 - _BETA2) * gradient * gradient
    rate = lr / (1 - _BETA1**count)
    spread = jnp.sqrt(square / (1 - _BETA2**count)) + _EPSILON
    return Optimised(optimised.parameters - rate * mean / spread, mean, square, count)


def _flat(model: ActorCritic, gradient: Mapping[str, Any]) -> Any:
    return jnp.concatenate([gradient[parameter.name].reshape(-1) for parameter in model.space.parameters])


def _variance(values: Any, counted: Any) -> Any:
    """The variance of the values that count."""
    number = jnp.maximum(counted.sum(), 1.0)
    mean = (values * counted).sum() / number
    return (counted * (values - mean) ** 2).sum() / number


def _scaling(shape: Shape, moments: Any) -> Scaling | None:
    if shape.clip_observations is None:
        return None
    mean, std = moments
    return Scaling(mean, std, shape.clip_observations)
