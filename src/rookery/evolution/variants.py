"""The toy model with and without each half of population-based training, step by step, to be looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.envs.synthetic import SyntheticArena
from rookery.errors import UserError
from rookery.evolution.exploit import NoExploit
from rookery.evolution.explore import Keep
from rookery.evolution.pbt import PBT, PBTState
from rookery.experiment import Experiment
from rookery.learning.ppo import apply_hyperparameters
from rookery.learning.toy import Toy, ToyNursery, ToyState
from rookery.streams import seeds

Floats = NDArray[np.float64]


class Variant(NamedTuple):
    """What became of the members: where they were (steps + 1, members, axes), and what that was worth."""

    title: str
    points: Floats
    worth: Floats


def variants(experiment: Experiment, generations: int) -> list[Variant]:
    """PBT as the experiment has it; members that only explore or only exploit; and members left alone."""
    pbt = experiment.algorithm
    if not isinstance(pbt, PBT) or not isinstance(pbt.learner, Toy):
        raise UserError("only runs of learner.type=toy have a picture of that kind: try `rookery run pbt-toy`")
    alone = replace(pbt, exploit=NoExploit())
    return [
        _carried_out("PBT", experiment, pbt, generations),
        _carried_out("explore only", experiment, alone, generations, wandering=True),
        _carried_out("exploit only", experiment, replace(pbt, explore=Keep()), generations),
        _carried_out("grid search", experiment, alone, generations),
    ]


def _carried_out(
    title: str, experiment: Experiment, pbt: PBT, generations: int, wandering: bool = False
) -> Variant:
    """A population as a run would have it; those who wander change their hyperparameters and copy nobody."""
    toy, genes = pbt.learner, pbt.genes(experiment.genes)
    assert isinstance(toy, Toy)
    nursery = ToyNursery(experiment.env, experiment.policy, 1, None, toy, experiment.seed)
    state = pbt.init(toy.found(experiment.env, experiment.policy, experiment.seed, None), genes)
    points = [_points(state)]
    for generation in range(generations):
        assert isinstance(state.learner, ToyState)
        points += [
            np.array([toy.climb(member, steps).parameters for member in state.learner.members], np.float64)
            for steps in range(1, pbt.interval + 1)
        ]
        nursery.adopt(state.learner.members)
        episodes = seeds(experiment.seed, "selection", generation, 0, pbt.episodes)
        raised = nursery.rear(range(len(state.learner.members)), pbt.interval, episodes)
        members = tuple(entry.member for entry in raised)
        scores = {entry.member.id: entry.earned for entry in raised}
        state, _ = pbt.select(replace(state, learner=replace(state.learner, members=members)), scores, genes)
        if wandering and generation >= pbt.patience:
            state = _wandered(pbt, state, experiment)
        points[-1] = _points(state)  # a copy is made at once, and stands where its parent is
    whole = np.stack(points)
    return Variant(title, whole, _worth(experiment, whole))


def _wandered(pbt: PBT, state: PBTState, experiment: Experiment) -> PBTState:
    """The state with all hyperparameters changed as those of copies are."""
    assert isinstance(state.learner, ToyState)
    members = tuple(
        apply_hyperparameters(
            member, pbt.explored(state, member.id, member.hyperparameters, pbt.genes(experiment.genes))
        )
        for member in state.learner.members
    )
    return replace(state, learner=replace(state.learner, members=members))


def _points(state: PBTState) -> Floats:
    assert isinstance(state.learner, ToyState)
    return np.array([member.parameters for member in state.learner.members], np.float64)


def _worth(experiment: Experiment, points: Floats) -> Floats:
    """What points earn, without noise."""
    place = SyntheticArena(experiment.env)
    flat = points.reshape(-1, points.shape[-1]) - place.best
    worth: Floats = place.options.height - place.function(flat)
    return worth.reshape(points.shape[:-1])
