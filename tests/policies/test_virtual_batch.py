"""Virtual batch normalisation: each layer is scaled by what it puts out for the reference, and nobody else's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.envs import Discrete, Env, Observation, Spaces, arena
from rookery.policies import CNN, Impala, Nature, Policy
from rookery.policies.virtual_batch import VirtualBatch
from rookery.rollout.reference import reference_images

IMAGE, MEMBERS = (2, 37, 40), 3
NETWORKS = {
    "nature": Nature(hidden=(16,), output_scale=1.0, vbn=VirtualBatch()),
    "impala": Impala(hidden=(16,), channels=(4, 6), output_scale=1.0, vbn=VirtualBatch()),
}
every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def fitted(network: CNN) -> tuple[Policy, dict[str, Any], NDArray[np.uint8]]:
    policy = Policy(network, Spaces(Observation(IMAGE, "uint8"), Discrete((3,))))
    rng = np.random.default_rng(0)
    vectors = np.stack([policy.space.initial(rng) for _ in range(MEMBERS)])
    return policy, policy.space.split(vectors), rng.integers(256, size=(9, *IMAGE), dtype=np.uint8)


@every_network
def test_layers_put_out_mean_zero_and_variance_one_for_the_reference(network: CNN) -> None:
    policy, parameters, reference = fitted(network)
    statistics = policy.calibrate(parameters, reference)
    layers = [name for name in parameters if name[0] in "kw" and name != "w"]
    assert sorted(statistics) == sorted(f"{name} {what}" for name in layers for what in ("mean", "scale"))
    again = policy.calibrate(parameters, reference)
    for name in layers:
        columns = parameters[name].shape[-1]
        assert statistics[f"{name} mean"].shape == statistics[f"{name} scale"].shape == (MEMBERS, columns)
        np.testing.assert_array_equal(statistics[f"{name} mean"], again[f"{name} mean"])

    first = parameters["w0"].copy()
    seen = network._convolved(
        {**parameters, **statistics}, np.broadcast_to(reference, (MEMBERS, *reference.shape))
    )
    scaled = (seen @ first - statistics["w0 mean"][:, None]) * statistics["w0 scale"][:, None]
    np.testing.assert_allclose(scaled.mean(axis=1), 0, atol=1e-3)
    np.testing.assert_allclose(scaled.std(axis=1), 1, atol=1e-2)


@every_network
def test_the_size_of_weights_does_not_matter_any_more(network: CNN) -> None:
    policy, parameters, reference = fitted(network)
    larger = {name: part if name in ("w", "b") else 3 * part for name, part in parameters.items()}
    images = np.random.default_rng(1).integers(256, size=(MEMBERS, 5, *IMAGE), dtype=np.uint8)
    outputs = [
        network.forward(own | policy.calibrate(own, reference), images, ())[0] for own in (parameters, larger)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-2, atol=1e-2)
    assert not np.allclose(outputs[0], network.forward(parameters, images, ())[0], atol=0.1)


@every_network
def test_a_member_is_calibrated_the_same_alone_and_among_others_and_by_jax(network: CNN) -> None:
    import jax.numpy as jnp

    policy, parameters, reference = fitted(network)
    together = policy.calibrate(parameters, reference)
    converted = {name: jnp.asarray(part) for name, part in parameters.items()}
    theirs = policy.calibrate(converted, jnp.asarray(reference))
    for row in range(MEMBERS):
        alone = policy.calibrate({name: part[row : row + 1] for name, part in parameters.items()}, reference)
        for name, part in alone.items():
            assert part.tobytes() == together[name][row : row + 1].tobytes()
            np.testing.assert_allclose(part[0], np.asarray(theirs[name])[row], rtol=1e-3, atol=1e-3)


def test_reference_images_follow_from_their_seed() -> None:
    snow = arena(Env(id="tests.environments:Snow"))
    first, again, other = (reference_images(snow, VirtualBatch(frames=20, seed=seed)) for seed in (1, 1, 2))
    assert first.shape == (20, 2, 36, 40)
    assert first.dtype == np.uint8
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert len({image.tobytes() for image in first}) == 20
