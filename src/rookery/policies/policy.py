"""A policy: normalised observation -> network -> head, for many members at once, in NumPy or JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.envs.spec import Observation, Spaces
from rookery.errors import UserError
from rookery.genomes.space import ParameterSpace
from rookery.policies.convolution import channels_first, image_shape
from rookery.policies.heads import make_head
from rookery.policies.network import Carry, Network
from rookery.policies.normaliser import Moments, Scaling


class Policy:
    """A network fitted to an environment's spaces.

    Nothing in it changes: parameters, carry, noise and scaling come in as arguments, members along leading axes.
    """

    def __init__(self, network: Network, spaces: Spaces) -> None:
        observation = spaces.observation
        _refuse_misfit(network, observation)
        self.network = network
        self.head = make_head(spaces.action, network.action)
        self.observation = observation
        self.inputs = observation.size
        shape = image_shape(observation.shape) if network.images else observation.shape
        self.space = ParameterSpace(network.parameters(shape, self.head.outputs))

    def misfit(self, smaller: Policy) -> str | None:
        """Why parameters of `smaller` would mean something else here, although they might fit; None when not."""
        if not (self.network.images or smaller.network.images):
            return None
        (ours, shape), (theirs, shown) = (
            (policy.network.__struct_config__.tag, policy.observation.shape) for policy in (self, smaller)
        )
        if ours != theirs:
            return f"it is of type {theirs}, not {ours}"
        return None if shown == shape else f"it was shown images of shape {shown}, not {shape}"

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

    def calibrate(self, parameters: Mapping[str, Any], reference: Any) -> dict[str, Any]:
        """Further entries for the parameters: what each layer puts out for reference images (frames, *shape)."""
        return self.network.calibrate(parameters, channels_first(reference, self.observation.shape))

    def act(
        self,
        parameters: Mapping[str, Any],
        observation: Any,
        carry: Carry = (),
        scaling: Scaling | None = None,
        noise: Any | None = None,
    ) -> tuple[Any, Carry]:
        """Actions for observations (*lead, batch, *shape), and the carry for the next step."""
        x = observation if scaling is None else scaling.apply(observation)
        if self.network.images:
            x = channels_first(x, self.observation.shape)
        outputs, carry = self.network.forward(parameters, x, carry)
        return self.head.choose(outputs, noise), carry


def _refuse_misfit(network: Network, observation: Observation) -> None:
    """Networks take vectors or images, and say so when an environment shows the other."""
    kind, shape = network.__struct_config__.tag, f"of shape {observation.shape} ({observation.dtype})"
    if observation.is_image and not network.images:
        raise UserError(
            f"policy.type={kind} takes a vector, but this environment shows images {shape}; "
            "policy.type=nature takes images"
        )
    if network.images and not observation.is_image:
        raise UserError(
            f"policy.type={kind} takes images, but this environment shows a vector {shape}; "
            "policy.type=mlp takes vectors"
        )
    if network.images and len(observation.shape) > 3:
        raise UserError(f"policy.type={kind} takes images of two or three axes, not {shape}")
