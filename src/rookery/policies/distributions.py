"""What a learner's actions are drawn from: a head's outputs, read as a distribution that has probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from math import e, log, pi
from typing import Any, Protocol

import numpy as np

from rookery.errors import UserError
from rookery.genomes.space import Parameter
from rookery.policies.heads import Binned, Bounded, Categorical, Head, NoiseKind

LOG_STD = "log std"


class Distribution(Protocol):
    """Draws in NumPy, from numbers of a noise kind; probabilities in JAX. Draws have one axis, `width` long."""

    width: int
    dtype: np.dtype[Any]
    noise: int
    noise_kind: NoiseKind
    parameters: tuple[Parameter, ...]

    def draw(self, parameters: Mapping[str, Any], outputs: Any, noise: Any) -> Any: ...

    def action(self, drawn: Any) -> Any:
        """What the environment is sent for a draw."""
        ...

    def log_probability(self, parameters: Mapping[str, Any], outputs: Any, drawn: Any) -> Any: ...

    def entropy(self, parameters: Mapping[str, Any], outputs: Any) -> Any: ...


class Choices:
    """One choice from each group of outputs, which are its unnormalised log-probabilities."""

    noise_kind: NoiseKind = "gumbel"
    parameters: tuple[Parameter, ...] = ()

    def __init__(self, head: Categorical | Binned) -> None:
        self.head = head
        self.width = len(head.groups)
        self.noise = head.outputs
        self.dtype = np.min_scalar_type(max(head.groups) - 1)

    def draw(self, parameters: Mapping[str, Any], outputs: Any, noise: Any) -> Any:
        del parameters
        return self.head.pick(outputs + noise).astype(self.dtype)

    def action(self, drawn: Any) -> Any:
        return self.head.deliver(drawn)

    def log_probability(self, parameters: Mapping[str, Any], outputs: Any, drawn: Any) -> Any:
        del parameters
        parts = self._log_probabilities(outputs)
        chosen = (_chosen(part, drawn[..., group]) for group, part in enumerate(parts))
        return sum(chosen)

    def entropy(self, parameters: Mapping[str, Any], outputs: Any) -> Any:
        del parameters
        import jax.numpy as jnp

        return -sum((jnp.exp(part) * part).sum(axis=-1) for part in self._log_probabilities(outputs))

    def _log_probabilities(self, outputs: Any) -> list[Any]:
        """Of every choice, group by group."""
        from jax.nn import log_softmax

        ends = np.cumsum(self.head.groups).tolist()
        return [
            log_softmax(outputs[..., end - n : end], axis=-1)
            for n, end in zip(self.head.groups, ends, strict=True)
        ]


class Gaussian:
    """Outputs plus noise whose standard deviations are learned, in half ranges of the action, whatever is seen.

    What leaves the bounds is clipped, or squashed, on the way to the environment; probabilities are those of what
    was drawn, so that neither changes a ratio of two of them.
    """

    noise_kind: NoiseKind = "normal"
    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, head: Bounded) -> None:
        self.head = head
        self.width = self.noise = head.outputs
        self.parameters: tuple[Parameter, ...] = (Parameter(LOG_STD, (head.outputs,)),)

    def draw(self, parameters: Mapping[str, Any], outputs: Any, noise: Any) -> Any:
        return outputs + np.exp(parameters[LOG_STD])[..., None, :] * noise

    def action(self, drawn: Any) -> Any:
        return self.head.choose(drawn, None)

    def log_probability(self, parameters: Mapping[str, Any], outputs: Any, drawn: Any) -> Any:
        import jax.numpy as jnp

        logs = parameters[LOG_STD]
        away = (drawn - outputs) * jnp.exp(-logs)
        return (-0.5 * away * away - logs).sum(axis=-1) - 0.5 * log(2 * pi) * self.width

    def entropy(self, parameters: Mapping[str, Any], outputs: Any) -> Any:
        import jax.numpy as jnp

        one = (parameters[LOG_STD] + 0.5 * log(2 * pi * e)).sum()
        return jnp.broadcast_to(one, outputs.shape[:-1])


def make_distribution(head: Head) -> Distribution:
    """The distribution that goes with a head."""
    if isinstance(head, Categorical | Binned):
        return Choices(head)
    if isinstance(head, Bounded):
        if head.scale:
            raise UserError("policy.action.noise: a learner finds its own; algorithm.std is where it starts")
        return Gaussian(head)
    raise TypeError(f"no distribution for {type(head).__name__}")


def _chosen(values: Any, index: Any) -> Any:
    """The value at an index of the last axis: compared and summed, which is faster than a gather."""
    import jax.numpy as jnp

    return jnp.where(jnp.arange(values.shape[-1]) == index[..., None], values, 0.0).sum(axis=-1)
