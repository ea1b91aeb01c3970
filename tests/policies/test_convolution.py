"""Convolutions as matrix products: what JAX's own convolutions compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.envs import Discrete, Observation, Spaces
from rookery.policies import DeepGA, Impala, Nature, Policy
from rookery.policies.convolution import Convolution, blocks, channels_first, image_shape, patches, pooled, scaled

KERNELS = [
    Convolution(5, 8, 4),
    Convolution(5, 4, 2),
    Convolution(5, 3),
    Convolution(5, 8, 4, same=True),
    Convolution(5, 4, 2, same=True),
    Convolution(5, 3, same=True),
]
SIZES = [(20, 24), (21, 27), (13, 13)]


def convolved(images: NDArray[Any], kernel: NDArray[Any], layer: Convolution) -> NDArray[Any]:
    """What JAX makes of images (n, height, width, channels) and a kernel (height, width, in, out)."""
    import jax

    padding = "SAME" if layer.same else "VALID"
    dimensions = ("NHWC", "HWIO", "NHWC")
    strides = (layer.stride, layer.stride)
    out = jax.lax.conv_general_dilated(images, kernel, strides, padding, dimension_numbers=dimensions)
    return np.asarray(out)


def multiplied(maps: Any, matrix: Any, layer: Convolution) -> NDArray[Any]:
    """A convolution, as policies act with NumPy and learn with JAX."""
    if isinstance(maps, np.ndarray):
        return np.asarray(patches(maps, layer) @ matrix)
    from rookery.policies.xla import convolved

    return np.asarray(convolved(maps, matrix, layer))


@pytest.mark.parametrize("layer", KERNELS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_products_with_patches_are_convolutions(layer: Convolution, size: tuple[int, int], library: str) -> None:
    import jax.numpy as jnp

    xp: Any = np if library == "numpy" else jnp
    rng, channels, times = np.random.default_rng(0), 3, layer.size // layer.stride
    maps = rng.standard_normal((2, *size, channels), np.float32)
    matrix = rng.standard_normal((layer.rows(channels), layer.channels), np.float32)
    axes = matrix.reshape(times, times, layer.stride, layer.stride, channels, layer.channels)
    kernel = axes.transpose(0, 2, 1, 3, 4, 5).reshape(layer.size, layer.size, channels, layer.channels)
    expected = convolved(maps, kernel, layer)
    assert expected.shape[1:] == layer.output((*size, channels))
    found = multiplied(xp.asarray(maps), xp.asarray(matrix), layer).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", KERNELS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("library", ["numpy", "jax"])
def test_blocks_of_bytes_are_convolved_as_the_images_would_be(
    layer: Convolution, size: tuple[int, int], library: str
) -> None:
    import jax.numpy as jnp

    xp: Any = np if library == "numpy" else jnp
    rng, channels, times = np.random.default_rng(0), 3, layer.size // layer.stride
    images = rng.integers(256, size=(2, channels, *size), dtype=np.uint8)
    matrix = rng.standard_normal((layer.rows(channels), layer.channels), np.float32)
    axes = matrix.reshape(times, times, channels, layer.stride, layer.stride, layer.channels)
    kernel = axes.transpose(0, 3, 1, 4, 2, 5).reshape(layer.size, layer.size, channels, layer.channels)
    expected = convolved(np.moveaxis(images, 1, -1) / np.float32(255), kernel, layer)
    maps = blocks(xp.asarray(images), layer)
    assert maps.dtype == np.uint8
    found = multiplied(scaled(maps), xp.asarray(matrix), layer.over_blocks()).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pooling_takes_the_largest_of_each_window(size: tuple[int, int]) -> None:
    import jax.numpy as jnp

    window = Convolution(0, 3, 2, same=True)
    maps = np.random.default_rng(0).standard_normal((2, *size, 3), np.float32) - 5  # below the zeros of a border
    before, behind = zip(*(window.padding(length) for length in size), strict=True)
    bordered = np.pad(maps, ((0, 0), *zip(before, behind, strict=True), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(bordered, (3, 3), (1, 2))[:, ::2, ::2]
    for found in (pooled(maps, window), np.asarray(pooled(jnp.asarray(maps), window))):
        np.testing.assert_array_equal(found, windows.max(axis=(-2, -1)))


@pytest.mark.parametrize(
    ("shape", "image"), [((4, 84, 84), (4, 84, 84)), ((64, 48, 3), (3, 64, 48)), ((50, 40), (1, 50, 40))]
)
def test_channels_may_come_first_or_last_or_not_at_all(shape: tuple[int, ...], image: tuple[int, ...]) -> None:
    assert image_shape(shape) == image
    images = np.random.default_rng(0).integers(256, size=(2, *shape), dtype=np.uint8)
    assert channels_first(images, shape).shape == (2, *image)
    spaces = [Spaces(Observation(own, "uint8"), Discrete((3,))) for own in (shape, image)]
    policies = [Policy(Nature(output_scale=1.0), own) for own in spaces]
    parameters = policies[0].space.split(policies[0].space.initial(np.random.default_rng(0)))
    one, _ = policies[0].act(parameters, images)
    other, _ = policies[1].act(parameters, channels_first(images, shape))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("network", "size"), [(Nature(), 1_693_362), (DeepGA(), 4_052_658)], ids=["nature", "deepga"]
)
def test_networks_for_atari_have_their_size(network: Nature | DeepGA, size: int) -> None:
    assert Policy(network, Spaces(Observation((4, 84, 84), "uint8"), Discrete((18,)))).space.size == size


@pytest.mark.parametrize(
    "network", [Nature(hidden=(8,)), Impala(hidden=(8,), channels=(4, 4))], ids=["nature", "impala"]
)
def test_networks_can_be_compiled_and_differentiated(network: Nature | Impala) -> None:
    import jax

    policy = Policy(network, Spaces(Observation((2, 36, 36), "uint8"), Discrete((3,))))
    images = jax.numpy.asarray(np.random.default_rng(0).integers(256, size=(2, 2, 36, 36), dtype=np.uint8))

    def loss(vector: Any) -> Any:
        return (network.forward(policy.space.split(vector), images, ())[0] ** 2).sum()

    gradient = jax.jit(jax.grad(loss))(policy.space.initial(np.random.default_rng(0)))
    views = policy.space.split(np.asarray(gradient))
    assert all(np.isfinite(view).all() and view.any() for view in views.values())


def test_impala_may_start_from_xaviers_weights() -> None:
    spaces = Spaces(Observation((3, 64, 64), "uint8"), Discrete((15,)))
    spread = {part.name: part.std for part in Policy(Impala(xavier=True), spaces).space.parameters}
    assert spread["k0"] == pytest.approx((2 / (9 * 3 + 9 * 16)) ** 0.5)
    assert spread["k5"] == pytest.approx((2 / (9 * 16 + 9 * 32)) ** 0.5)
    assert spread["w0"] == pytest.approx((2 / (2048 + 256)) ** 0.5)
    plain = {part.name: part.std for part in Policy(Impala(), spaces).space.parameters}
    assert spread["k1"] == pytest.approx(plain["k1"])  # of as many channels out as in
