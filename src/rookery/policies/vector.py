"""No network at all: the parameters are the action, whatever the observation. For functions to be optimised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from rookery.genomes.space import Parameter
from rookery.policies.network import Carry, Network, Normaliser, Width


class VectorPolicy(Network, frozen=True, tag="vector"):
    """Always the same action, number by number what is evolved."""

    hidden: Annotated[tuple[Width, ...], Meta(max_length=0, description="a vector has no layers")] = ()
    output_scale: Annotated[float, Meta(ge=0, description="standard deviation of the initial numbers")] = 1.0
    normaliser: Annotated[Normaliser | None, Meta(description="of no use, as nothing is looked at")] = None

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        del shape
        return (Parameter("x", (outputs,), self.output_scale),)

    def forward(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        vector = parameters["x"]
        shape = (*x.shape[:-1], vector.shape[-1])
        return x.__array_namespace__().broadcast_to(vector[..., None, :], shape), carry
