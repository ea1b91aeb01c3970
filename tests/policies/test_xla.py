"""Convolutions that learn: the gradients of JAX's own, for members side by side, in chunks and in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from jax import numpy as jnp
from numpy.typing import NDArray

from rookery.envs import Discrete, Observation, Spaces
from rookery.policies import CNN, DeepGA, Impala, Nature, Policy
from rookery.policies.convolution import Convolution
from rookery.policies.xla import compiler_options, convolved, in_chunks

IMAGE, BATCH, MEMBERS = (3, 40, 44), 4, 2
NETWORKS = {
    "nature": Nature(hidden=(16,), output_scale=1.0),
    "deepga": DeepGA(hidden=(16,), output_scale=1.0),
    "impala": Impala(hidden=(16,), channels=(4, 6), output_scale=1.0),
}
every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def plain(maps: Any, kernel: Any, layer: Convolution) -> Any:
    """JAX's own convolution of maps by a kernel (height, width, in, out)."""
    padding, strides = "SAME" if layer.same else "VALID", (layer.stride, layer.stride)
    return lax.conv_general_dilated(maps, kernel, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def kernel_of(matrix: Any, layer: Convolution, channels: int) -> Any:
    """A kernel (height, width, in, out) from its matrix, whose rows lie block by block."""
    times, stride = layer.size // layer.stride, layer.stride
    axes = matrix.reshape(times, times, stride, stride, channels, layer.channels)
    return axes.transpose(0, 2, 1, 3, 4, 5).reshape(layer.size, layer.size, channels, layer.channels)


def first_kernel_of(matrix: Any, layer: Convolution, channels: int) -> Any:
    """The same of a first layer, whose blocks are made of images with their channels first."""
    times, stride = layer.size // layer.stride, layer.stride
    axes = matrix.reshape(times, times, channels, stride, stride, layer.channels)
    return axes.transpose(0, 3, 1, 4, 2, 5).reshape(layer.size, layer.size, channels, layer.channels)


def own_outputs(network: CNN, parameters: dict[str, Any], images: Any) -> Any:
    """The network's outputs, by JAX's own convolutions and pooling."""
    maps = jnp.moveaxis(images, -3, -1) / jnp.float32(255)

    def layer(number: int, maps: Any, kernel: Convolution) -> Any:
        make = kernel_of if number else first_kernel_of
        return (
            plain(maps, make(parameters[f"k{number}"], kernel, maps.shape[-1]), kernel) + parameters[f"bk{number}"]
        )

    if isinstance(network, Impala):
        for stage, channels in enumerate(network.channels):
            kernel, first = Convolution(channels, 3, same=True), 5 * stage
            maps = layer(first, maps, kernel)
            maps = lax.reduce_window(maps, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
            for number in (first + 1, first + 3):
                inner = layer(number, jnp.maximum(maps, 0.0), kernel)
                maps = maps + layer(number + 1, jnp.maximum(inner, 0.0), kernel)
        maps = jnp.maximum(maps, 0.0)
    else:
        for number, kernel in enumerate(network.stack):
            maps = jnp.maximum(layer(number, maps, kernel), 0.0)
    hidden = jnp.maximum(maps.reshape(len(maps), -1) @ parameters["w0"] + parameters["b0"], 0.0)
    return hidden @ parameters["w"] + parameters["b"]


def fitted(network: CNN) -> tuple[NDArray[np.float32], Callable[..., Any], Callable[..., Any], Any]:
    """Parameters of two members, the network's loss and JAX's own for one of them, and images."""
    policy = Policy(network, Spaces(Observation(IMAGE, "uint8"), Discrete((3,))))
    rng = np.random.default_rng(0)
    vectors = np.stack([policy.space.initial(rng) for _ in range(MEMBERS)])
    images = jnp.asarray(rng.integers(256, size=(BATCH, *IMAGE), dtype=np.uint8))

    def loss(vector: Any, images: Any) -> Any:
        return (network.forward(policy.space.split(vector), images, ())[0] ** 2).sum()

    def own(vector: Any, images: Any) -> Any:
        return (own_outputs(network, policy.space.split(vector), images) ** 2).sum()

    return vectors, loss, own, images


def assert_close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * float(np.abs(expected).max()))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(("size", "stride"), [(8, 4), (4, 2), (3, 1)])
def test_gradients_of_a_layer_are_those_of_jaxs_convolution(size: int, stride: int, same: bool) -> None:
    layer, rng = Convolution(5, size, stride, same), np.random.default_rng(0)
    maps = rng.standard_normal((2, 21, 27, 3), np.float32)
    matrix = rng.standard_normal((layer.rows(3), 5), np.float32)
    weights = rng.standard_normal((2, *layer.output((21, 27, 3))), np.float32)
    found = jax.grad(lambda m, k: (convolved(m, k, layer) * weights).sum(), (0, 1))(maps, matrix)
    expected = jax.grad(lambda m, k: (plain(m, kernel_of(k, layer, 3), layer) * weights).sum(), (0, 1))(
        maps, matrix
    )
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@every_network
def test_gradients_of_a_network_are_those_of_jaxs_convolutions(network: CNN) -> None:
    vectors, loss, own, images = fitted(network)
    found = jax.jit(jax.value_and_grad(loss), compiler_options=compiler_options())(vectors[0], images)
    for one, other in zip(found, jax.jit(jax.value_and_grad(own))(vectors[0], images), strict=True):
        assert_close(one, other)


@every_network
def test_members_learn_side_by_side_as_they_would_alone(network: CNN) -> None:
    vectors, loss, _, images = fitted(network)
    gradient = jax.jit(jax.grad(loss))
    alone = [gradient(vector, images) for vector in vectors]
    together = jax.jit(jax.vmap(jax.grad(loss), in_axes=(0, None)))(vectors, images)
    for row, expected in zip(together, alone, strict=True):
        assert_close(row, expected)
    own_images = jnp.stack([images, images[::-1]])  # their sum is the same
    assert_close(jax.jit(jax.vmap(jax.grad(loss)))(vectors, own_images), together)


@every_network
def test_a_batch_in_chunks_has_the_gradient_of_the_whole(network: CNN) -> None:
    vectors, loss, _, images = fitted(network)
    whole = jax.jit(jax.value_and_grad(loss))(vectors[0], images)
    for size in (1, 3):
        parts = jax.jit(
            lambda x, size=size: in_chunks(lambda part: jax.value_and_grad(loss)(vectors[0], part), x, size)
        )
        for one, other in zip(parts(images), whole, strict=True):
            assert_close(one, other)


def test_nothing_is_spent_on_the_gradient_of_images() -> None:
    vectors, loss, _, images = fitted(NETWORKS["nature"])
    compiled = jax.jit(jax.grad(loss), compiler_options=compiler_options()).lower(vectors[0], images).compile()
    convolutions = sum(line.count(" convolution(") for line in compiled.as_text().splitlines())
    assert convolutions == 3 + 3 + 2  # forward, kernels, maps: not those of the first layer
