"""A policy: normalised observation -> network -> head, for many members at once, in NumPy or JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.envs.spec import Spaces
from rookery.errors import UserError
from rookery.genomes.space import ParameterSpace
from rookery.policies.heads import make_head
from rookery.policies.network import Carry, Network
from rookery.policies.normaliser import Moments, Scaling


class Policy:
    """A network fitted to an environment's spaces.

    Nothing in it changes: parameters, carry, noise and scaling come in as arguments, members along leading axes.
    """

    def __init__(self, network: Network, spaces: Spaces) -> None:
        observation = spaces.observation
        if observation.is_image:
            kind = type(network).__name__.lower()
            raise UserError(
                f"policy.type={kind} takes a vector, but this environment shows images of shape "
                f"{observation.shape} ({observation.dtype}); choose one of its variants with a vector observation"
            )
        self.network = network
        self.head = make_head(spaces.action, network.action)
        self.inputs = observation.size
        self.space = ParameterSpace(network.parameters(self.inputs, self.head.outputs))

    def carry(self, *lead: int) -> Carry:
        """What the policy remembers at the first step of an episode: nothing."""
        return tuple(np.zeros((*lead, width), np.float32) for width in self.network.carry_widths())

    def scaling(self, moments: Moments | None) -> Scaling | None:
        """The normalisation that goes with the observations seen so far."""
        normaliser = self.network.normaliser
        if normaliser is None or moments is None:
            return None
        mean, std = moments.statistics(normaliser.floor)
        return Scaling(mean, std, normaliser.clip)

    def act(
        self,
        parameters: Mapping[str, Any],
        observation: Any,
        carry: Carry = (),
        scaling: Scaling | None = None,
        noise: Any | None = None,
    ) -> tuple[Any, Carry]:
        """Actions for observations (*lead, batch, inputs), and the carry for the next step."""
        x = observation if scaling is None else scaling.apply(observation)
        outputs, carry = self.network.forward(parameters, x, carry)
        return self.head.choose(outputs, noise), carry
