"""EnvPool: environments in C++, stepped by a pool of threads."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.envs.batch import BatchedEnv, Ids, Step
from rookery.envs.spec import Env, Spaces
from rookery.envs.view import View, action_space
from rookery.errors import UserError, did_you_mean

_INFO = "info:"
_QT = ("libicudata", "libicuuc", "libicui18n", "libQt5Core", "libQt5Gui")


@cache
def library() -> Any:
    """The envpool package, imported without its XLA interface: that would import JAX, which nothing here needs."""
    _bring_qt()
    jax_was_absent = "jax" not in sys.modules
    if jax_was_absent:
        sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        import envpool
    finally:
        if jax_was_absent:
            del sys.modules["jax"]
    return envpool


def _bring_qt() -> None:
    """Procgen draws with Qt, and looks for it among the process's libraries: put there what the wheel has."""
    try:
        package = importlib.util.find_spec("PyQt5")
    except (ImportError, ValueError):  # something keeps it from being imported
        package = None
    for folder in (package.submodule_search_locations or ()) if package else ():
        for name in _QT:  # each needs those before
            for path in sorted(Path(folder, "Qt5", "lib").glob(f"{name}.so.*")):
                ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


@cache
def known_ids() -> frozenset[str]:
    """Every environment id that EnvPool has."""
    return frozenset(library().list_all_envs())


class EnvPoolArena:
    """EnvPool seeds an environment only when it is made, so every batch is a new pool."""

    def __init__(self, spec: Env, info: str | None = None) -> None:
        self.spec = spec
        self.info = info
        self.options = dict(spec.options)
        if spec.max_steps is not None:
            self.options["max_episode_steps"] = spec.max_steps * spec.action_repeat
        probe = self._make([0], 1)
        if probe.config["max_num_players"] > 1:
            raise UserError(f"{spec.name} has several players; a policy here plays alone")
        self.limit = self.options.get("max_episode_steps") if _is(probe, "procgen") else None
        self.pays_resets = _is(probe, "mujoco.mujoco_dmc") or _is(probe, "mujoco.robotics")
        fields = [key.removeprefix(_INFO) for key in probe._state_keys if key.startswith(_INFO)]
        if info is not None and info not in fields:
            raise UserError(
                f"evaluation.behaviour=info:{info}: {spec.name} has no such field.{did_you_mean(info, fields)} "
                f"It has: {', '.join(sorted(fields))}"
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*precision lowered by casting", UserWarning)  # EnvPool's own doing
            self.view = View(spec, probe.observation_space)
            self.spaces = Spaces(self.view.observation, action_space(spec, probe.action_space))

    def _make(self, seeds: Sequence[int], threads: int, **options: Any) -> Any:
        try:
            return library().make(
                self.spec.name,
                "gymnasium",
                num_envs=len(seeds),
                num_threads=threads,
                seed=list(seeds),
                **self.options,
                **options,
            )
        except (AssertionError, ImportError, RuntimeError, TypeError, ValueError, KeyError) as error:
            if "Qt 5" in str(error):
                raise UserError(
                    f"{self.spec.name} is drawn with Qt 5, which is missing here: pip install 'rookery[procgen]'"
                ) from error
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"EnvPool cannot make {self.spec.name}: {reason}") from error

    def batch(self, seeds: Sequence[int], threads: int = 1, render: bool = False) -> BatchedEnv:
        if render:
            _check_rendering(self.spec.name)
        pool = self._make(seeds, threads, **({"render_mode": "rgb_array"} if render else {}))
        if self.limit is not None:
            return LimitedBatch(pool, self.view, self.info, self.limit)
        return (UnpaidBatch if self.pays_resets else EnvPoolBatch)(pool, self.view, self.info)

    def close(self) -> None:
        """Pools end with their batches."""


