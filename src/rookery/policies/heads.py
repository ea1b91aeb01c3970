"""Heads: how the numbers that a network puts out become actions of an environment."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np

from rookery.envs.spec import Action, Continuous, Discrete
from rookery.errors import UserError
from rookery.policies.network import Actions

NoiseKind = Literal["gumbel", "normal"]


class Head(Protocol):
    """`outputs` numbers in, one action out; to explore, a head takes `noise` numbers of a kind per step."""

    outputs: int
    noise: int
    noise_kind: NoiseKind

    def choose(self, outputs: Any, noise: Any | None) -> Any: ...


class Categorical:
    """The largest of each group of outputs; with Gumbel noise that is a draw from the softmax."""

    noise_kind: NoiseKind = "gumbel"

    def __init__(self, space: Discrete) -> None:
        self.groups = space.choices
        self.scalar = space.scalar
        self.outputs = sum(space.choices)
        self.noise = self.outputs

    def choose(self, outputs: Any, noise: Any | None) -> Any:
        scores = outputs if noise is None else outputs + noise
        if self.scalar:
            return scores.__array_namespace__().argmax(scores, axis=-1)
        return self.pick(scores)

    def pick(self, scores: Any) -> Any:
        """The number of the largest score of each group."""
        return _argmax_groups(scores, self.groups)

    def deliver(self, picked: Any) -> Any:
        """The action that is made of the numbers picked."""
        return picked[..., 0] if self.scalar else picked


class Bounded:
    """A vector between the bounds: outputs of -1 and 1 are the bounds; unbounded components pass unchanged."""

    noise_kind: NoiseKind = "normal"

    def __init__(self, space: Continuous, actions: Actions) -> None:
        low, high = space.bounds
        finite = np.isfinite(low) & np.isfinite(high)
        self.outputs = low.size
        self.noise = low.size if actions.noise else 0
        self.scale = actions.noise
        self.tanh = actions.squash == "tanh"
        self.bounded = finite
        self.low, self.high = low, high
        low, high = np.where(finite, low, -1), np.where(finite, high, 1)
        self.centre = ((low + high) / 2).astype(np.float32)
        self.half_range = ((high - low) / 2).astype(np.float32)

    def choose(self, outputs: Any, noise: Any | None) -> Any:
        xp = outputs.__array_namespace__()
        action = xp.where(self.bounded, xp.tanh(outputs), outputs) if self.tanh else outputs
        if noise is not None:
            action = action + self.scale * noise
        return xp.minimum(xp.maximum(self.centre + self.half_range * action, self.low), self.high)


class Binned:
    """Each component of a continuous action is chosen from a few values, like a discrete one."""

    noise_kind: NoiseKind = "gumbel"

    def __init__(self, space: Continuous, actions: Actions) -> None:
        low, high = space.bounds
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            raise UserError("policy.action.bins: this environment's actions have no bounds to divide into bins")
        fractions = actions.bins
        steps = np.linspace(-1, 1, max(fractions, 0)) if isinstance(fractions, int) else np.asarray(fractions)
        if len(steps) < 2 or np.abs(steps).max() > 1:
            raise UserError("policy.action.bins: expected at least 2 bins, as fractions between -1 and 1")
        even = ((low + high) / 2)[:, None] + ((high - low) / 2)[:, None] * steps
        self.values = np.clip(even.astype(np.float32), low[:, None], high[:, None])
        self.groups = (len(steps),) * low.size
        self.outputs = len(steps) * low.size
        self.noise = self.outputs

    def choose(self, outputs: Any, noise: Any | None) -> Any:
        return self.deliver(self.pick(outputs if noise is None else outputs + noise))

    def pick(self, scores: Any) -> Any:
        """The number of the largest score of each component."""
        return _argmax_groups(scores, self.groups)

    def deliver(self, picked: Any) -> Any:
        """The action that is made of the numbers picked."""
        xp = picked.__array_namespace__()
        return xp.asarray(self.values)[xp.arange(len(self.groups)), picked]


def make_head(space: Action, actions: Actions) -> Head:
    """The head for an action space."""
    if isinstance(space, Discrete):
        for field, given in (("noise", actions.noise), ("bins", actions.bins)):
            if given:
                raise UserError(
                    f"policy.action.{field} is for continuous actions; this environment's are discrete"
                )
        return Categorical(space)
    if actions.bins is not None:
        if actions.noise:
            raise UserError(
                "policy.action.noise is for continuous actions without bins; with bins use sample=true"
            )
        return Binned(space, actions)
    if actions.sample:
        raise UserError("policy.action.sample is for discrete or binned actions; use policy.action.noise=0.1 here")
    return Bounded(space, actions)


def _argmax_groups(scores: Any, groups: tuple[int, ...]) -> Any:
    """The index of the largest score of each group, (..., sum(groups)) -> (..., len(groups))."""
    xp = scores.__array_namespace__()
    if len(set(groups)) == 1:
        return xp.argmax(scores.reshape(*scores.shape[:-1], len(groups), groups[0]), axis=-1)
    ends = np.cumsum(groups).tolist()
    chosen = [xp.argmax(scores[..., end - n : end], axis=-1) for n, end in zip(groups, ends, strict=True)]
    return xp.stack(chosen, axis=-1)
