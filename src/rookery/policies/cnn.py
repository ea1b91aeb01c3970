"""Convolutional networks: where they act, every layer is one matrix product, a convolution's over patches."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from math import prod, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from rookery.errors import UserError
from rookery.genomes.space import Parameter
from rookery.policies.convolution import Convolution, Size, patches
from rookery.policies.network import Carry, Network, Width
from rookery.policies.virtual_batch import Calibration, VirtualBatch, normalised

_FRAMES_AT_ONCE = 4  # more would not be faster, and patches take a lot of memory

Kernels = list[tuple[Convolution, int]]  # with the channels that go in


class CNN(Network, frozen=True):
    """What convolutional networks have in common. Bytes become numbers from 0 to 1; activations are relu."""

    images: ClassVar[bool] = True
    gain: ClassVar[float] = sqrt(2)  # of initial kernels: makes up for what relu takes away
    chunk: ClassVar[int] = 64  # images to learn from at once: what is between their layers fits into the cache

    hidden: Annotated[
        tuple[Width, ...], Meta(description="widths of the layers behind the convolutions", min_length=1)
    ] = (512,)
    normaliser: Annotated[None, Meta(description="images are divided by 255 instead")] = None
    vbn: Annotated[
        VirtualBatch | None,
        Meta(description="virtual batch normalisation of every layer but the last; null = none"),
    ] = None

    def kernels(self, size: Size) -> tuple[Kernels, Size]:
        """The convolutions in order, for images of a size, and the size of the maps that come out."""
        raise NotImplementedError

    def maps(self, parameters: Mapping[str, Any], images: Any) -> Any:
        """Maps (*lead, batch, height, width, channels) for images (*lead, batch, channels, height, width)."""
        raise NotImplementedError

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        channels, height, width = shape
        kernels, size = self.kernels((height, width, channels))
        if min(size) < 1:
            kind = self.__struct_config__.tag
            least = next(n for n in count(1) if min(self.kernels((n, n, channels))[1]) > 0)
            raise UserError(
                f"policy.type={kind} needs images of at least {least} x {least}, not {height} x {width}"
            )
        layers: list[Parameter] = []
        for number, (kernel, channels) in enumerate(kernels):
            rows = kernel.rows(channels)
            layers += (
                Parameter(f"k{number}", (rows, kernel.channels), self.gain / sqrt(rows)),
                Parameter(f"bk{number}", (kernel.channels,)),
            )
        widths = (prod(size), *self.hidden)
        for number, (rows, columns) in enumerate(zip(widths, self.hidden, strict=False)):
            layers += (
                Parameter(f"w{number}", (rows, columns), sqrt(2 / rows)),
                Parameter(f"b{number}", (columns,)),
            )
        return (*layers, *self.output_layer(self.hidden[-1], outputs))

    def features(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        xp = x.__array_namespace__()
        x = self._convolved(parameters, x)
        for number in range(len(self.hidden)):
            x = normalised(parameters, f"w{number}", x @ parameters[f"w{number}"])
            x = xp.maximum(x + parameters[f"b{number}"][..., None, :], 0.0)
        return x, carry

    def convolve(self, parameters: Mapping[str, Any], number: int, maps: Any, kernel: Convolution) -> Any:
        """One convolution, before its activation."""
        *lead, batch, height, width, channels = maps.shape
        matrix = parameters[f"k{number}"]
        out = (
            _few_at_once(maps, matrix, kernel) if isinstance(maps, np.ndarray) else _learned(maps, matrix, kernel)
        )
        out = normalised(parameters, f"k{number}", out) + parameters[f"bk{number}"][..., None, :]
        return out.reshape(*lead, batch, *kernel.output((height, width, channels)))

    def reference(self) -> VirtualBatch | None:
        return self.vbn

    def calibrate(self, parameters: Mapping[str, Any], reference: Any) -> dict[str, Any]:
        """Statistics of every layer for reference images (frames, channels, height, width)."""
        xp = reference.__array_namespace__()
        leads = parameters["b"].shape[:-1]
        if not leads:
            return self._statistics(parameters, reference)
        members = [  # one by one, as the patches of all reference images are large
            self._statistics(_members(parameters, slice(row, row + 1)), reference) for row in range(leads[0])
        ]
        return {name: xp.concat([part[name] for part in members]) for name in members[0]}

    def _statistics(self, parameters: Mapping[str, Any], reference: Any) -> dict[str, Any]:
        calibration = Calibration(parameters)
        shape = (*(1 for _ in parameters["b"].shape[:-1]), *reference.shape)
        self.forward(calibration, reference.reshape(shape), ())
        return calibration.statistics

    def _convolved(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """What the convolutions make of images, flat: (*lead, batch, numbers)."""
        if isinstance(x, np.ndarray) and x.ndim > 4 and not isinstance(parameters, Calibration):
            few = max(1, _FRAMES_AT_ONCE * len(x) // prod(x.shape[:-3]))
            starts = range(0, len(x), few)
            parts = [self._flat(_members(parameters, slice(at, at + few)), x[at : at + few]) for at in starts]
            return np.concatenate(parts)
        return self._flat(parameters, x)

    def _flat(self, parameters: Mapping[str, Any], x: Any) -> Any:
        maps = self.maps(parameters, x)
        return maps.reshape(*maps.shape[:-3], prod(maps.shape[-3:]))


def _few_at_once(maps: NDArray[Any], matrix: Any, kernel: Convolution) -> Any:
    """A convolution's rows (*lead, batch * places, channels), acting."""
    parts = [
        _multiplied(patches(maps[..., at : at + _FRAMES_AT_ONCE, :, :, :], kernel), matrix)
        for at in range(0, maps.shape[-4], _FRAMES_AT_ONCE)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)


def _learned(maps: Any, matrix: Any, kernel: Convolution) -> Any:
    """A convolution's rows (*lead, batch * places, channels), learning."""
    from rookery.policies.xla import convolved

    out = convolved(maps, matrix, kernel)
    return out.reshape(*out.shape[:-4], prod(out.shape[-4:-1]), out.shape[-1])


def _multiplied(rows: Any, matrix: Any) -> Any:
    """Rows of patches (*lead, batch, places, numbers) times a kernel, all images of a batch below each other."""
    *lead, batch, places, width = rows.shape
    return rows.reshape(*lead, batch * places, width) @ matrix


def _members(parameters: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    return {name: part[rows] for name, part in parameters.items()}
