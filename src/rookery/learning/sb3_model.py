"""A member brought to life: an algorithm of Stable-Baselines3 with its weights, from which it is read back.

Restoring goes in one order: weights, optimisers, counters, normaliser, and hyperparameters last, each in all the
places where the library reads it. Nothing of that is undone by what is restored before.
"""

from __future__ import annotations

import importlib
import inspect
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import FloatSchedule, LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

from rookery.errors import RookeryError, UserError, did_you_mean
from rookery.learning.sb3 import SB3, Normaliser, SB3Member, Statistics
from rookery.learning.sb3_env import Worlds
from rookery.streams import stream

_COUNTERS = ("_n_updates", "_n_calls")  # by which algorithms take turns at what they do now and then
_TOLD = (  # what tells most about how learning goes comes first
    "explained_variance",
    "approx_kl",
    "clip_fraction",
    "entropy_loss",
    "value_loss",
    "policy_gradient_loss",
    "actor_loss",
    "critic_loss",
    "loss",
    "learning_rate",
)
_RATE = "learning_rate"
_EXPLORATION = ("exploration_initial_eps", "exploration_final_eps", "exploration_fraction")
_OFF_POLICY_ROLLOUT = 256
_NOTHING_TO_REPLAY = {"buffer_size": 1}  # of an algorithm that only acts


