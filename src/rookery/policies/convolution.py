"""Convolutions as matrix products: images become maps of blocks, and for NumPy rows of patches.

Maps are (..., height, width, channels). A patch lies in a row block by block, a block being `stride` x `stride`
pixels: for sizes that are whole strides every product is that of a convolution with stride 1 over blocks.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int, int]  # height, width, channels


class Convolution(NamedTuple):
    """A square kernel, whose size is whole strides; `same` pads with zeros so that strides cover every pixel."""

    channels: int
    size: int
    stride: int = 1
    same: bool = False

    def over_blocks(self) -> Convolution:
        """The same convolution of maps that `blocks` has made."""
        return Convolution(self.channels, self.size // self.stride)

    def rows(self, channels: int) -> int:
        """Inputs of the kernel's matrix."""
        return self.size * self.size * channels

    def output(self, size: Size) -> Size:
        """Size of the maps that come out; not above zero where the maps that go in are too small."""
        return self._along(size[0]), self._along(size[1]), self.channels

    def padding(self, length: int) -> tuple[int, int]:
        """Zeros before and behind a row or column."""
        missing = max(0, (self._along(length) - 1) * self.stride + self.size - length) if self.same else 0
        return missing // 2, missing - missing // 2

    def _along(self, length: int) -> int:
        return -(-length // self.stride) if self.same else (length - self.size) // self.stride + 1


def blocks(images: Any, layer: Convolution) -> Any:
    """Images (..., channels, height, width) as maps of blocks, with a channel for every number of a block.

    Nothing is converted: bytes stay bytes.
    """
    xp = images.__array_namespace__()
    *lead, channels, height, width = images.shape
    images = _padded(xp, images, layer, -2)
    down, across, _ = layer.output((height, width, channels))
    more, stride = layer.size // layer.stride - 1, layer.stride
    tall, wide = down + more, across + more
    images = images[..., : tall * stride, : wide * stride]
    run = stride
    if isinstance(images, np.ndarray) and stride == 4 and images.strides[-2:] == (images.shape[-1], 1):
        images, run = images.view(np.uint32), 1  # four bytes move as one number, in a quarter of the time
    split = images.reshape(*lead, channels, tall, stride, wide, run)
    first = len(lead)
    order = (*range(first), first + 1, first + 3, first, first + 2, first + 4)
    joined = xp.permute_dims(split, order).reshape(*lead, tall, wide, channels * stride * run)
    return joined if run == stride else np.ascontiguousarray(joined).view(np.uint8)


def patches(maps: NDArray[Any], layer: Convolution) -> NDArray[Any]:
    """The patches under a kernel, one row each: (..., height, width, channels) -> (..., places, rows)."""
    *lead, height, width, channels = maps.shape
    maps = _padded(np, maps, layer, -3)
    down, across, _ = layer.output((height, width, channels))
    stride, count = layer.stride, layer.size // layer.stride
    *outer, tall, wide, deep = maps.strides
    windows = np.lib.stride_tricks.as_strided(
        maps,
        (*lead, down, across, count, count, stride, stride * channels),
        (*outer, stride * tall, stride * wide, stride * tall, stride * wide, tall, deep),
        writeable=False,
    )
    return windows.reshape(*lead, down * across, layer.rows(channels))


def into_blocks(maps: Any, layer: Convolution) -> Any:
    """Maps (..., height, width, channels), with their border, as maps of the blocks that the kernel goes over."""
    xp = maps.__array_namespace__()
    *lead, height, width, channels = maps.shape
    maps, stride = _padded(xp, maps, layer, -3), layer.stride
    down, across, _ = layer.output((height, width, channels))
    tall, wide = (n + layer.size // stride - 1 for n in (down, across))
    maps = maps[..., : tall * stride, : wide * stride, :].reshape(*lead, tall, stride, wide, stride * channels)
    return xp.moveaxis(maps, -3, -2).reshape(*lead, tall, wide, stride * stride * channels)


def pooled(maps: Any, window: Convolution) -> Any:
    """The largest number of each channel under each window."""
    xp = maps.__array_namespace__()
    down, across, _ = window.output(maps.shape[-3:])
    maps = _padded(xp, maps, window, -3, -np.inf)
    for axis, count in ((-3, down), (-2, across)):
        parts = [_every(maps, axis, start, count, window.stride) for start in range(window.size)]
        maps = reduce(xp.maximum, parts)
    return maps


def _every(maps: Any, axis: int, start: int, count: int, stride: int) -> Any:
    index = slice(start, start + (count - 1) * stride + 1, stride)
    return maps[(..., index, *(slice(None),) * (-axis - 1))]


def _padded(xp: Any, maps: Any, layer: Convolution, axis: int, value: float = 0) -> Any:
    """With `same`, the maps with their border; `axis` is the height's and the width's is the one behind it."""
    around = [(0, 0)] * maps.ndim
    around[axis], around[axis + 1] = (layer.padding(maps.shape[at]) for at in (axis, axis + 1))
    if not any(map(any, around)):
        return maps
    if not isinstance(maps, np.ndarray):
        return xp.pad(maps, around, constant_values=value)
    # numpy.pad takes longer than the product that it prepares.
    shape = tuple(n + before + after for n, (before, after) in zip(maps.shape, around, strict=True))
    out = np.full(shape, value, maps.dtype) if value else np.zeros(shape, maps.dtype)
    out[tuple(slice(before, before + n) for n, (before, _) in zip(maps.shape, around, strict=True))] = maps
    return out


def channels_first(images: Any, shape: tuple[int, ...]) -> Any:
    """Images (..., *shape) of an observation as (..., channels, height, width)."""
    if len(shape) == 2:
        return images[..., None, :, :]
    return images if shape[0] <= shape[2] else images.__array_namespace__().moveaxis(images, -1, -3)


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of an observation; the channels are the shorter one of its first and last axis."""
    first, *middle, last = (1, *shape) if len(shape) == 2 else shape
    return (first, middle[0], last) if first <= last else (last, first, middle[0])


def scaled(maps: Any) -> Any:
    """Bytes as numbers from 0 to 1; numbers as they are."""
    xp = maps.__array_namespace__()
    return maps * xp.float32(1 / 255) if maps.dtype == xp.uint8 else maps
