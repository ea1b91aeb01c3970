"""The residual network of IMPALA, which is the measure on Procgen."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any, ClassVar

from msgspec import Meta, structs

from rookery.genomes.space import Parameter
from rookery.policies.cnn import CNN, Kernels
from rookery.policies.convolution import Convolution, Size, blocks, pooled, scaled
from rookery.policies.network import Width

_POOL = Convolution(0, 3, 2, same=True)
_SIZE = 3  # of a kernel
_KERNELS = 5  # of a stage: one before the pooling, two of each residual block


class Impala(CNN, frozen=True, tag="impala"):
    """The larger network of Espeholt et al. (2018), "IMPALA": residual blocks in stages that halve the image."""

    gain: ClassVar[float] = 1.0  # more would add up over the blocks
    chunk: ClassVar[int] = 16

    hidden: Annotated[
        tuple[Width, ...], Meta(description="widths of the layers behind the convolutions", min_length=1)
    ] = (256,)
    channels: Annotated[tuple[Width, ...], Meta(description="channels of each stage", min_length=1)] = (16, 32, 32)
    xavier: Annotated[
        bool, Meta(description="initial weights after Glorot and Bengio (2010), as in Procgen's reference PPO")
    ] = False

    def kernels(self, size: Size) -> tuple[Kernels, Size]:
        found: Kernels = []
        for channels in self.channels:
            kernel = Convolution(channels, _SIZE, same=True)
            found += [(kernel, size[-1]), *[(kernel, channels)] * (_KERNELS - 1)]
            size = (*_POOL.output(size)[:2], channels)
        return found, size

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        *layers, weights, biases = super().parameters(shape, outputs)
        return (*(map(_xavier, layers) if self.xavier else layers), weights, biases)

    def maps(self, parameters: Mapping[str, Any], images: Any) -> Any:
        xp = images.__array_namespace__()
        maps = scaled(blocks(images, Convolution(0, 1)))
        for stage, channels in enumerate(self.channels):
            kernel, first = Convolution(channels, _SIZE, same=True), stage * _KERNELS
            maps = pooled(self.convolve(parameters, first, maps, kernel), _POOL)
            for number in range(first + 1, first + _KERNELS, 2):
                inner = self.convolve(parameters, number, xp.maximum(maps, 0.0), kernel)
                maps = maps + self.convolve(parameters, number + 1, xp.maximum(inner, 0.0), kernel)
        return xp.maximum(maps, 0.0)


def _xavier(part: Parameter) -> Parameter:
    """The same with the deviation that Glorot and Bengio give to a matrix; a kernel writes to as many places."""
    if not part.std:
        return part
    rows, columns = part.shape
    places = _SIZE * _SIZE if part.name.startswith("k") else 1
    return structs.replace(part, std=sqrt(2 / (rows + places * columns)))
