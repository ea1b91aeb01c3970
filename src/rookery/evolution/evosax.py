"""evosax's strategies: pure functions over JAX arrays, whose leaves a state keeps one by one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.errors import UserError, did_you_mean
from rookery.evolution.guest import Fitness, Guest, GuestState, Vectors
from rookery.genomes import ParameterSpace
from rookery.streams import stream


class EvosaxState(GuestState, frozen=True, kw_only=True, eq=False, tag="evosax"):
    """The leaves of evosax's own state, in its order; none before the first results where there is no centre."""

    leaves: tuple[NDArray[Any], ...] = ()


class Evosax(Guest[EvosaxState], frozen=True, tag="evosax"):
    """A strategy of evosax's, around the initial parameters."""

    strategy: Annotated[str, Meta(description="its name; `rookery presets --algorithms` lists them")] = "OpenES"
    population: Annotated[int, Meta(ge=2, description="candidates per generation")] = 64
    sigma: Annotated[float, Meta(gt=0, description="standard deviation of the first candidates")] = 0.1
    lr: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="learning rate of Adam, where a strategy takes an optimiser; null = its own one"),
    ] = None

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> EvosaxState:
        """The search before its first generation, around fresh parameters or around `start`."""
        theta = space.initial(stream(seed, "initial")) if start is None else start.astype(np.float32)
        built = _built(self, theta.size)
        state = EvosaxState(seed=seed, generation=0, population=self.population, best=theta)
        if built.centred:
            own = built.algorithm.init(_key(state, "init"), theta, built.params)
            return replace(state, leaves=_leaves(own))
        return state

    def propose(self, state: EvosaxState) -> Vectors:
        if not state.leaves:
            return self._first(state)
        built = _built(self, state.best.size)
        with _quietly():
            population, _ = built.algorithm.ask(_key(state, "ask"), built.state(state.leaves), built.params)
        return np.asarray(population, np.float32)

    def learn(self, state: EvosaxState, fitness: Fitness) -> EvosaxState:
        built = _built(self, state.best.size)
        losses = np.asarray(-fitness, np.float32)
        with _quietly():
            if not state.leaves:
                own = built.algorithm.init(_key(state, "init"), self._first(state), losses, built.params)
            else:
                population, asked = built.algorithm.ask(
                    _key(state, "ask"), built.state(state.leaves), built.params
                )
                own, _ = built.algorithm.tell(_key(state, "tell"), population, losses, asked, built.params)
        best = np.asarray(own.mean if built.centred else own.best_solution, np.float32).reshape(-1)
        return replace(
            state,
            generation=state.generation + 1,
            best=best if np.isfinite(best).all() else state.best,
            leaves=_leaves(own),
        )

    def telemetry(self, state: EvosaxState) -> dict[str, float]:
        """How many evaluations it was told."""
        return {"evaluations": float(state.generation * state.population)}

    def _first(self, state: EvosaxState) -> Vectors:
        """The first generation where there is no centre: the initial parameters, and others around them."""
        noise = stream(state.seed, "evosax first").standard_normal((self.population, state.best.size), np.float32)
        noise[0] = 0
        return state.best + np.float32(self.sigma) * noise


class _Built(NamedTuple):
    """A strategy of evosax's for one size of vectors."""

    algorithm: Any
    params: Any
    centred: bool
    structure: Any

    def state(self, leaves: tuple[NDArray[Any], ...]) -> Any:
        import jax

        return jax.tree.unflatten(self.structure, leaves)


@cache
def _built(spec: Evosax, size: int) -> _Built:
    import jax

    kind, centred = _kind(spec.strategy)
    takes = signature(kind).parameters
    options: dict[str, Any] = {}
    if "std_schedule" in takes:
        options["std_schedule"] = _constant(spec.sigma)
    if spec.lr is not None:
        if "optimizer" not in takes:
            raise UserError(f"algorithm.lr: evosax's {spec.strategy} takes no optimiser; leave it null")
        import optax

        options["optimizer"] = optax.adam(spec.lr)
    zero = np.zeros(size, np.float32)
    try:
        algorithm = kind(population_size=spec.population, solution=zero, **options)
        params = algorithm.default_params
        if hasattr(params, "std_init"):
            params = params.replace(std_init=spec.sigma)
        arguments = (
            (zero,) if centred else (np.zeros((spec.population, size), np.float32), np.zeros(spec.population))
        )
        shape = jax.eval_shape(lambda key: algorithm.init(key, *arguments, params), jax.random.key(0))
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"algorithm.strategy: evosax's {spec.strategy} cannot be used like this: {reason}"
        ) from error
    return _Built(algorithm, params, centred, jax.tree.structure(shape))


@contextmanager
def _quietly() -> Iterator[None]:
    """What is compiled here for the first time may use what optax has renamed since."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _constant(value: float) -> Any:
    import optax

    return optax.constant_schedule(value)


def _kind(name: str) -> tuple[Any, bool]:
    """The class of this name, however its words are joined, and whether it moves a centre."""
    centred, others = _library()
    wanted = _plain(name)
    for table in (centred, others):
        for known, kind in table.items():
            if wanted in {_plain(known), _plain(kind.__name__)}:
                return kind, table is centred
    hint = did_you_mean(name, [*centred, *others])
    raise UserError(
        f"algorithm.strategy: evosax has no '{name}'.{hint} `rookery presets --algorithms` lists what it has"
    )


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _key(state: EvosaxState, purpose: str) -> Any:
    """JAX's random key for a purpose, out of our own streams."""
    import jax

    words = stream(state.seed, f"evosax {purpose}", state.generation).integers(2**32, size=2, dtype=np.uint32)
    return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")


def _leaves(own: Any) -> tuple[NDArray[Any], ...]:
    import jax

    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(own))


@cache
def _library() -> tuple[dict[str, Any], dict[str, Any]]:
    """The strategies that move a centre, and the others."""
    try:
        from evosax.algorithms import distribution_based_algorithms, population_based_algorithms
    except ImportError as error:
        raise UserError("algorithm.type=evosax needs evosax: pip install 'rookery[evosax]'") from error
    centred, others = distribution_based_algorithms, population_based_algorithms
    return (
        {name: kind for name, kind in centred.items() if _plays_alone(kind)},
        {name: kind for name, kind in others.items() if _plays_alone(kind)},
    )


def _plays_alone(kind: Any) -> bool:
    """Whether a strategy needs nothing but the size of its population and a vector, as most do."""
    needed = {name for name, given in signature(kind).parameters.items() if given.default is given.empty}
    return needed <= {"population_size", "solution"}


def names() -> list[str]:
    """Every strategy of evosax's."""
    centred, others = _library()
    return sorted([*centred, *others])
