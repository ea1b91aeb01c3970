"""Convolutions that JAX learns with, in the few forms for which XLA has fast kernels on CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp
from jax.custom_batching import sequential_vmap

from rookery.policies.convolution import Convolution, into_blocks

Border = tuple[tuple[int, int], ...]  # zeros before and behind columns and rows

_one_by_one: Callable[[Callable[..., Any]], Callable[..., Any]] = sequential_vmap

_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT,LIBRARY_FUSION_TYPE_REDUCE"}


@cache
def compiler_options() -> dict[str, str]:
    """For `jax.jit` of learning with convolutions: Eigen computes them, YNNPACK only products and sums.

    YNNPACK's convolutions can take ten times as long. An XLA that does not know the option is left as it is.
    """
    try:
        jax.jit(lambda: 0, compiler_options=_OPTIONS).lower().compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return _OPTIONS


def convolved(maps: Any, matrix: Any, layer: Convolution) -> Any:
    """Maps (*lead, batch, height, width, channels) under a kernel's matrix (*lead, rows, channels)."""
    around: Border = ((0, 0), (0, 0))
    if layer.stride == 1:
        around = layer.padding(maps.shape[-3]), layer.padding(maps.shape[-2])
    else:
        maps = into_blocks(maps, layer)
    times = layer.size // layer.stride
    kernel = matrix.reshape(*matrix.shape[:-2], times, times, maps.shape[-1], layer.channels)
    product = _product(around)
    for _ in maps.shape[:-4]:
        product = jax.vmap(product)
    return product(maps, kernel)


def in_chunks(function: Callable[[Any], Any], batch: Any, size: int) -> Any:
    """The sum of what a function returns for chunks of a batch, one after the other.

    With at most `size` rows at a time, what lies between the layers stays in the processor's cache. All arrays of
    the batch have as many rows; a chunk is the largest part of them that leaves no rest.
    """
    rows = len(jax.tree.leaves(batch)[0])
    count = next(n for n in range(-(-rows // size), rows + 1) if rows % n == 0)
    if count == 1:
        return function(batch)
    chunks = jax.tree.map(lambda part: part.reshape(count, rows // count, *part.shape[1:]), batch)
    first = jax.tree.map(lambda part: part[0], chunks)
    zeros = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype), jax.eval_shape(function, first))
    return lax.scan(lambda total, chunk: (jax.tree.map(jnp.add, total, function(chunk)), None), zeros, chunks)[0]


@cache
def _product(around: Border) -> Callable[[Any, Any], Any]:
    """A convolution of blocks with zeros around them.

    XLA brings the gradients of a convolution into the form that its kernels want, but not within a loop, where
    they would take a hundred times as long: here they have that form from the start. Members come one after the
    other; groups of channels would not be fast either. There are two gradients so that images need not have one.
    """

    @_one_by_one
    def forward(maps: Any, kernel: Any) -> Any:
        return _convolved(maps, kernel, around)

    @_one_by_one
    def maps_gradient(kernel: Any, gradient: Any) -> Any:
        last = len(kernel) - 1
        rest = tuple((last - before, last - behind) for before, behind in around)
        return _convolved(gradient, kernel[::-1, ::-1].swapaxes(2, 3), rest)

    @_one_by_one
    def kernel_gradient(maps: Any, gradient: Any) -> Any:
        turned = _convolved(maps.transpose(3, 1, 2, 0), gradient.transpose(1, 2, 0, 3), around)
        return turned.transpose(1, 2, 0, 3)

    def backward(kept: tuple[Any, Any], gradient: Any) -> tuple[Any, Any]:
        maps, kernel = kept
        return maps_gradient(kernel, gradient), kernel_gradient(maps, gradient)

    product = jax.custom_vjp(forward)
    product.defvjp(lambda maps, kernel: (forward(maps, kernel), (maps, kernel)), backward)
    return product


def _convolved(maps: Any, kernel: Any, around: Border) -> Any:
    return lax.conv_general_dilated(maps, kernel, (1, 1), around, dimension_numbers=("NHWC", "HWIO", "NHWC"))
