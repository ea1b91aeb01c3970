"""Nevergrad's optimisers: any name of its registry, asked a generation at a time.

An optimiser of Nevergrad is an object that changes. Here it is a function of what it was told: a state has all
losses, and whoever needs the object builds it and tells it again. The objects that were used last are kept, and
a state has a keyframe of those that would take long.
"""

from __future__ import annotations

import random
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from math import log
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from rookery.errors import UserError, did_you_mean
from rookery.evolution.guest import Fitness, Guest, GuestState, Vectors
from rookery.evolution.pycma import Keyframe, keyframe, layers, restore
from rookery.genomes import ParameterSpace
from rookery.streams import stream

_KEPT = 4  # live optimisers
_BLINK = 1e-4  # seconds
_KEYFRAME = 20  # generations from one to the next


class NevergradState(GuestState, frozen=True, kw_only=True, eq=False, tag="nevergrad"):
    """What the optimiser was built from and what it was told since; `lineage` is a name for all of its past."""

    start: NDArray[np.float32]
    keyframe: Keyframe | None = None
    losses: NDArray[np.float64]
    lineage: str


class Nevergrad(Guest[NevergradState], frozen=True, tag="nevergrad"):
    """An optimiser of Nevergrad's registry, around the initial parameters."""

    optimizer: Annotated[str, Meta(description="its name; `rookery presets --algorithms` lists them")] = "CMA"
    population: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="candidates per generation; null = as many as the optimizer's own"),
    ] = None
    sigma: Annotated[float, Meta(gt=0, description="standard deviation of the first candidates")] = 0.1
    budget: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="evaluations that the optimizer is to plan for; null = it is told of no end"),
    ] = None

    def init(self, seed: int, space: ParameterSpace, start: NDArray[np.float32] | None = None) -> NevergradState:
        """The search before its first generation, around fresh parameters or around `start`."""
        theta = space.initial(stream(seed, "initial")) if start is None else start.astype(np.float32)
        with _apart(seed, 0, "init"):
            population = self.population or _own_population(self._build(seed, theta, 1, try_it=True))
            self._build(seed, theta, population, try_it=True)
        lineage = blake2b(theta.tobytes() + str(seed).encode()).hexdigest()
        return NevergradState(
            seed=seed,
            generation=0,
            population=population,
            best=theta,
            start=theta,
            losses=np.zeros(0),
            lineage=lineage,
        )

    def propose(self, state: NevergradState) -> Vectors:
        live = self._live(state)
        return np.stack([candidate.value for candidate in live.asked()]).astype(np.float32)

    def learn(self, state: NevergradState, fitness: Fitness) -> NevergradState:
        live = self._live(state)
        del _LIVE[self, state.lineage]
        best = live.tell(-fitness)
        lineage = blake2b(state.lineage.encode() + fitness.tobytes()).hexdigest()
        _keep((self, lineage), live)
        frame = keyframe(live.optimizer) if live.generation % _KEYFRAME == 0 else None
        return replace(
            state,
            generation=live.generation,
            best=best,
            keyframe=frame or state.keyframe,
            losses=np.zeros(0) if frame else np.concatenate([state.losses, -fitness]),
            lineage=lineage,
        )

    def telemetry(self, state: NevergradState) -> dict[str, float]:
        """How many evaluations it was told."""
        return {"evaluations": float(state.generation * state.population)}

    def _live(self, state: NevergradState) -> _Live:
        """The optimiser as it is in this state, kept or made again."""
        live = _LIVE.get((self, state.lineage))
        if live is None:
            with _apart(state.seed, 0, "build"):
                optimizer = self._build(state.seed, state.start, state.population)
                if state.keyframe:
                    restore(optimizer, state.keyframe, _library().optimization.utils.MultiValue)
            told = state.losses.reshape(-1, state.population)
            live = _Live(optimizer, state, state.generation - len(told))
            for losses in told:
                live.tell(losses)
            _keep((self, state.lineage), live)
        return live

    def _build(self, seed: int, start: NDArray[np.float32], population: int, try_it: bool = False) -> Any:
        """A fresh optimiser. Many find out only when they are asked that they cannot work like this."""
        ng = _library()
        known = ng.optimizers.registry
        if self.optimizer not in known:
            hint = did_you_mean(self.optimizer, known)
            raise UserError(
                f"algorithm.optimizer: Nevergrad has no '{self.optimizer}'.{hint} "
                "`rookery presets --algorithms` lists what it has"
            )
        kind = known[self.optimizer]
        if kind.no_parallelization and population > 1:
            raise UserError(
                f"algorithm.population: {self.optimizer} takes one candidate at a time, not {population}"
            )
        point = ng.p.Array(init=start.astype(np.float64)).set_mutation(sigma=self.sigma)
        point.random_state.seed(int(stream(seed, "nevergrad").integers(2**32)))
        try:
            optimizer = kind(point, budget=self.budget, num_workers=population)
            if try_it:
                optimizer.ask()
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            hint = "; it may need algorithm.budget, the evaluations to plan for" if self.budget is None else ""
            raise UserError(
                f"algorithm.optimizer: Nevergrad's {self.optimizer} cannot be used like this: {reason}{hint}"
            ) from error
        return optimizer


