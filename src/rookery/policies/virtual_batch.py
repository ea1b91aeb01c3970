"""Virtual batch normalisation: a layer's outputs are scaled by what it puts out for fixed reference images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

_EPSILON = 1e-5  # added to variances


class VirtualBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which images are the reference; they are shown while actions are random."""

    frames: Annotated[int, Meta(ge=2, description="reference images")] = 128
    seed: Annotated[int, Meta(ge=0, description="the episodes and the random actions follow from it")] = 0


class Calibration(dict[str, Any]):
    """Parameters with which the reference passes through a network, and the statistics that this leaves behind."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self.statistics: dict[str, Any] = {}


def normalised(parameters: Mapping[str, Any], layer: str, outputs: Any) -> Any:
    """Outputs (*lead, rows, channels) of a layer, with the statistics that the parameters have for it."""
    mean, scale = f"{layer} mean", f"{layer} scale"
    if isinstance(parameters, Calibration):
        xp = outputs.__array_namespace__()
        parameters[mean] = parameters.statistics[mean] = xp.mean(outputs, axis=-2)
        variance = xp.var(outputs, axis=-2)
        parameters[scale] = parameters.statistics[scale] = 1.0 / xp.sqrt(variance + _EPSILON)
    if mean not in parameters:
        return outputs
    return (outputs - parameters[mean][..., None, :]) * parameters[scale][..., None, :]