class EnvPoolBatch:
    """One pool. It is driven through its array interface: the dictionaries of `step` cost 20 us a call."""

    def __init__(self, pool: Any, view: View, info: str | None = None) -> None:
        self.pool = pool
        self.view = view
        keys = list(pool._state_keys)
        self.ids, self.elapsed = keys.index("info:env_id"), keys.index("elapsed_step")
        self.info = None if info is None else keys.index(_INFO + info)
        self.reward, self.done, self.truncated = keys.index("reward"), keys.index("done"), keys.index("trunc")
        shown = [place for place, key in enumerate(keys) if key == "obs" or key.startswith("obs:")]
        self.seen: int | dict[str, int] = (
            {key: keys.index(f"obs:{key}") for key in view.keys} if view.keys else shown[0]
        )
        action = list(pool.spec.action_array_spec.values())[-1]
        self.action_dtype = action.dtype
        self.action_shape = tuple(n for n in action.shape if n >= 0)  # -1 stands for the players

    def reset(self) -> None:
        self.pool._reset(self.pool.all_env_ids)

    def send(self, actions: NDArray[Any], ids: Ids) -> None:
        actions = np.ascontiguousarray(actions, self.action_dtype).reshape(len(ids), *self.action_shape)
        self.pool._send([ids, ids, actions])

    def receive(self) -> Step:
        return self._step(self.pool._recv())

    def _step(self, state: Any) -> Step:
        raw = state[self.seen] if isinstance(self.seen, int) else {k: state[i] for k, i in self.seen.items()}
        done, truncated = state[self.done], state[self.truncated]
        step = Step(state[self.ids], self.view(raw), state[self.reward], done & ~truncated, truncated)
        return step if self.info is None else step._replace(info=state[self.info])

    def render(self, env: int) -> NDArray[np.uint8]:
        try:
            frames: NDArray[np.uint8] = self.pool.render(env_ids=[env])
        except RuntimeError as error:
            raise UserError(f"EnvPool cannot draw this environment: {error}") from error
        frame: NDArray[np.uint8] = frames[0]
        return frame

    def close(self) -> None:
        self.pool.close()


class UnpaidBatch(EnvPoolBatch):
    """A pool of DeepMind's suite or of Meta-World, which give a reward with a reset as well: it is kept back."""

    def _step(self, state: Any) -> Step:
        step = super()._step(state)
        return step._replace(rewards=step.rewards * (state[self.elapsed] > 0))


class LimitedBatch(EnvPoolBatch):
    """A pool of Procgen, which takes no notice of a limit of steps: episodes are cut here, and begun by force."""

    def __init__(self, pool: Any, view: View, info: str | None, limit: int) -> None:
        super().__init__(pool, view, info)
        self.limit = limit
        self.cut = np.zeros(len(pool.all_env_ids), np.bool_)  # whose episode the pool believes to be going on
        self.begun: tuple[NDArray[np.bool_], Step] | None = None  # which of those sent, and what they show

    def reset(self) -> None:
        self.cut[:] = False
        super().reset()

    def send(self, actions: NDArray[Any], ids: Ids) -> None:
        cut = self.cut[ids]
        if cut.any():
            self.pool._reset(ids[cut])
            self.begun = cut, self._step(self.pool._recv())  # a pool mixes up the rows of resets and steps
            actions, ids = np.asarray(actions)[~cut], ids[~cut]
        if len(ids):
            super().send(actions, ids)

    def receive(self) -> Step:
        begun, self.begun = self.begun, None
        if begun is None:
            return super().receive()
        cut, step = begun
        return step if cut.all() else _interleaved(step, super().receive(), cut)

    def _step(self, state: Any) -> Step:
        step = super()._step(state)
        late = ~step.terminated & (state[self.elapsed] >= self.limit)
        self.cut[step.ids] = late
        return step._replace(truncated=step.truncated | late)


def _interleaved(one: Step, other: Step, place: NDArray[np.bool_]) -> Step:
    """Both steps in one, the rows of the first where `place` says so."""
    order = np.argsort(np.concatenate([np.flatnonzero(place), np.flatnonzero(~place)]))
    rows = (np.concatenate(pair)[order] for pair in zip(one[:5], other[:5], strict=True))
    info = None if one.info is None or other.info is None else np.concatenate([one.info, other.info])[order]
    return Step._make([*rows, {}, info])


def _is(thing: Any, family: str) -> bool:
    """Whether a pool or its description belongs to a family of EnvPool's."""
    return any(base.__module__.startswith(f"envpool.{family}") for base in type(thing).__mro__)


@cache
def _check_rendering(env_id: str) -> None:
    """MuJoCo ends the whole process when there is no OpenGL to draw with, so one frame is tried in another one."""
    if not _is(library().make_spec(env_id), "mujoco"):
        return
    script = f"from rookery.envs.envpool import draw_one_frame; draw_one_frame({env_id!r})"
    trial = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, check=False)
    if trial.returncode != 0:
        raise UserError(
            f"drawing {env_id} needs an EGL driver, such as the Debian packages libegl1 and libgl1-mesa-dri; "
            "training and evaluating work without"
        )
    _share_opengl()


def draw_one_frame(env_id: str) -> None:
    """Draw an environment once, or end the process where OpenGL is missing."""
    _share_opengl()
    pool = library().make(env_id, "gymnasium", num_envs=1, render_mode="rgb_array")
    pool.reset()
    pool.render()


@cache
def _share_opengl() -> None:
    """MuJoCo looks for OpenGL among the process's global symbols, where Python does not put an extension's own."""
    libraries = Path(library().__file__).parent.parent / "envpool.libs"
    for name in ("libGLdispatch", "libOpenGL", "libEGL"):  # each needs the one before
        for path in libraries.glob(f"{name}-*"):
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
