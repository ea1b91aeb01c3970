"""The contract of every policy: many members at once, in NumPy as in JAX, and nobody disturbs anybody."""

from __future__ import annotations

import typing
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.envs import Action, Continuous, Discrete, Observation, Spaces
from rookery.errors import UserError
from rookery.genomes import ParameterSpace
from rookery.policies import (
    LSTM,
    MLP,
    Actions,
    DeepGA,
    Elman,
    Impala,
    Moments,
    Nature,
    Network,
    Policy,
    PolicySpec,
    VectorPolicy,
)

NETWORKS: dict[str, Network] = {
    "mlp tanh": MLP(hidden=(16, 8), output_scale=1.0),
    "mlp relu": MLP(hidden=(16, 8), activation="relu", output_scale=1.0),
    "linear": MLP(hidden=(), output_scale=1.0),
    "elman": Elman(hidden=(12, 6), output_scale=1.0),
    "lstm": LSTM(hidden=(12, 6), output_scale=1.0),
    "nature": Nature(hidden=(16, 8), output_scale=1.0),
    "deepga": DeepGA(hidden=(16,), output_scale=1.0),
    "impala": Impala(hidden=(16,), channels=(4, 6), output_scale=1.0),
    "vector": VectorPolicy(),
}
VECTORS = {name: network for name, network in NETWORKS.items() if not network.images}
BOX = Continuous((-1.0, -2.0, -np.inf), (1.0, 3.0, np.inf))
CLOSED = Continuous((-1.0, 0.1), (1.0, 0.7))
HEADS: dict[str, tuple[Action, Actions]] = {
    "discrete": (Discrete((5,)), Actions(sample=True)),
    "multi-discrete": (Discrete((2, 5, 3), scalar=False), Actions(sample=True)),
    "multi-discrete, equal": (Discrete((3, 3), scalar=False), Actions(sample=True)),
    "clip": (BOX, Actions(noise=0.2)),
    "tanh": (BOX, Actions(noise=0.2, squash="tanh")),
    "binned": (CLOSED, Actions(bins=7, sample=True)),
    "binned by hand": (CLOSED, Actions(bins=(-1.0, 0.0, 0.25, 1.0), sample=True)),
}
INPUTS, MEMBERS, BATCH, STEPS = 5, 4, 3, 4
IMAGE = (2, 37, 42)

every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
every_vector_network = pytest.mark.parametrize("network", VECTORS.values(), ids=VECTORS)
every_policy = pytest.mark.parametrize(
    ("network", "head"),
    [
        pytest.param(NETWORKS[network], HEADS[head], id=f"{network}, {head}")
        for network, head in product(NETWORKS, HEADS)
        if network in VECTORS or head in ("discrete", "clip")
    ],
)


def fitted(network: Network, head: tuple[Action, Actions], inputs: int = INPUTS) -> Policy:
    action, settings = head
    spaces = Spaces(Observation(IMAGE, "uint8") if network.images else Observation((inputs,)), action)
    return Policy(type(network)(**{**_fields(network), "action": settings}), spaces)


def _fields(network: Network) -> dict[str, Any]:
    return {name: getattr(network, name) for name in network.__struct_fields__}


def members(policy: Policy, count: int = MEMBERS, size: float = 1.0) -> NDArray[np.float32]:
    """Parameters in which nothing is zero, biases included."""
    rng = np.random.default_rng(0)
    drawn = np.stack([policy.space.initial(rng) for _ in range(count)])
    return (size * (drawn + 0.1 * rng.standard_normal(drawn.shape))).astype(np.float32)


def act(
    policy: Policy,
    vectors: NDArray[np.float32],
    observations: NDArray[np.float32],
    noise: NDArray[np.float32] | None = None,
    convert: Any = np.asarray,
) -> list[Any]:
    """Actions of every step of an episode, and the last carry; observations are (steps, *lead, batch, *shape)."""
    moments = Moments(10, np.arange(5.0), 30 * np.arange(1.0, 6.0)) if policy.inputs == INPUTS else None
    scaling, views = policy.scaling(moments), policy.space.split(convert(vectors))
    batch = observations.shape[1 : -len(policy.observation.shape)]
    carry = tuple(map(convert, policy.carry(*batch)))
    actions = []
    for clock, seen in enumerate(observations):
        drawn = None if noise is None else convert(noise[clock])
        chosen, carry = policy.act(views, convert(seen), carry, scaling, drawn)
        actions.append(chosen)
    return [*actions, *carry]


