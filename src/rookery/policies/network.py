"""What every network has in common: its description in an experiment, and what a policy asks of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from rookery.genomes.space import Parameter
from rookery.policies.virtual_batch import VirtualBatch

Carry = tuple[Any, ...]

Width = Annotated[int, Meta(ge=1)]


class Normaliser(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Running normalisation of observations."""

    share: Annotated[float, Meta(gt=0, le=1, description="share of the rollouts that feed the statistics")] = 1.0
    floor: Annotated[float, Meta(gt=0, description="the smallest standard deviation to divide by")] = 0.1
    clip: Annotated[float, Meta(gt=0, description="normalised observations are clipped to +- this")] = 5.0


class Actions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the network's outputs become actions."""

    sample: Annotated[
        bool,
        Meta(description="draw discrete actions from the softmax (while training) instead of the argmax"),
    ] = False
    noise: Annotated[
        float,
        Meta(ge=0, description="std of the noise on continuous actions, in half ranges (while training)"),
    ] = 0.0
    bins: Annotated[
        int | tuple[float, ...] | None,
        Meta(
            description="choose each continuous action from this many even steps, "
            "or from these fractions in [-1, 1]"
        ),
    ] = None
    squash: Annotated[
        Literal["clip", "tanh"], Meta(description="how continuous outputs are kept within the bounds")
    ] = "clip"

    @property
    def explores(self) -> bool:
        """Whether chance has a part in the actions of candidates."""
        return self.sample or self.noise > 0


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all networks have; a kind of network adds its own parameters and its forward pass."""

    images: ClassVar[bool] = False  # what it takes; otherwise vectors
    chunk: ClassVar[int] = 4096  # observations to learn from at once

    hidden: Annotated[tuple[Width, ...], Meta(description="widths of the hidden layers")] = (64, 64)
    output_scale: Annotated[float, Meta(ge=0, description="scale of the last layer's initial weights")] = 0.1
    normaliser: Annotated[
        Normaliser | None, Meta(description="running normalisation of observations; null = none")
    ] = Normaliser()
    action: Annotated[Actions, Meta(description="how outputs become actions")] = Actions()
    init_from: Annotated[
        str | None, Meta(description="start from this run's best policy; the network may have grown since")
    ] = None

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        """The arrays of this network for observations of a shape, in the order in which they lie in a genome."""
        raise NotImplementedError

    def features(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        """What the last layer is given for x (*lead, batch, *shape); parameters have the axes (*lead, ...)."""
        raise NotImplementedError

    def forward(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        """Outputs (*lead, batch, outputs) for x (*lead, batch, *shape)."""
        x, carry = self.features(parameters, x, carry)
        return self.output(parameters, x), carry

    def reference(self) -> VirtualBatch | None:
        """The reference observations that it wants to be calibrated with."""
        return None

    def calibrate(self, parameters: Mapping[str, Any], reference: Any) -> dict[str, Any]:
        """Statistics of every layer for reference observations, for a network that normalises by them."""
        raise NotImplementedError

    def carry_widths(self) -> tuple[int, ...]:
        """Widths of the arrays that are carried from step to step; none for a network without memory."""
        return ()

    def output_layer(self, inputs: int, outputs: int) -> tuple[Parameter, ...]:
        rows = self.hidden[-1] if self.hidden else inputs
        return Parameter("w", (rows, outputs), self.output_scale / sqrt(rows)), Parameter("b", (outputs,))

    def output(self, parameters: Mapping[str, Any], x: Any) -> Any:
        return x @ parameters["w"] + parameters["b"][..., None, :]
