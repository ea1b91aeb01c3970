"""Feed-forward networks."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any, Literal

from msgspec import Meta

from rookery.genomes.space import Parameter
from rookery.policies.network import Carry, Network


class MLP(Network, frozen=True, tag="mlp"):
    """A feed-forward network; its `hidden` may be empty for a linear policy."""

    activation: Annotated[Literal["tanh", "relu"], Meta(description="between the layers")] = "tanh"

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        (inputs,) = shape
        layers: list[Parameter] = []
        widths = (inputs, *self.hidden)
        for number, (rows, columns) in enumerate(zip(widths, self.hidden, strict=False)):
            layers += (
                Parameter(f"w{number}", (rows, columns), 1 / sqrt(rows)),
                Parameter(f"b{number}", (columns,)),
            )
        return (*layers, *self.output_layer(inputs, outputs))

    def features(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        xp = x.__array_namespace__()
        for number in range(len(self.hidden)):
            x = x @ parameters[f"w{number}"] + parameters[f"b{number}"][..., None, :]
            x = xp.tanh(x) if self.activation == "tanh" else xp.maximum(x, 0.0)
        return x, carry