def numbers(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def shown(policy: Policy, *shape: int) -> NDArray[Any]:
    """What a policy may be shown: normal numbers, or bytes."""
    if policy.network.images:
        return np.random.default_rng(1).integers(256, size=(*shape, *IMAGE), dtype=np.uint8)
    return numbers(*shape, policy.inputs)


def test_every_registered_network_is_tested_here() -> None:
    assert {type(network) for network in NETWORKS.values()} == set(typing.get_args(PolicySpec))


@every_policy
def test_numpy_and_jax_give_the_same_numbers(network: Network, head: tuple[Action, Actions]) -> None:
    import jax.numpy as jnp

    policy = fitted(network, head)
    observations = shown(policy, STEPS, MEMBERS, BATCH)
    noise = numbers(STEPS, MEMBERS, BATCH, policy.head.noise, seed=2)
    ours = act(policy, members(policy), observations, noise)
    theirs = act(policy, members(policy), observations, noise, jnp.asarray)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, np.asarray(other), rtol=1e-5, atol=1e-4 if network.images else 1e-5)


@every_policy
def test_a_member_acts_the_same_alone_and_among_others(network: Network, head: tuple[Action, Actions]) -> None:
    policy = fitted(network, head)
    observations, noise = shown(policy, STEPS, 40, 1), numbers(STEPS, 40, 1, policy.head.noise, seed=2)
    vectors = members(policy, 40)
    among = act(policy, vectors, observations, noise)
    for rows in ([0], [17], [39], [5, 30], [39, 0, 17]):
        some = act(policy, vectors[rows], observations[:, rows], noise[:, rows])
        for whole, part in zip(among, some, strict=True):
            assert whole[rows].tobytes() == part.tobytes()


@every_policy
def test_noise_of_zero_is_no_noise_and_other_noise_is_some(network: Network, head: tuple[Action, Actions]) -> None:
    policy = fitted(network, head)
    observations, vectors = shown(policy, STEPS, MEMBERS, BATCH), members(policy)
    zeros = np.zeros((STEPS, MEMBERS, BATCH, policy.head.noise), np.float32)
    without = np.stack(act(policy, vectors, observations)[:STEPS])
    silent = np.stack(act(policy, vectors, observations, zeros)[:STEPS])
    loud = np.stack(act(policy, vectors, observations, zeros + 3 * numbers(*zeros.shape))[:STEPS])
    assert without.tobytes() == silent.tobytes()
    assert (loud != without).any()


@every_policy
def test_actions_are_what_the_environment_takes(network: Network, head: tuple[Action, Actions]) -> None:
    policy, space = fitted(network, head), head[0]
    actions = np.stack(act(policy, members(policy, size=20), 5 * shown(policy, STEPS, MEMBERS, BATCH))[:STEPS])
    if isinstance(space, Discrete):
        assert actions.shape == (STEPS, MEMBERS, BATCH) + (() if space.scalar else (len(space.choices),))
        for part, choices in zip(np.atleast_3d(actions.T), space.choices, strict=False):
            assert (part >= 0).all()
            assert (part < choices).all()
        return
    low, high = space.bounds
    assert actions.shape == (STEPS, MEMBERS, BATCH, low.size)
    assert actions.dtype == np.float32
    assert (actions >= low).all()
    assert (actions <= high).all()


