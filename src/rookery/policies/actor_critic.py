"""A policy with its critic: one flat vector for both, the policy's part first, as it would be deployed."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs.spec import Spaces
from rookery.errors import UserError
from rookery.genomes.space import Parameter, ParameterSpace
from rookery.policies.convolution import channels_first
from rookery.policies.distributions import LOG_STD, make_distribution
from rookery.policies.network import Carry, Network
from rookery.policies.policy import Policy
from rookery.policies.vector import VectorPolicy

Sharing = Literal["auto", "separate", "shared"]

_OWN = "critic "  # in front of the names of a critic's own layers
_VALUE, _BIAS = "value w", "value b"


class ActorCritic:
    """Outputs and values for observations; nothing in it changes, parameters come in as arguments."""

    def __init__(self, network: Network, spaces: Spaces, critic: Sharing = "auto", std: float = 1.0) -> None:
        if isinstance(network, VectorPolicy):
            raise UserError("policy.type=vector looks at nothing, and a learner has nothing to learn from it")
        if network.reference() is not None:
            raise UserError("policy.vbn is for populations that evolve; a learner needs policy.vbn=null")
        self.policy = Policy(network, spaces)
        self.network = network
        self.recurrent = bool(network.carry_widths())
        self.images = network.images
        if critic == "separate" and self.recurrent:
            raise UserError(
                f"algorithm.critic=separate: policy.type={network.__struct_config__.tag} remembers, and a critic "
                "of its own would have to remember as well; algorithm.critic=shared sees what the policy remembers"
            )
        self.separate = critic == "separate" or (critic == "auto" and not (self.recurrent or self.images))
        self.distribution = make_distribution(self.policy.head)
        self.std = std
        self.space = ParameterSpace((*self.policy.space.parameters, *self._more()))

    def _more(self) -> tuple[Parameter, ...]:
        """What a learner has beyond the policy."""
        layers = self.policy.space.parameters[:-2]  # all but the output layer
        rows = self.policy.space.parameters[-2].shape[0]
        own = tuple(replace(layer, name=_OWN + layer.name) for layer in layers) if self.separate else ()
        value = (Parameter(_VALUE, (rows, 1), 1 / sqrt(rows)), Parameter(_BIAS, (1,)))
        return (*self.distribution.parameters, *own, *value)

    def initial(self, rng: np.random.Generator, start: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """Fresh parameters, or those of a policy with a fresh critic."""
        vector = self.space.initial(rng)
        if start is not None:
            vector[: start.size] = start
        for name, part in self.space.split(vector).items():
            if name == LOG_STD:
                part[...] = np.log(self.std)
        return vector

    def deployed(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """The policy's part of a vector."""
        return vector[: self.policy.space.size]

    def look(self, observations: Any, scaling: Any) -> Any:
        """Observations as the network takes them: scaled vectors, or images with their channels first."""
        x = observations if scaling is None else scaling.apply(observations)
        return channels_first(x, self.policy.observation.shape) if self.images else x

    def outputs(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        """What the actions are drawn from."""
        return self.network.forward(parameters, x, carry)

    def both(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Any, Carry]:
        """What the actions are drawn from, the value, and what is carried on."""
        features, carry = self.network.features(parameters, x, carry)
        outputs = self.network.output(parameters, features)
        if self.separate:
            own = {name.removeprefix(_OWN): part for name, part in parameters.items() if name.startswith(_OWN)}
            features, _ = self.network.features(own, x, ())
        value = features @ parameters[_VALUE] + parameters[_BIAS][..., None, :]
        return outputs, value[..., 0], carry
