"""A policy of Stable-Baselines3 in the place of one of ours, so that it is measured and filmed like any other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.envs import Env
from rookery.errors import UserError
from rookery.genomes import NO_LINEAGE, Genome, Lineage, ParameterSpace, Vector
from rookery.learning.sb3 import SB3, SB3Member, deployed
from rookery.learning.sb3_env import Worlds
from rookery.learning.sb3_model import Model, apart
from rookery.policies import Policy, PolicySpec
from rookery.policies.heads import make_head
from rookery.policies.network import Actions, Carry
from rookery.policies.normaliser import Moments, Scaling
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import Trial


class Deployed(Policy):
    """Acts for one member at a time: as its policy is deployed, without exploring."""

    def __init__(self, network: PolicySpec, model: Model) -> None:
        spaces = model.worlds.arena.spaces
        self.network, self.head = network, make_head(spaces.action, Actions())
        self.observation, self.inputs = spaces.observation, spaces.observation.size
        self.policy, self.normaliser = model.algorithm.policy, model.normaliser
        if hasattr(self.policy, "lstm_actor"):
            raise UserError(f"algorithm.learner.policy={model.learner.policy} remembers, and here none does")
        self.born = deployed(model.read(SB3Member(id=0, hyperparameters={})))
        self.space = ParameterSpace.flat(self.born.size)
        self.mean, self.var = np.zeros(0, np.float32), np.zeros(0, np.float32)

    def carry(self, *lead: int) -> Carry:
        del lead
        return ()

    def scaling(self, moments: Moments | None) -> Scaling | None:
        """None that the policy does not know itself."""
        del moments
        return None

    def load(self, vector: NDArray[np.float32]) -> None:
        """Act by these numbers from now on; by none, as the first member does when it is born."""
        vector = vector if vector.size else self.born
        state, start = self.policy.state_dict(), 0
        for key in sorted(state):
            count = state[key].numel()
            state[key].copy_(torch.tensor(vector[start : start + count]).reshape(state[key].shape))
            start += count
        self.mean, self.var = vector[start:].reshape(2, -1)

    def act(
        self,
        parameters: Mapping[str, Any],
        observation: Any,
        carry: Carry = (),
        scaling: Scaling | None = None,
        noise: Any | None = None,
    ) -> tuple[Any, Carry]:
        """Actions for observations (*lead, batch, *shape)."""
        del parameters, carry, scaling, noise
        shape = self.observation.shape
        seen = observation.reshape(-1, *shape)
        if self.mean.size:
            assert self.normaliser is not None
            std, bound = np.sqrt(self.var + self.normaliser.epsilon), self.normaliser.clip_obs
            centred = (seen - self.mean.reshape(shape)) / std.reshape(shape)
            seen = np.clip(centred, -bound, bound).astype(np.float32)
        actions, _ = self.policy.predict(seen, deterministic=True)
        return actions.reshape(*observation.shape[: observation.ndim - len(shape)], *actions.shape[1:]), ()


class SB3Evaluator(Evaluator):
    """Evaluates members of Stable-Baselines3, one trial after the other."""

    def __init__(
        self, env: Env, network: PolicySpec, threads: int, unseen: Env | None, learner: SB3, seed: int
    ) -> None:
        torch.set_num_threads(1)  # workers are as many as cores, and bits must not depend on threads
        self.learner, self.seed, self.threads = learner, seed, threads
        super().__init__(env, network, threads, unseen=unseen)

    def parameters(
        self, genomes: Sequence[Genome], centre: NDArray[np.float32], lineage: Lineage = NO_LINEAGE
    ) -> dict[str, Any]:
        """Nothing that would have to be passed on: the policy has the numbers of the only genome."""
        del centre, lineage
        (genome,) = genomes
        assert isinstance(genome, Vector)
        assert isinstance(self.policy, Deployed)
        self.policy.load(genome.values)
        return {}

    def birth(self, member: int, acts_only: bool = False) -> Model:
        """A member as it comes into being, with nothing learned."""
        worlds = Worlds(self.arena, self.learner.envs, self.threads)
        with apart(self.seed, "initial", 0, member) as number, warnings.catch_warnings():
            if not acts_only:
                warnings.simplefilter("ignore")  # what there is to say of the settings is said once
            return Model(self.learner, worlds, number, acts_only)

    def _policy(self, network: PolicySpec) -> Policy:
        return Deployed(network, self.birth(0, acts_only=True))

    def _batches(self, trials: Sequence[Trial]) -> Iterator[list[Trial]]:
        yield from ([trial] for trial in trials)
