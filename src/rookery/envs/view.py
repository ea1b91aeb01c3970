"""From Gymnasium's spaces to ours: what the agent sees of an observation, and what its action becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rookery.envs.spec import Action, Continuous, Discrete, Env, Observation
from rookery.errors import UserError

_UNBOUNDED = 1e30  # some environments write the largest float for "no bound"


class View:
    """Turns batches of raw observations into what the agent sees: a float32 vector, or images as they are."""

    def __init__(self, spec: Env, space: Any) -> None:
        self.spec = spec
        self.keys: tuple[str, ...] = ()
        self.choices = 0
        if isinstance(space, spaces.Dict):
            if not spec.flatten:
                names = ", ".join(space.spaces)
                raise UserError(
                    f"{spec.name} shows a dictionary ({names}), and policies take one array: "
                    "env.flatten=true joins its entries into a vector"
                )
            self.keys = tuple(space.spaces)
            size = sum(_vector_size(spec, part) for part in space.spaces.values())
            whole = Observation((size,))
        elif isinstance(space, spaces.Discrete):
            self.choices = int(space.n)
            self.start = int(space.start)
            whole = Observation((self.choices,))
        elif isinstance(space, spaces.Box):
            shape = tuple(int(n) for n in space.shape)
            image = Observation(shape, str(space.dtype)).is_image
            whole = Observation(shape, str(space.dtype)) if image else Observation((int(np.prod(shape)),))
        elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            whole = Observation((int(np.prod(space.shape)),))
        else:
            raise UserError(f"{spec.name} shows {space}, which no policy here can take")
        self.image = whole.is_image
        self.kept = self._kept(whole)
        self.observation = whole if self.kept is None else Observation((len(self.kept),))

    def _kept(self, whole: Observation) -> NDArray[np.intp] | None:
        if not self.spec.hide:
            return None
        outside = [index for index in self.spec.hide if not 0 <= index < whole.size]
        if self.image or outside or len(set(self.spec.hide)) == whole.size:
            raise UserError(
                f"env.hide: {self.spec.name} shows {whole.size} numbers (0 to {whole.size - 1}), "
                f"and at least one must stay; got {list(self.spec.hide)}"
            )
        return np.setdiff1d(np.arange(whole.size), self.spec.hide)

    def __call__(self, raw: Any) -> NDArray[Any]:
        """What the agent sees of a batch; `raw` is an array, or a mapping of arrays, with a leading batch axis."""
        if self.keys:
            raw = np.concatenate([np.reshape(raw[key], (len(raw[key]), -1)) for key in self.keys], axis=-1)
        elif self.image:
            return np.asarray(raw)
        elif self.choices:
            raw = np.eye(self.choices, dtype=np.float32)[np.asarray(raw).reshape(-1) - self.start]
        seen = np.asarray(raw, np.float32).reshape(len(raw), -1)
        return seen if self.kept is None else seen[:, self.kept]


def action_space(spec: Env, space: Any) -> Action:
    """Our description of a Gymnasium action space."""
    if isinstance(space, spaces.Discrete):
        return Discrete((int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        return Discrete(tuple(int(n) for n in space.nvec.reshape(-1)), scalar=False)
    if isinstance(space, spaces.MultiBinary):
        return Discrete((2,) * int(np.prod(space.shape)), scalar=False)
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64).reshape(-1) for bound in (space.low, space.high))
        low = np.where(low < -_UNBOUNDED, -np.inf, low)
        high = np.where(high > _UNBOUNDED, np.inf, high)
        return Continuous(tuple(low.tolist()), tuple(high.tolist()))
    raise UserError(f"{spec.name} takes actions of the kind {space}, which no policy here can give")


def _vector_size(spec: Env, space: Any) -> int:
    if not isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        raise UserError(f"env.flatten: {spec.name} shows {space}, which cannot be joined into a vector")
    return int(np.prod(space.shape)) if space.shape else 1