class _Live:
    """An optimiser between two generations, or within one; what it does follows from what it was told."""

    def __init__(self, optimizer: Any, state: NevergradState, generation: int) -> None:
        self.optimizer = optimizer
        self.seed, self.population = state.seed, state.population
        self.generation = generation
        self.out: list[Any] = []

    def asked(self) -> list[Any]:
        """The candidates of this generation."""
        if not self.out:
            with _apart(self.seed, self.generation, "ask"):
                self.out = [self.optimizer.ask() for _ in range(self.population)]
        return self.out

    def tell(self, losses: NDArray[np.float64]) -> NDArray[np.float32]:
        """Go on to the next generation; returns what is recommended then."""
        with _apart(self.seed, self.generation, "tell"):
            for candidate, loss in zip(self.asked(), losses.tolist(), strict=True):
                self.optimizer.tell(candidate, loss)
                _settle(self.optimizer)
            best = self.optimizer.provide_recommendation().value
        self.out = []
        self.generation += 1
        return np.asarray(best, np.float32)


_LIVE: OrderedDict[tuple[Nevergrad, str], _Live] = OrderedDict()


def _keep(key: tuple[Nevergrad, str], live: _Live) -> None:
    _LIVE[key] = live
    while len(_LIVE) > _KEPT:
        _LIVE.popitem(last=False)


def _own_population(optimizer: Any) -> int:
    """How many candidates an optimiser itself takes together; as many as CMA would where it does not say."""
    if optimizer.no_parallelization:
        return 1
    for name in ("_popsize", "llambda", "popsize"):
        size = getattr(optimizer, name, None)
        size = getattr(size, "llambda", size)
        if isinstance(size, int | np.integer):
            return int(size)
    inner = getattr(optimizer, "optim", None)
    return _own_population(inner) if inner is not None else 4 + int(3 * log(optimizer.dimension))


def _settle(optimizer: Any) -> None:
    """Wait for an optimiser that thinks in a thread of its own, so that what it does next is done in here."""
    for layer in layers(optimizer):
        thread = getattr(layer, "_messaging_thread", None)
        if layer.no_parallelization and thread is not None:
            while thread.is_alive() and thread.messages_ask.empty():
                time.sleep(_BLINK)


@contextmanager
def _apart(seed: int, generation: int, phase: str) -> Iterator[None]:
    """Whatever is done in here, no global generator decides it or is moved by it, and one thread does it."""
    ours, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    number = int(stream(seed, f"nevergrad {phase}", generation).integers(2**32))
    np.random.seed(number)  # noqa: NPY002
    random.seed(number)
    try:
        with warnings.catch_warnings(), _threads().limit(limits=1):
            warnings.simplefilter("ignore")  # they are about settings that a user does not make here
            yield
    finally:
        np.random.set_state(ours)  # noqa: NPY002
        random.setstate(pythons)


@cache
def _library() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import nevergrad
    except ImportError as error:
        raise UserError("algorithm.type=nevergrad needs Nevergrad: pip install 'rookery[nevergrad]'") from error
    return nevergrad


@cache
def _threads() -> ThreadpoolController:
    """The thread pools of all that Nevergrad has brought in."""
    _library()
    return ThreadpoolController()


def names() -> list[str]:
    """Every optimiser in Nevergrad's registry."""
    return sorted(_library().optimizers.registry)
