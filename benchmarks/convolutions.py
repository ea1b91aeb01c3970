"""A gradient step of image networks in JAX and in PyTorch, whose convolutions are oneDNN's: CPU time per image.

CPU time of the process rather than the time that passes, so that what else the machine does changes little. Both
have one thread's worth of work to do; with more threads each comes down alike. PyTorch's network is the one of the
same layers, with channels first as Stable-Baselines3 has them, and with channels last.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from jax import numpy as jnp
from torch import nn

from rookery.envs import Discrete, Observation, Spaces
from rookery.policies import CNN, Impala, Nature, Policy
from rookery.policies.xla import compiler_options, in_chunks

OUTPUTS, ROUNDS = 15, 9
CASES = (
    ("nature", Nature(), (3, 64, 64), 2048),
    ("nature", Nature(), (4, 84, 84), 256),
    ("impala", Impala(), (3, 64, 64), 256),
)
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}


def measure() -> list[dict[str, Any]]:
    """One row per network and shape of images; medians over alternating rounds."""
    torch.set_num_threads(1)
    return [_case(*case) for case in CASES]


def _case(name: str, network: CNN, shape: tuple[int, ...], images: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(images, *shape), dtype=np.uint8)
    targets = rng.standard_normal((images, OUTPUTS), np.float32)
    steps = {"ours": _ours(network, frames, targets)}
    steps |= {layout: _peer(name, frames, targets, kind) for layout, kind in LAYOUTS.items()}
    spent: dict[str, list[float]] = {what: [] for what in steps}
    for step in steps.values():
        step()
    for _ in range(ROUNDS):
        for what, step in steps.items():
            start = time.process_time()
            step()
            spent[what].append(time.process_time() - start)
    usual = {what: statistics.median(times) for what, times in spent.items()}
    row: dict[str, Any] = {"network": name, "images": "x".join(map(str, shape)), "batch": images}
    row |= {f"{what.replace(' ', '_')}_us": round(seconds / images * 1e6) for what, seconds in usual.items()}
    return row | {f"to_{what.replace(' ', '_')}": round(usual[what] / usual["ours"], 2) for what in LAYOUTS}


def _ours(network: CNN, frames: Any, targets: Any) -> Callable[[], object]:
    policy = Policy(network, Spaces(Observation(frames.shape[1:], "uint8"), Discrete((OUTPUTS,))))
    parameters = policy.space.split(policy.space.initial(np.random.default_rng(0)))

    def loss(parameters: Any, chunk: Any) -> Any:
        return ((network.forward(parameters, chunk[0], ())[0] - chunk[1]) ** 2).sum()

    def gradient(parameters: Any, batch: Any) -> Any:
        return in_chunks(lambda chunk: jax.grad(loss)(parameters, chunk), batch, network.chunk)

    compiled = jax.jit(gradient, compiler_options=compiler_options())
    arguments = jax.tree.map(jnp.asarray, (parameters, (frames, targets)))
    return lambda: jax.block_until_ready(compiled(*arguments))


def _peer(name: str, frames: Any, targets: Any, layout: torch.memory_format) -> Callable[[], object]:
    torch.manual_seed(0)
    channels = frames.shape[1]
    body = nn.Sequential(*(_nature(channels) if name == "nature" else _impala(channels)), nn.ReLU(), nn.Flatten())
    inputs = body(torch.zeros(1, *frames.shape[1:])).shape[1]
    width = 512 if name == "nature" else 256
    network = nn.Sequential(body, nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, OUTPUTS))
    network = network.to(memory_format=layout)
    images, wanted = torch.from_numpy(frames).contiguous(memory_format=layout), torch.from_numpy(targets)

    def step() -> None:
        network.zero_grad()
        ((network(images.float() / 255) - wanted) ** 2).sum().backward()

    return step


def _nature(channels: int) -> list[nn.Module]:
    kernels = nn.Conv2d(channels, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3)
    return [kernels[0], nn.ReLU(), kernels[1], nn.ReLU(), kernels[2]]


def _impala(channels: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width in (16, 32, 32):
        layers += [
            nn.Conv2d(channels, width, 3, padding=1),
            nn.MaxPool2d(3, 2, 1),
            Residual(width),
            Residual(width),
        ]
        channels = width
    return layers


class Residual(nn.Module):
    """Two convolutions beside the way straight through."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return maps + self.second(torch.relu(self.first(torch.relu(maps))))
