"""Where a CMA of Nevergrad stands, as plain data: to build one again out of all it was told takes too long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rookery.evolution.overlay import Overlay, lay, take

# What does not change, what has nothing to do with the search, and what is found by hashes of this process.
_SKIP = (
    "opts",
    "inputargs",
    "sp",
    "gp",
    "logger",
    "timer",
    "callbackstop",
    "sent_solutions",
    "archive",
    "_injected_solutions_archive",
    "_round_integer_variables",
    "boundary_handler",
)


class Keyframe(msgspec.Struct, frozen=True, eq=False):
    """A CMA: itself, the random state, the best it was told, and what waits to be asked or told (a row each)."""

    evaluations: int
    search: Overlay
    generator: NDArray[np.uint32]
    position: int
    gauss: float | None
    point: NDArray[np.float64]
    loss: float
    asked: NDArray[np.float64]
    told: NDArray[np.float64]
    losses: NDArray[np.float64]


def keyframe(optimizer: Any) -> Keyframe | None:
    """The keyframe of an optimiser, if it is a CMA that is in a position to give one."""
    inner = layers(optimizer)[-1]
    search = getattr(inner, "_es", None)
    if not type(search).__module__.startswith("cma."):
        return None
    _, words, position, has_gauss, gauss = inner._rng.get_state()
    best = inner.current_bests["pessimistic"]
    return Keyframe(
        evaluations=optimizer.num_tell,
        search=take(search, _SKIP),
        generator=words,
        position=position,
        gauss=gauss if has_gauss else None,
        point=best.x,
        loss=float(best.mean),
        asked=_rows(inner._to_be_asked, inner.dimension),
        told=_rows([waiting._meta[inner._CACHE_KEY] for waiting in inner._to_be_told], inner.dimension),
        losses=np.array([waiting.loss for waiting in inner._to_be_told], np.float64),
    )


def restore(optimizer: Any, frame: Keyframe, best_of: Any) -> None:
    """Bring a fresh optimiser to where a keyframe was taken; `best_of` makes a record of a best point."""
    inner = layers(optimizer)[-1]
    search = inner.es
    points = search.ask()
    search.tell(points, list(range(len(points))))  # some of its parts are made when they are first used
    lay(frame.search, search)
    for layer in layers(optimizer):
        layer._num_ask = layer._num_tell = frame.evaluations
        candidate = _candidate(layer, frame.point, frame.loss)
        best = best_of(candidate, frame.loss, reference=layer.parametrization)
        layer.current_bests = dict.fromkeys(layer.current_bests, best)
    inner._to_be_asked.extend(frame.asked)
    for point, loss in zip(frame.told, frame.losses.tolist(), strict=True):
        candidate = _candidate(inner, point, loss)
        candidate._meta[inner._CACHE_KEY] = point
        inner._to_be_told.append(candidate)
    state = ("MT19937", frame.generator, frame.position, int(frame.gauss is not None), frame.gauss or 0.0)
    inner._rng.set_state(state)


def _candidate(layer: Any, point: NDArray[np.float64], loss: float) -> Any:
    candidate = layer.parametrization.spawn_child()
    candidate.set_standardized_data(point, reference=layer.parametrization)
    candidate.loss = loss
    return candidate


def _rows(points: Iterable[NDArray[np.float64]], size: int) -> NDArray[np.float64]:
    return np.array([*points], np.float64).reshape(-1, size)


def layers(optimizer: Any) -> list[Any]:
    """An optimiser and those inside it that it passes everything on to."""
    found = [optimizer]
    while (inner := getattr(found[-1], "optim", None)) is not None:
        found.append(inner)
    return found
