"""First-order optimisers as functions of frozen state. They ascend: the gradient points to where fitness grows."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class OptimiserState(msgspec.Struct, frozen=True, eq=False):
    """How many steps were made, and their running moments (the second one is empty where it is not used)."""

    step: int
    first: Vector
    second: Vector


class Adam(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="adam"):
    """Adam."""

    beta1: Annotated[float, Meta(ge=0, lt=1, description="memory of the gradient's mean")] = 0.9
    beta2: Annotated[float, Meta(ge=0, lt=1, description="memory of its square")] = 0.999
    epsilon: Annotated[float, Meta(gt=0, description="keeps the division finite")] = 1e-8

    def init(self, size: int) -> OptimiserState:
        return OptimiserState(0, np.zeros(size, np.float32), np.zeros(size, np.float32))

    def ascend(self, state: OptimiserState, gradient: Vector, lr: float) -> tuple[Vector, OptimiserState]:
        """The change of the parameters, and the state after it."""
        step = state.step + 1
        first: Vector = np.float32(self.beta1) * state.first + np.float32(1 - self.beta1) * gradient
        second: Vector = np.float32(self.beta2) * state.second + np.float32(1 - self.beta2) * (gradient * gradient)
        rate = lr * (1 - self.beta2**step) ** 0.5 / (1 - self.beta1**step)  # both moments start at zero
        update: Vector = np.divide(np.float32(rate) * first, np.sqrt(second) + np.float32(self.epsilon))
        return update, OptimiserState(step, first, second)


class SGD(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="sgd"):
    """Stochastic gradient ascent with momentum."""

    momentum: Annotated[float, Meta(ge=0, lt=1, description="share of the last step that goes on")] = 0.9

    def init(self, size: int) -> OptimiserState:
        return OptimiserState(0, np.zeros(size, np.float32), np.zeros(0, np.float32))

    def ascend(self, state: OptimiserState, gradient: Vector, lr: float) -> tuple[Vector, OptimiserState]:
        """The change of the parameters, and the state after it."""
        first = np.float32(self.momentum) * state.first + np.float32(1 - self.momentum) * gradient
        return np.float32(lr) * first, OptimiserState(state.step + 1, first, state.second)


Optimiser = Adam | SGD