class Model:
    """An algorithm and its environments. It is of one member, but for replayed steps without memory of its own."""

    def __init__(self, learner: SB3, worlds: Worlds, seed: int, acts_only: bool = False) -> None:
        self.learner, self.worlds = learner, worlds
        kind = algorithm_class(learner.algorithm)
        venv: Any = worlds
        if learner.normalise:
            venv = VecNormalize(worlds, norm_obs=worlds.observation_space.dtype != np.uint8)
        self.algorithm = _built(kind, learner, venv, seed, acts_only)
        self.algorithm.set_logger(Logger(None, []))
        self.normaliser = self.algorithm.get_vec_normalize_env()
        self.on_policy = isinstance(self.algorithm, OnPolicyAlgorithm)
        if self.on_policy and learner.rollout is not None:
            raise UserError(f"algorithm.learner.rollout: {learner.algorithm} has settings.n_steps instead")
        if self.normaliser is not None:
            self.normaliser.gamma = self.algorithm.gamma
        self.updating = 0.0  # seconds, since it last began to learn
        train = self.algorithm.train

        def timed(*arguments: Any, **named: Any) -> None:
            began = time.perf_counter()
            train(*arguments, **named)
            self.updating += time.perf_counter() - began

        vars(self.algorithm).update(train=timed, _update_current_progress_remaining=self._progress)

    @property
    def steps_of_update(self) -> int:
        """Steps of all environments from one update to the next; what stands for that off policy."""
        each = self.algorithm.n_steps if self.on_policy else self.learner.rollout or _OFF_POLICY_ROLLOUT
        return int(each * self.worlds.num_envs)

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """By where the library keeps them."""
        names, _ = self.algorithm._get_torch_save_params()
        found = {name: _at(self.algorithm, name) for name in names}
        return {name: part for name, part in found.items() if isinstance(part, torch.optim.Optimizer)}

    def learn(self, generations: int, seed: int) -> dict[str, float]:
        """So many updates, from the first steps of new episodes on; what the last one told comes back."""
        algorithm = self.algorithm
        algorithm.action_space.seed(seed)
        algorithm._last_obs = None
        algorithm.logger.name_to_value.clear()
        self.updating = 0.0
        self._replenish()
        algorithm.learn(generations * self.steps_of_update, reset_num_timesteps=False, log_interval=None)
        told = {name.removeprefix("train/"): value for name, value in algorithm.logger.name_to_value.items()}
        return {name: float(told[name]) for name in _TOLD if name in told}

    def _replenish(self) -> None:
        """Where there is nothing to replay for a member that has learned before, have it play first."""
        algorithm = self.algorithm
        replayed = vars(algorithm).get("replay_buffer")
        if replayed is None or replayed.size() or not algorithm.num_timesteps:
            return
        steps, algorithm.gradient_steps = algorithm.gradient_steps, 0
        try:
            algorithm.learn(max(algorithm.learning_starts, 1), reset_num_timesteps=False, log_interval=None)
        finally:
            algorithm.gradient_steps = steps

    def read(self, member: SB3Member) -> SB3Member:
        """The member with the weights, optimisers and statistics as they are here now."""
        counts = {name: int(vars(self.algorithm)[name]) for name in _COUNTERS if name in vars(self.algorithm)}
        return replace(member, arrays=self._arrays(), counts=counts, normaliser=self._statistics())

    def restore(self, member: SB3Member) -> None:
        """Be this member, whoever this was before."""
        algorithm, optimisers = self.algorithm, self.optimisers
        modules, _ = algorithm._get_torch_save_params()
        for name in modules:
            part = _at(algorithm, name)
            if name in optimisers:
                part.load_state_dict({"state": _slots(member.arrays, name), "param_groups": _groups(part)})
            else:
                part.load_state_dict(_weights(member.arrays, name, part.state_dict()))
        for name, tensor in self._learned_tensors():
            tensor.data.copy_(torch.tensor(member.arrays[name]))
        vars(algorithm).update(member.counts)
        algorithm.num_timesteps = member.steps
        self._progress(member.steps, 0)
        if self.normaliser is not None and member.normaliser is not None:
            known = member.normaliser
            _put(self.normaliser.ret_rms, known.returns)
            if known.observations is not None:
                _put(self.normaliser.obs_rms, known.observations)
        self.tune(member.hyperparameters)

    def tune(self, values: Mapping[str, float]) -> None:
        """Set hyperparameters wherever the next update reads them."""
        algorithm = self.algorithm
        for name in (name for name in SB3.DYNAMIC if name in values):
            value = int(values[name]) if name in SB3.WHOLE else values[name]
            for holder in self._holders(name):
                scheduled = callable(vars(holder)[name])
                setattr(holder, name, FloatSchedule(value) if scheduled else value)
            if name == _RATE:
                algorithm.lr_schedule = FloatSchedule(value)
                for optimiser in self.optimisers.values():
                    for group in optimiser.param_groups:
                        group["lr"] = value
            elif name == "ent_coef" and "ent_coef_tensor" in vars(algorithm):
                algorithm.ent_coef_tensor = torch.tensor(value, dtype=torch.float64, device=algorithm.device)
            elif name in _EXPLORATION:
                algorithm.exploration_schedule = LinearSchedule(*(vars(algorithm)[part] for part in _EXPLORATION))

    def effective(self, names: Mapping[str, float]) -> dict[str, float]:
        """What the next update uses of these hyperparameters, read where it reads them."""
        return {name: self._effective(name) for name in names if name in SB3.DYNAMIC}

    def _effective(self, name: str) -> float:
        algorithm = self.algorithm
        if name == _RATE:
            found = [algorithm.lr_schedule(algorithm._current_progress_remaining)]
            found += [group["lr"] for part in self.optimisers.values() for group in part.param_groups]
        else:
            kept = [vars(holder)[name] for holder in self._holders(name)]
            progress = algorithm._current_progress_remaining
            found = [part(progress) if callable(part) else part for part in kept]
        if name == "ent_coef" and "ent_coef_tensor" in vars(algorithm):
            found.append(algorithm.ent_coef_tensor.item())
        if name in _EXPLORATION:
            schedule = algorithm.exploration_schedule
            found.append((schedule.start, schedule.end, schedule.end_fraction)[_EXPLORATION.index(name)])
        if len(set(found)) != 1:
            raise RookeryError(f"{self.learner.algorithm} would use several values of {name}: {found}")
        return float(found[0])

    def _holders(self, name: str) -> list[Any]:
        """The objects that have a hyperparameter of this name, each of which may be the one that is asked."""
        parts = vars(self.algorithm)
        places = (self.algorithm, parts.get("rollout_buffer"), parts.get("replay_buffer"), self.normaliser)
        return [place for place in places if place is not None and name in vars(place)]

    def _progress(self, steps: int, total: int) -> None:
        """How much of the algorithm's schedules is still to come, which one call of `learn` cannot know."""
        del total
        self.algorithm._current_progress_remaining = max(0.0, 1.0 - steps / self.learner.horizon)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        modules, _ = self.algorithm._get_torch_save_params()
        found: dict[str, NDArray[Any]] = {}
        for name in modules:
            part = _at(self.algorithm, name)
            if isinstance(part, torch.optim.Optimizer):
                for number, slot in part.state_dict()["state"].items():
                    found |= {f"{name}/{number}/{key}": _array(value) for key, value in slot.items()}
            else:
                found |= {f"{name}/{key}": _array(value) for key, value in part.state_dict().items()}
        return found | {name: _array(tensor) for name, tensor in self._learned_tensors()}

    def _learned_tensors(self) -> list[tuple[str, Any]]:
        """Those that belong to no module, such as SAC's entropy coefficient where it is learned."""
        _, names = self.algorithm._get_torch_save_params()
        found = [(name, _at(self.algorithm, name)) for name in names]
        return [(name, tensor) for name, tensor in found if tensor.requires_grad]

    def _statistics(self) -> Normaliser | None:
        if self.normaliser is None:
            return None
        observations = _taken(self.normaliser.obs_rms) if self.normaliser.norm_obs else None
        return Normaliser(observations, _taken(self.normaliser.ret_rms))


