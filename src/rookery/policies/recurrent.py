"""Networks that remember within an episode. Their carry starts at zero and is one array or two per layer."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Annotated, Any

from msgspec import Meta

from rookery.genomes.space import Parameter
from rookery.policies.network import Carry, Network, Width

Layers = Annotated[tuple[Width, ...], Meta(description="widths of the recurrent layers", min_length=1)]


class Elman(Network, frozen=True, tag="elman"):
    """A simple recurrent network: every hidden layer sees its own last output."""

    hidden: Layers = (32,)

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        (inputs,) = shape
        layers: list[Parameter] = []
        for number, (rows, columns) in enumerate(zip((inputs, *self.hidden), self.hidden, strict=False)):
            layers += (
                Parameter(f"w{number}", (rows, columns), 1 / sqrt(rows)),
                Parameter(f"r{number}", (columns, columns), 1 / sqrt(columns)),
                Parameter(f"b{number}", (columns,)),
            )
        return (*layers, *self.output_layer(inputs, outputs))

    def carry_widths(self) -> tuple[int, ...]:
        return self.hidden

    def features(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        xp = x.__array_namespace__()
        carried = []
        for number, h in enumerate(carry):
            w, r, b = (parameters[f"{kind}{number}"] for kind in "wrb")
            x = xp.tanh(x @ w + h @ r + b[..., None, :])
            carried.append(x)
        return x, tuple(carried)


class LSTM(Network, frozen=True, tag="lstm"):
    """A long short-term memory network; gates lie on an axis of their own: input, forget, cell, output."""

    hidden: Layers = (32,)

    def parameters(self, shape: tuple[int, ...], outputs: int) -> tuple[Parameter, ...]:
        (inputs,) = shape
        layers: list[Parameter] = []
        for number, (rows, columns) in enumerate(zip((inputs, *self.hidden), self.hidden, strict=False)):
            layers += (
                Parameter(f"w{number}", (rows, 4, columns), 1 / sqrt(rows)),
                Parameter(f"r{number}", (columns, 4, columns), 1 / sqrt(columns)),
                Parameter(f"b{number}", (4, columns)),
            )
        return (*layers, *self.output_layer(inputs, outputs))

    def carry_widths(self) -> tuple[int, ...]:
        return tuple(width for width in self.hidden for _ in ("h", "c"))

    def features(self, parameters: Mapping[str, Any], x: Any, carry: Carry) -> tuple[Any, Carry]:
        xp = x.__array_namespace__()
        carried: list[Any] = []
        for number, width in enumerate(self.hidden):
            h, c = carry[2 * number : 2 * number + 2]
            w, r, b = (parameters[f"{kind}{number}"] for kind in "wrb")
            gates = x @ _joined(w) + h @ _joined(r) + _joined(b)[..., None, :]
            i, f, g, o = (gates[..., k * width : (k + 1) * width] for k in range(4))
            c = _sigmoid(xp, f + 1.0) * c + _sigmoid(xp, i) * xp.tanh(g)  # + 1: remember by default
            x = _sigmoid(xp, o) * xp.tanh(c)
            carried += x, c
        return x, tuple(carried)


def _joined(array: Any) -> Any:
    """The gate axis and the one after it as one."""
    return array.reshape(*array.shape[:-2], array.shape[-2] * array.shape[-1])


def _sigmoid(xp: Any, x: Any) -> Any:
    return 0.5 * (1.0 + xp.tanh(0.5 * x))