@pytest.mark.parametrize("settings", [Actions(), Actions(squash="tanh"), Actions(bins=5)], ids=str)
def test_bounds_hold_to_the_last_bit(settings: Actions) -> None:
    rng = np.random.default_rng(0)
    low = rng.uniform(-3, 3, 500).astype(np.float32)
    high = low + rng.uniform(1e-3, 5, 500).astype(np.float32)
    policy = fitted(MLP(hidden=()), (Continuous(tuple(low.tolist()), tuple(high.tolist())), settings))
    for outputs in (-9.0, 9.0):
        action = policy.head.choose(np.full((1, policy.head.outputs), outputs, np.float32), None)
        assert (action >= low).all()
        assert (action <= high).all()


@pytest.mark.parametrize("squash", ["clip", "tanh"])
def test_a_component_with_one_bound_keeps_to_it(squash: Any) -> None:
    half = Continuous((0.0, -np.inf), (np.inf, 2.0))
    head = fitted(MLP(hidden=()), (half, Actions(squash=squash))).head
    for outputs in ([-9.0, -9.0], [9.0, 9.0]):
        action = head.choose(np.array([outputs], np.float32), None)[0]
        assert action[0] >= 0.0
        assert action[1] <= 2.0


def test_outputs_reach_the_bounds_and_bins_are_even() -> None:
    clipped = fitted(MLP(hidden=()), (BOX, Actions())).head
    np.testing.assert_allclose(clipped.choose(np.array([[1.0, -1.0, 7.5]], np.float32), None), [[1.0, -2.0, 7.5]])
    np.testing.assert_allclose(clipped.choose(np.array([[0.0, 0.0, 0.0]], np.float32), None), [[0.0, 0.5, 0.0]])
    binned = fitted(MLP(hidden=()), (CLOSED, Actions(bins=3))).head
    outputs = np.array([[0, 1, 0, 0, 0, 1]], np.float32)
    np.testing.assert_allclose(binned.choose(outputs, None), [[0.0, 0.7]])


@every_network
def test_memory_has_its_shape_and_starts_empty(network: Network) -> None:
    policy = fitted(network, HEADS["discrete"])
    carry = policy.carry(MEMBERS, BATCH)
    widths = {Elman: (12, 6), LSTM: (12, 12, 6, 6)}.get(type(network), ())
    assert tuple(array.shape for array in carry) == tuple((MEMBERS, BATCH, width) for width in widths)
    assert not any(array.any() for array in carry)
    after = act(policy, members(policy), shown(policy, 1, MEMBERS, BATCH))[1:]
    assert [array.shape for array in after] == [array.shape for array in carry]
    assert all(array.any() for array in after)


@every_network
def test_initial_parameters_have_their_size_and_lie_end_to_end(network: Network) -> None:
    policy = fitted(type(network)(**{**_fields(network), "output_scale": 0.5}), (Discrete((400,)), Actions()))
    vector = policy.space.initial(np.random.default_rng(0))
    views = policy.space.split(vector)
    assert vector.shape == (policy.space.size,)
    np.testing.assert_array_equal(np.concatenate([view.reshape(-1) for view in views.values()]), vector)
    if isinstance(network, VectorPolicy):
        assert vector.std() == pytest.approx(0.5, rel=0.1)
        return
    rows = views["w"].shape[0]
    assert views["w"].std() == pytest.approx(0.5 / np.sqrt(rows), rel=0.1)
    assert not any(view.any() for name, view in views.items() if name.startswith("b"))
    if policy.network.images:
        assert views["w0"].std() == pytest.approx(np.sqrt(2 / len(views["w0"])), rel=0.1)
    elif policy.network.hidden:
        assert views["w0"].std() == pytest.approx(1 / np.sqrt(INPUTS), rel=0.3)


