"""Stacks of convolutions that have become the measure on Atari games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rookery.policies.cnn import CNN, Kernels
from rookery.policies.convolution import Convolution, Size, blocks, scaled


class Stacked(CNN, frozen=True):
    """Convolutions one after the other."""

    stack: ClassVar[tuple[Convolution, ...]]

    def kernels(self, size: Size) -> tuple[Kernels, Size]:
        found: Kernels = []
        for kernel in self.stack:
            found.append((kernel, size[-1]))
            size = kernel.output(size)
        return found, size

    def maps(self, parameters: Mapping[str, Any], images: Any) -> Any:
        xp = images.__array_namespace__()
        first, *rest = self.stack
        maps = scaled(blocks(images, first))
        for number, kernel in enumerate((first.over_blocks(), *rest)):
            maps = xp.maximum(self.convolve(parameters, number, maps, kernel), 0.0)
        return maps


class Nature(Stacked, frozen=True, tag="nature"):
    """The network of Mnih et al. (2015), "Human-level control through deep reinforcement learning"."""

    stack: ClassVar[tuple[Convolution, ...]] = (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3))


class DeepGA(Stacked, frozen=True, tag="deepga"):
    """The network of Such et al. (2017), "Deep Neuroevolution": the same kernels with zeros around the images."""

    stack: ClassVar[tuple[Convolution, ...]] = tuple(kernel._replace(same=True) for kernel in Nature.stack)