def algorithm_class(name: str) -> type[BaseAlgorithm]:
    """The class of this name, in Stable-Baselines3 or in another package."""
    module_name, _, wanted = name.rpartition(":")
    try:
        module = importlib.import_module(module_name or "stable_baselines3")
    except ImportError as error:
        raise UserError(f"algorithm.learner.algorithm={name}: cannot import '{module_name}': {error}") from error
    found = getattr(module, wanted, None)
    if isinstance(found, type) and issubclass(found, BaseAlgorithm):
        return found
    known = [k for k, v in vars(module).items() if isinstance(v, type) and issubclass(v, BaseAlgorithm)]
    raise UserError(
        f"algorithm.learner.algorithm: there is no '{name}'.{did_you_mean(wanted, known)} "
        f"There are: {', '.join(sorted(known))}"
    )


@contextmanager
def apart(seed: int, purpose: str, age: int, member: int) -> Iterator[int]:
    """Whatever is done in here is random by these four alone, and no global generator is moved by it."""
    number = int(stream(seed, purpose, age, member).integers(2**31))
    ours, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        try:
            np.random.seed(number)  # noqa: NPY002
            random.seed(number)
            torch.manual_seed(number)
            yield number
        finally:
            np.random.set_state(ours)  # noqa: NPY002
            random.setstate(pythons)


def _built(kind: type[BaseAlgorithm], learner: SB3, venv: Any, seed: int, acts_only: bool) -> BaseAlgorithm:
    arguments = {"device": "cpu", **learner.arguments}
    known = [name for name in inspect.signature(kind).parameters if name not in learner.RESERVED]
    for name in arguments:
        if name not in known:
            where = f"algorithm.learner.{'' if name in learner.DYNAMIC else 'settings.'}{name}"
            raise UserError(
                f"{where}: {learner.algorithm} has no such argument.{did_you_mean(name, known)} "
                f"It has: {', '.join(known)}"
            )
    if acts_only and "buffer_size" in known:
        arguments |= _NOTHING_TO_REPLAY
    try:
        return kind(learner.policy, venv, seed=seed, **_objects(arguments, venv))
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"algorithm.learner: {learner.algorithm} with {learner.policy} cannot be used like this: {reason}"
        ) from error


def _objects(arguments: Mapping[str, Any], venv: Any) -> dict[str, Any]:
    """Arguments of which a file can only have the plain form, as what the library takes."""
    made = dict(arguments)
    if isinstance(made.get("train_freq"), list):
        made["train_freq"] = tuple(made["train_freq"])
    if isinstance(made.get("action_noise"), int | float):
        shape = venv.action_space.shape
        made["action_noise"] = NormalActionNoise(np.zeros(shape), np.full(shape, float(made["action_noise"])))
    kwargs = dict(made.get("policy_kwargs") or {})
    if isinstance(kwargs.get("activation_fn"), str):
        kwargs["activation_fn"] = getattr(torch.nn, kwargs["activation_fn"])
    return made | ({"policy_kwargs": kwargs} if kwargs else {})


def _at(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


def _array(value: Any) -> NDArray[Any]:
    """A tensor as an array; an optimiser's plain number as one without axes."""
    if isinstance(value, torch.Tensor):
        return np.array(value.detach().cpu().numpy())
    return np.array(value)


def _weights(arrays: Mapping[str, NDArray[Any]], name: str, like: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a module as it is to be loaded."""
    return {key: torch.tensor(arrays[f"{name}/{key}"]) for key in like}


def _slots(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[int, dict[str, Any]]:
    """What an optimiser remembers, by the number of the parameter; whole numbers are its own counters."""
    found: dict[int, dict[str, Any]] = {}
    for path, array in arrays.items():
        where, _, rest = path.partition("/")
        if where == name:
            number, _, key = rest.partition("/")
            whole = array.dtype.kind in "iu" and array.ndim == 0
            found.setdefault(int(number), {})[key] = array.item() if whole else torch.tensor(array)
    return found


def _groups(optimiser: torch.optim.Optimizer) -> Any:
    return optimiser.state_dict()["param_groups"]


def _taken(running: Any) -> Statistics:
    return Statistics(np.array(running.mean), np.array(running.var), float(running.count))


def _put(running: Any, known: Statistics) -> None:
    running.mean, running.var, running.count = np.array(known.mean), np.array(known.var), known.count
