"""Selections of a population, as functions: what follows once everybody was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.errors import UserError
from rookery.evolution.exploit import Tournament, WinnerTakesAll
from rookery.evolution.explore import Keep, Perturb
from rookery.evolution.pbt import PBT, PBTState
from rookery.learning.ppo import PPO, PPOState, apply_hyperparameters
from rookery.learning.toy import Toy, ToyMember, ToyState
from rookery.settings import Range
from rookery.store.codec import decode, encode

GENES = {"h0": Range(low=0.1, high=1.0, scale="log"), "h1": Range(low=0.0, high=1.0)}
MIDDLE = {"h0": pytest.approx(0.1**0.5), "h1": 0.5}
SIX = {number: (float(number), float(number) + 0.5) for number in range(6)}


def population(pbt: PBT, count: int = 6, seed: int = 0) -> PBTState:
    """Points, each at a place of its own."""
    members = tuple(
        ToyMember(
            id=number,
            hyperparameters={"h0": 0.5, "h1": 0.5},
            parameters=np.full(2, number, np.float32),
            age=20,
            steps=100 + number,
        )
        for number in range(count)
    )
    return pbt.init(ToyState(seed, members), GENES)


def pbt(**settings: Any) -> PBT:
    return PBT(learner=Toy(population=6), **{"patience": 0, **settings})


def by_id(state: PBTState) -> dict[int, ToyMember]:
    assert isinstance(state.learner, ToyState)
    return {member.id: member for member in state.learner.members}


def test_members_begin_with_genes_of_their_own() -> None:
    members = by_id(population(pbt())).values()
    for name, gene in GENES.items():
        values = [member.hyperparameters[name] for member in members]
        assert len(set(values)) == len(values)
        assert all(gene.low <= value <= gene.high for value in values)
    again, other = population(pbt()), population(pbt(), seed=1)
    assert encode(again) == encode(population(pbt()))
    assert by_id(again)[0].hyperparameters != by_id(other)[0].hyperparameters


def test_a_copy_is_its_parent_but_for_name_age_and_steps() -> None:
    before = population(pbt())
    after, chosen = pbt().select(before, SIX, GENES)
    assert {selection.child for selection in chosen} == {0, 1}
    for selection in chosen:
        child, parent = by_id(after)[selection.child], by_id(before)[selection.parent]
        assert (child.parameters == parent.parameters).all()
        assert (child.id, child.age, child.steps) == (selection.child, 20, 100 + selection.child)
        assert child.hyperparameters == selection.after
        assert (selection.at, selection.parent_at) == (100 + selection.child, 100 + selection.parent)
        assert selection.before == by_id(before)[selection.child].hyperparameters
        assert "truncation: " in selection.reason
        for name, gene in GENES.items():
            assert gene.low <= selection.after[name] <= gene.high
    others = [number for number in SIX if number not in (0, 1)]
    assert all(by_id(after)[number] is by_id(before)[number] for number in others)
    assert (after.generation, after.best.id) == (1, 5)


def test_a_copy_explores_from_its_parents_genes_or_from_its_own() -> None:
    before = population(pbt())
    for inherit, whose in (("all", 5), ("weights", 0)):
        rule = pbt(exploit=WinnerTakesAll(), explore=Keep(), inherit=inherit)
        after, _ = rule.select(before, SIX, GENES)
        assert by_id(after)[0].hyperparameters == by_id(before)[whose].hyperparameters
        assert (by_id(after)[0].parameters == 5).all()


def test_nobody_is_replaced_for_less_than_the_gap() -> None:
    wide = pbt(exploit=WinnerTakesAll(), gap=3.0)
    _, chosen = wide.select(population(wide), SIX, GENES)
    assert {selection.child for selection in chosen} == {0, 1, 2}
    tied = dict.fromkeys(range(6), (1.0,))
    _, chosen = pbt(exploit=WinnerTakesAll()).select(population(pbt()), tied, GENES)
    assert chosen == [], "and never for nothing"


def test_patience_lets_selections_pass() -> None:
    patient = pbt(patience=2)
    state, counts = population(patient), []
    for _ in range(4):
        state, chosen = patient.select(state, SIX, GENES)
        counts.append(len(chosen))
    assert counts == [0, 0, 2, 2]


def test_the_control_is_never_touched() -> None:
    rule = pbt(control=True, exploit=WinnerTakesAll())
    state = population(rule)
    assert by_id(state)[0].hyperparameters == MIDDLE
    after, chosen = rule.select(state, SIX, GENES)
    assert {selection.child for selection in chosen} == {1, 2, 3, 4}
    assert by_id(after)[0] is by_id(state)[0]
    best, chosen = rule.select(state, {**SIX, 0: (99.0,)}, GENES)
    assert {selection.parent for selection in chosen} == {0}, "but it may be copied"
    assert best.best.id == 0


def test_the_draws_are_those_of_the_generation_and_survive_a_checkpoint() -> None:
    rule = pbt(exploit=Tournament(), explore=Perturb())
    state, told = population(rule), []
    for _ in range(5):
        once, chosen = rule.select(state, SIX, GENES)
        again, same = rule.select(decode(encode(state), PBTState), SIX, GENES)
        assert chosen == same
        assert encode(once) == encode(again)
        told.append([(selection.child, selection.parent) for selection in chosen])
        state = once
    assert len({tuple(pairs) for pairs in told}) > 1


def test_the_first_members_begin_as_they_are_told() -> None:
    told = pbt(first=({"h0": 1.0}, {"h0": 0.2, "h1": 0.0}))
    assert told.genes({f"algorithm.learner.{name}": gene for name, gene in GENES.items()}) == GENES
    members, drawn = by_id(population(told)), by_id(population(pbt()))
    assert members[0].hyperparameters == {"h0": 1.0, "h1": drawn[0].hyperparameters["h1"]}
    assert members[1].hyperparameters == {"h0": 0.2, "h1": 0.0}
    assert members[2].hyperparameters == drawn[2].hyperparameters
    controlled = by_id(population(replace(told, control=True)))
    assert controlled[0].hyperparameters == MIDDLE
    assert controlled[1].hyperparameters["h0"] == 1.0


@pytest.mark.parametrize(
    ("rule", "ranges", "said"),
    [
        (PBT(), {"policy.hidden": GENES["h0"]}, "policy.hidden cannot be a range"),
        (PBT(), {"algorithm.learner.gama": GENES["h0"]}, "Did you mean 'gamma'"),
        (PBT(), {"algorithm.interval": GENES["h0"]}, "algorithm.interval cannot be a range"),
        (PBT(first=({"lr": 0.1},)), {}, "algorithm.first: lr was not given as a range.* none"),
        (
            PBT(first=({"lr": 0.1},)),
            {"algorithm.learner.lr": Range(low=1e-4, high=1e-2)},
            "lr=0.1 lies outside its range, 0.0001 to 0.01",
        ),
        (
            PBT(learner=PPO(population=2, schedule=((0, {"lr": 0.1}),))),
            {"algorithm.learner.lr": Range(low=1e-4, high=1e-2)},
            "cannot be a range and have a schedule",
        ),
    ],
    ids=["no part", "unknown", "not the learner's", "no gene", "outside", "scheduled"],
)
def test_what_nobody_could_change_is_refused(rule: PBT, ranges: dict[str, Range], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rule.genes(ranges)


def test_a_population_of_ppo_is_a_state_like_any_other() -> None:
    state = PBTState(PPOState(3, 10, ()), 4, {0: (1.0,)})
    back = decode(encode(state), PBTState)
    assert isinstance(back.learner, PPOState)
    assert (back.seed, back.generation, back.scores) == (3, 4, {0: (1.0,)})


def test_hyperparameters_are_read_back_as_they_were_set() -> None:
    member = by_id(population(pbt()))[0]
    changed = apply_hyperparameters(member, {"h0": 1 / 3})
    assert changed.hyperparameters == {"h0": 1 / 3, "h1": member.hyperparameters["h1"]}
    with pytest.raises(UserError, match="lrr is no hyperparameter of this member; it has h0, h1"):
        apply_hyperparameters(member, {"lrr": 1.0})