@pytest.mark.parametrize(
    ("network", "more_inputs"),
    [(network, more) for network in NETWORKS.values() for more in (0, 2) if not (network.images and more)],
    ids=lambda value: value if isinstance(value, int) else type(value).__name__,
)
def test_a_grown_network_computes_the_same(network: Network, more_inputs: int) -> None:
    head = (CLOSED, Actions())
    small = fitted(network, head)
    wide = tuple(width + 5 for width in network.hidden)
    changes = {"hidden": wide, "normaliser": None}
    large = fitted(type(network)(**{**_fields(network), **changes}), head, INPUTS + more_inputs)
    vectors = members(small)
    rng = np.random.default_rng(3)
    grown = np.stack([large.space.grow(vector, small.space, rng) for vector in vectors])
    observations = shown(large, STEPS, MEMBERS, BATCH)
    small.scaling = lambda moments: None  # type: ignore[method-assign]
    before = act(small, vectors, observations if network.images else observations[..., :INPUTS])[:STEPS]
    after = act(large, grown, observations)[:STEPS]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    if network.hidden and not network.images:
        fresh = large.space.split(grown)["w0"]
        assert fresh[:, :INPUTS].all(), "new units must listen, or they could never learn"


def test_what_does_not_fit_is_said() -> None:
    def space(network: Network) -> ParameterSpace:
        return fitted(network, HEADS["discrete"]).space

    assert space(MLP(hidden=(8,))).misfit(space(MLP(hidden=(8,)))) is None
    assert space(MLP(hidden=(9,))).misfit(space(MLP(hidden=(8,)))) is None
    said = space(MLP(hidden=(4,))).misfit(space(MLP(hidden=(8,))))
    assert said == "its w0 has shape (5, 8), which does not fit into (5, 4)"
    for other in (MLP(hidden=(4, 4)), LSTM(hidden=(4,))):
        assert "it has the parameters w0, b0, w, b; this one has w0" in str(
            space(other).misfit(space(MLP(hidden=(4,))))
        )


@every_vector_network
@pytest.mark.parametrize("image", [Observation((4, 84, 84), "uint8"), Observation((64, 64), "uint8")], ids=str)
def test_images_are_refused(network: Network, image: Observation) -> None:
    kind = network.__struct_config__.tag
    with pytest.raises(UserError, match=rf"policy.type={kind} takes a vector, but this environment shows images"):
        Policy(network, Spaces(image, Discrete((2,))))


@pytest.mark.parametrize("network", [Nature(), DeepGA(), Impala()], ids=["nature", "deepga", "impala"])
def test_vectors_are_refused_by_networks_for_images(network: Network) -> None:
    kind = type(network).__name__.lower()
    with pytest.raises(UserError, match=rf"policy.type={kind} takes images, but this environment shows a vector"):
        Policy(network, Spaces(Observation((8,)), Discrete((2,))))
    with pytest.raises(UserError, match=rf"policy.type={kind} takes images of two or three axes"):
        Policy(network, Spaces(Observation((2, 4, 84, 84), "uint8"), Discrete((2,))))


def test_images_that_are_too_small_are_refused() -> None:
    with pytest.raises(UserError, match=r"policy.type=nature needs images of at least 36 x 36, not 35 x 36"):
        Policy(Nature(), Spaces(Observation((4, 35, 36), "uint8"), Discrete((2,))))


@pytest.mark.parametrize(
    ("space", "settings", "said"),
    [
        (Discrete((3,)), Actions(noise=0.1), "policy.action.noise is for continuous actions"),
        (Discrete((3, 3), scalar=False), Actions(bins=4), "policy.action.bins is for continuous actions"),
        (CLOSED, Actions(sample=True), "policy.action.sample is for discrete or binned actions"),
        (CLOSED, Actions(bins=5, noise=0.1), "policy.action.noise is for continuous actions without bins"),
        (BOX, Actions(bins=5), "policy.action.bins: this environment's actions have no bounds"),
        (CLOSED, Actions(bins=1), "at least 2 bins"),
        (CLOSED, Actions(bins=0), "at least 2 bins"),
        (CLOSED, Actions(bins=-3), "at least 2 bins"),
        (CLOSED, Actions(bins=()), "at least 2 bins"),
        (CLOSED, Actions(bins=(0.0, 2.0)), "fractions between -1 and 1"),
    ],
    ids=lambda value: "" if not isinstance(value, str) else value,
)
def test_settings_that_do_not_go_with_the_actions_are_refused(space: Action, settings: Actions, said: str) -> None:
    with pytest.raises(UserError, match=said):
        fitted(MLP(), (space, settings))
