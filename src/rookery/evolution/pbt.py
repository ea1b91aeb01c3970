"""Population-based training: members learn, and now and then the worst go on from where the best are.

Learners know nothing of it. A member is whole: weights, optimiser, normalisers, hyperparameters. Its genes are the
hyperparameters that the experiment gives a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace
from numpy.typing import NDArray

from rookery.errors import UserError, did_you_mean
from rookery.evolution.exploit import Exploit, NoExploit, Truncation, ranked
from rookery.evolution.explore import Explore, Perturb, draw, within
from rookery.genomes import Genome, Lineage
from rookery.learning.member import AnyLearner, AnyMember
from rookery.learning.ppo import PPO, PPOState, apply_hyperparameters
from rookery.learning.sb3 import SB3, SB3State
from rookery.learning.toy import Toy, ToyState
from rookery.settings import Range
from rookery.streams import stream

Genes = Mapping[str, Range]  # by the learner's name for the hyperparameter
_LEARNER = "algorithm.learner."


class Selection(msgspec.Struct, frozen=True):
    """One member that became a copy of another, each at so many of its own steps, and how its genes changed."""

    child: int
    parent: int
    at: int
    parent_at: int
    reason: str
    before: dict[str, float]
    after: dict[str, float]


class PBTState(msgspec.Struct, frozen=True, eq=False, tag="pbt"):
    """The population between two selections, and what each member earned at the last one."""

    learner: PPOState | SB3State | ToyState
    generation: int = 0
    scores: dict[int, tuple[float, ...]] = msgspec.field(default_factory=dict)

    @property
    def seed(self) -> int:
        return self.learner.seed

    @property
    def best(self) -> AnyMember:
        """The member that earned most when it was last measured."""
        members: Sequence[AnyMember] = self.learner.members
        first = ranked(self.scores)[0] if self.scores else members[0].id
        return next(member for member in members if member.id == first)


class PBT(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="pbt"):
    """Population-based training of a learner's members."""

    learner: Annotated[PPO | SB3 | Toy, Meta(description="what the members are, and how many")] = PPO(population=8)
    mode: Annotated[
        Literal["sync", "async"],
        Meta(description="sync = all are compared at once, the same bits anywhere; async = each when it is due"),
    ] = "sync"
    interval: Annotated[int, Meta(ge=1, description="updates of a member from one selection to the next")] = 10
    episodes: Annotated[
        int, Meta(ge=1, description="fresh episodes that a member is measured by, as it would be deployed")
    ] = 10
    exploit: Annotated[Exploit, Meta(description="who is replaced by whom")] = Truncation()
    inherit: Annotated[
        Literal["all", "weights"],
        Meta(
            description="whose hyperparameters explore starts from: all = the parent's; weights = the copy's own"
        ),
    ] = "all"
    explore: Annotated[Explore, Meta(description="how a copy's hyperparameters change")] = Perturb()
    gap: Annotated[
        float, Meta(ge=0, description="a member is replaced only by one that earned more by at least this")
    ] = 0.0
    first: Annotated[
        tuple[dict[str, float], ...],
        Meta(description="what the first members begin with, such as [{lr: 0.001}]; what is not said is drawn"),
    ] = ()
    patience: Annotated[int, Meta(ge=0, description="selections that pass before anybody is replaced")] = 1
    control: Annotated[
        bool, Meta(description="member 0 goes on with the middle of every range, untouched, to compare with")
    ] = False

    @property
    def learners(self) -> AnyLearner:
        """The learner, as what all of them are."""
        return self.learner

    def init(self, learner: PPOState | SB3State | ToyState, genes: Genes) -> PBTState:
        """The population, its genes as `first` says or drawn from their ranges."""
        members = tuple(
            apply_hyperparameters(member, self._at_first(learner.seed, member.id, genes))
            for member in learner.members
        )
        return PBTState(replace(learner, members=members))

    def select(
        self, state: PBTState, scores: Mapping[int, Sequence[float]], genes: Genes
    ) -> tuple[PBTState, list[Selection]]:
        """What follows once all members were measured; `state` is as it was after they learned."""
        due = [member.id for member in state.learner.members]
        chosen = self.choose(state, scores, due, genes)
        by_id: dict[int, Any] = {member.id: member for member in state.learner.members}
        changed = {selection.child: _copy(by_id, selection) for selection in chosen}
        members = tuple(changed.get(member.id, member) for member in state.learner.members)
        told = {member: tuple(map(float, earned)) for member, earned in scores.items()}
        advanced = PBTState(replace(state.learner, members=members), state.generation + 1, told)
        return advanced, chosen

    def copied(self, state: PBTState, selection: Selection) -> PBTState:
        """The population after one member has become a copy of another."""
        by_id: dict[int, Any] = {member.id: member for member in state.learner.members}
        by_id[selection.child] = _copy(by_id, selection)
        return replace(state, learner=replace(state.learner, members=tuple(by_id.values())))

    def choose(
        self, state: PBTState, scores: Mapping[int, Sequence[float]], due: Sequence[int], genes: Genes
    ) -> list[Selection]:
        """Which of the members that are due become copies of whom, and with which genes."""
        if state.generation < self.patience or isinstance(self.exploit, NoExploit):
            return []
        rng = stream(state.seed, "exploit", state.generation, due[0] if len(due) == 1 else len(scores))
        touched = [member for member in due if not self._is_control(member)]
        copies = self.exploit.copies(scores, touched, rng)
        members = {member.id: member for member in state.learner.members}
        found = []
        for child, parent in sorted(copies.items()):
            ahead = float(np.mean(scores[parent]) - np.mean(scores[child]))
            if ahead < self.gap or ahead <= 0:
                continue
            source = members[parent if self.inherit == "all" else child].hyperparameters
            found.append(
                Selection(
                    child=child,
                    parent=parent,
                    at=members[child].steps,
                    parent_at=members[parent].steps,
                    reason=f"{self.exploit.__struct_config__.tag}: {ahead:.4g} ahead",
                    before={name: members[child].hyperparameters[name] for name in genes},
                    after=self.explored(state, child, {name: source[name] for name in genes}, genes),
                )
            )
        return found

    def champion(self, state: PBTState) -> Genome:
        """The best member's policy."""
        return self.learners.champion(replace(state.learner, members=(state.best,)))

    def centre(self, state: PBTState) -> NDArray[np.float32]:
        return self.learners.centre(state.learner)

    def lineage(self, state: PBTState) -> Lineage:
        return self.learners.lineage(state.learner)

    def telemetry(self, state: PBTState) -> dict[str, float]:
        """The genes' means over the population come first."""
        members = state.learner.members
        names = members[0].hyperparameters
        means = {name: float(np.mean([member.hyperparameters[name] for member in members])) for name in names}
        varied = {
            name: mean for name, mean in means.items() if len({m.hyperparameters[name] for m in members}) > 1
        }
        return varied | {
            name: value for name, value in self.learners.telemetry(state.learner).items() if name not in varied
        }

    def genes(self, ranges: Mapping[str, Range]) -> dict[str, Range]:
        """An experiment's ranges by the learner's names; one that no member could ever feel is refused."""
        found = {}
        known = (*self.learners.DYNAMIC, *self.learners.VARIES)
        for path, gene in ranges.items():
            name = path.removeprefix(_LEARNER)
            if name not in known or (name == path and name not in self.learners.VARIES):
                raise UserError(
                    f"{path} cannot be a range: a member could not change it while it learns."
                    f"{did_you_mean(name, known)} These it can: {', '.join(known)}"
                )
            if any(name in values for _, values in getattr(self.learner, "schedule", ())):
                raise UserError(f"{path} cannot be a range and have a schedule: leave one of them out")
            found[name] = gene
        self._refuse_odd_first(found)
        return found

    def _refuse_odd_first(self, genes: Genes) -> None:
        """What members begin with must be theirs to change, and lie where it could have been drawn."""
        for name, value in ((name, value) for values in self.first for name, value in values.items()):
            if name not in genes:
                known = ", ".join(genes) or "none"
                raise UserError(
                    f"algorithm.first: {name} was not given as a range.{did_you_mean(name, genes)} "
                    f"These were: {known}"
                )
            if within(value, genes[name]) != value:
                low, high = genes[name].low, genes[name].high
                raise UserError(f"algorithm.first: {name}={value:g} lies outside its range, {low:g} to {high:g}")

    def _at_first(self, seed: int, member: int, genes: Genes) -> dict[str, float]:
        """What a member begins with."""
        if self._is_control(member):
            return {name: float(gene.middle) for name, gene in genes.items()}
        place = member - self.control
        said = self.first[place] if place < len(self.first) else {}
        rng = stream(seed, "genes", 0, member)
        return {name: draw(gene, rng) for name, gene in genes.items()} | said

    def explored(
        self, state: PBTState, child: int, inherited: Mapping[str, float], genes: Genes
    ) -> dict[str, float]:
        """What becomes of the hyperparameters that a copy has inherited."""
        age = next(member.age for member in state.learner.members if member.id == child)
        rng = stream(state.seed, "explore genes", age, child)
        return {
            name: within(self.explore.change(inherited[name], gene, rng), gene) for name, gene in genes.items()
        }

    def _is_control(self, member: int) -> bool:
        return self.control and member == 0


def _copy(members: Mapping[int, Any], selection: Selection) -> Any:
    """A member after it has become a copy of another."""
    return apply_hyperparameters(members[selection.child].inherit(members[selection.parent]), selection.after)
