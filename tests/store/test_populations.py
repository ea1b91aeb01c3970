"""Populations out of the event log: who descends from whom, and their pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rookery.errors import UserError
from rookery.observers.events import Copied, Event, MemberRow, Population, Started
from rookery.store.ancestry import Families, families, schedule
from rookery.store.events import history
from rookery.store.plot_population import Kind, PlottedPopulation, plot_population

KINDS: list[Kind] = ["lineage", "schedules", "population"]


def started(generation: int = 0) -> Started:
    return Started(time=0, seconds=0, name="p", directory="runs/p", generation=generation, steps=0, version="1")


def measured(generation: int, **members: tuple[float, float]) -> Population:
    """Each member's score and learning rate; a member's steps are a hundred a generation, and its number."""
    rows = tuple(
        MemberRow(
            id=int(name[1:]), score=score, steps=100 * generation + int(name[1:]), hyperparameters={"lr": lr}
        )
        for name, (score, lr) in members.items()
    )
    return Population(time=0, seconds=0, generation=generation, steps=1000 * generation, members=rows)


def copied(generation: int, child: int, parent: int) -> Copied:
    """Both at the end of the generation."""
    values = {"before": {"lr": 1.0}, "after": {"lr": 2.0}}
    at = {"time": 0.0, "seconds": 0.0, "generation": generation, "steps": 1000 * generation}
    theirs = {"child": child, "parent": parent, "at": 100 * generation + child}
    return Copied(**at, **theirs, parent_at=100 * generation + parent, reason="truncation", **values)  # type: ignore[arg-type]


# Member 2 is best in the end. It was a copy of 0 after generation 2, which was a copy of 1 after generation 1.
LIFE: list[Event] = [
    started(),
    measured(1, m0=(1.0, 0.1), m1=(3.0, 0.2), m2=(2.0, 0.3)),
    copied(1, 0, 1),
    measured(2, m0=(5.0, 0.25), m1=(4.0, 0.2), m2=(2.0, 0.3)),
    copied(2, 2, 0),
    measured(3, m0=(6.0, 0.25), m1=(5.0, 0.2), m2=(7.0, 0.3)),
    copied(3, 1, 2),
    measured(4, m0=(6.0, 0.25), m1=(7.0, 0.4), m2=(9.0, 0.3)),
    copied(4, 0, 2),
]


def found(events: list[Event] | None = None, together: bool = True) -> Families:
    return families("p", history(LIFE if events is None else events), together)


def test_the_line_of_the_best_member_leads_through_its_ancestors() -> None:
    population = found()
    assert population.best == 2
    line, copies = population.line(2)
    assert [(s.member, s.generation, s.first, s.last) for s in line] == [
        (1, 1, 0, 101),
        (0, 2, 100, 200),
        (2, 3, 202, 302),
        (2, 4, 302, 402),
    ]
    assert [(copy.parent, copy.parent_at, copy.child, copy.at) for copy in copies] == [
        (1, 101, 0, 100),
        (0, 200, 2, 202),
    ]
    before = [stretch.member for stretch in population.line(0)[0]]
    assert before == [1, 0, 0, 0], "what is copied at the end was not learned yet"


def test_a_copy_of_a_fresh_copy_is_one_of_whom_that_one_copied() -> None:
    events: list[Event] = [
        started(),
        measured(1, m0=(1.0, 0.1), m1=(2.0, 0.2), m2=(3.0, 0.3)),
        copied(1, 1, 2),
        copied(1, 0, 1),
        measured(2, m0=(9.0, 0.1), m1=(2.0, 0.2), m2=(3.0, 0.3)),
    ]
    for together, ancestor in ((True, 1), (False, 2)):
        assert [stretch.member for stretch in found(events, together).line(0)[0]] == [ancestor, 0]


def test_a_member_may_be_measured_twice_in_a_generation_and_copied_in_between() -> None:
    quick, slow = (MemberRow(id=n, score=5.0 - n, steps=100 + n, hyperparameters={"lr": 0.1}) for n in (0, 1))
    again = MemberRow(id=0, score=9.0, steps=200, hyperparameters={"lr": 0.7})
    both = Population(time=0, seconds=0, generation=1, steps=1, members=(slow, quick, again))
    line, _ = found([started(), both, copied(1, 0, 1)], together=False).line(0)
    assert [(s.member, s.last, s.hyperparameters["lr"]) for s in line] == [(1, 101, 0.1), (0, 200, 0.7)]


def test_a_schedule_counts_the_steps_of_its_line_and_names_only_changes() -> None:
    assert schedule(found().line(2)[0], ["lr"]) == [(0, {"lr": 0.2}), (101, {"lr": 0.25}), (201, {"lr": 0.3})]


def test_what_a_resumed_sitting_does_again_counts_once() -> None:
    again = [
        *LIFE,
        started(2),
        measured(3, m0=(8.0, 0.25), m1=(5.0, 0.2), m2=(7.0, 0.3)),
        copied(3, 2, 1),
    ]
    kept = history(again)
    assert [event.generation for event in kept.populations] == [1, 2, 3]
    assert [(event.generation, event.child) for event in kept.copied] == [(1, 0), (2, 2), (3, 2)]
    assert found(again).best == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_drawn_whole(kind: Kind, tmp_path: Path) -> None:
    run = PlottedPopulation("p_$1", found(), {"lr": "log"})
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        out = tmp_path / f"{kind}{suffix}"
        plot_population(run, out, kind)
        assert out.read_bytes().startswith(magic)
    assert len(list(tmp_path.iterdir())) == 3
    with Image.open(tmp_path / f"{kind}.png") as image:
        assert np.asarray(image.convert("RGB")).std() > 5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", KINDS)
def test_odd_populations_are_drawn_too(kind: Kind, tmp_path: Path) -> None:
    alone: list[Event] = [started(), measured(1, m0=(1.0, 0.1))]
    many: list[Event] = [started()]
    for number in range(1, 6):
        many += [measured(number, **{f"m{n}": (float(n), 0.1) for n in range(40)}), copied(number, 0, 39)]
    for name, events in (("alone", alone), ("many", many)):
        plot_population(PlottedPopulation(name, found(events), {"lr": "linear"}), tmp_path / f"{name}.png", kind)
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


def test_what_has_no_population_is_said() -> None:
    with pytest.raises(UserError, match="no population to see in run 'p': no generation of it is finished"):
        found([started()])


def test_schedules_want_something_that_varies(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none was given as a range"):
        plot_population(PlottedPopulation("p", found(), {}), tmp_path / "a.png", "schedules")
