"""Seed chains: the same parameters whatever is remembered, and little work however long they are."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.genomes import (
    Child,
    Genome,
    Lineage,
    Link,
    Materialiser,
    Parameter,
    ParameterSpace,
    SeedChain,
    chains,
    keyframes,
)
from rookery.genomes.recipes import noise
from rookery.store.codec import encode
from rookery.streams import stream

SPACE = ParameterSpace((Parameter("w", (5, 4), 0.5), Parameter("b", (4,))))
CENTRE = np.linspace(-1, 1, SPACE.size, dtype=np.float32)
NOWHERE = np.zeros(0, np.float32)


def chain(links: int, root: int | None = 0, seed: int = 7) -> SeedChain:
    return SeedChain(seed, root, tuple(Link(generation, 3 * generation % 7, 0.1) for generation in range(links)))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The names of the noise vectors that were drawn."""
    names: list[tuple[int, ...]] = []

    def counted(*args: int, **kwargs: object) -> object:
        names.append(args[:3])
        return noise(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(chains, "noise", counted)
    return names


def test_a_chain_is_its_root_and_its_mutations() -> None:
    expected = SPACE.initial(stream(7, "initial", 0, 2))
    for link in chain(3).links:
        expected = expected + np.float32(0.1) * noise(7, link.generation, link.index, SPACE.size)
    (row,) = Materialiser(SPACE)([chain(3, root=2)], NOWHERE)
    np.testing.assert_array_equal(row, expected)
    (row,) = Materialiser(SPACE)([SeedChain(7, None)], CENTRE)
    np.testing.assert_array_equal(row, CENTRE)


def test_bits_do_not_depend_on_what_is_remembered_or_published() -> None:
    family: list[Genome] = [chain(links, root) for links in (35, 12, 34, 0, 35) for root in (0, 1, None)]
    cold = [Materialiser(SPACE, 0)([genome], CENTRE)[0] for genome in family]
    warm = Materialiser(SPACE)
    published = keyframes([g for g in family if isinstance(g, SeedChain)], (), SPACE, CENTRE)
    assert {len(keyframe.chain.links) for keyframe in published} == {20}
    for lineage in (Lineage(), Lineage((), published)):
        for make in (warm, Materialiser(SPACE), Materialiser(SPACE, 0)):
            np.testing.assert_array_equal(make(family, CENTRE, lineage), cold)


def test_chains_that_share_a_name_but_not_a_past_are_not_confused() -> None:
    one, other = chain(5), SeedChain(7, 0, (Link(9, 9, 0.5), *chain(5).links[1:]))
    make = Materialiser(SPACE)
    both = make([one, other], NOWHERE)
    np.testing.assert_array_equal(both, [Materialiser(SPACE)([genome], NOWHERE)[0] for genome in (one, other)])
    assert not np.array_equal(*both)
    np.testing.assert_array_equal(
        make([chain(3, None)], 2 * CENTRE), Materialiser(SPACE)([chain(3, None)], 2 * CENTRE)
    )
    make([chain(3, None)], CENTRE)
    np.testing.assert_array_equal(
        make([chain(3, None)], 2 * CENTRE), Materialiser(SPACE)([chain(3, None)], 2 * CENTRE)
    )


def test_children_are_made_from_their_parents_in_any_order() -> None:
    lineage = Lineage((chain(4), chain(6, 1)))
    links = [Link(50, index, 0.2) for index in range(6)]
    children: list[Genome] = [Child(index % 2, link) for index, link in enumerate(links)]
    children.append(Child(1, None))
    rows = Materialiser(SPACE)(children, NOWHERE, lineage)
    whole = [lineage.whole(child) for child in children if isinstance(child, Child)]
    np.testing.assert_array_equal(rows, [Materialiser(SPACE)([genome], NOWHERE)[0] for genome in whole])
    assert whole[-1] == chain(6, 1)


def test_a_child_of_a_known_parent_costs_one_noise_vector(drawn: list[tuple[int, ...]]) -> None:
    lineage = Lineage((chain(30),))
    make = Materialiser(SPACE)
    make([Child(0, None)], NOWHERE, lineage)
    assert len(drawn) == 30
    drawn.clear()
    make([Child(0, Link(30, index, 0.1)) for index in range(8)], NOWHERE, lineage)
    assert drawn == [(7, 30, index) for index in range(8)]
    drawn.clear()
    following = SeedChain(7, 0, (*chain(30).links, Link(30, 2, 0.1)))
    make([Child(0, Link(31, 0, 0.1))], NOWHERE, Lineage((following,)))
    assert drawn == [(7, 30, 2), (7, 31, 0)], "its parent was a child of a known parent itself"


@pytest.mark.parametrize("links", [20, 999, 1000])
def test_a_worker_that_starts_cold_replays_less_than_twenty_links(
    links: int, drawn: list[tuple[int, ...]]
) -> None:
    published = keyframes([chain(links)], (), SPACE, NOWHERE)
    drawn.clear()
    Materialiser(SPACE)([chain(links)], NOWHERE, Lineage((), published))
    assert len(drawn) < 20


def test_keyframes_follow_from_those_before_and_lineages_share_them(drawn: list[tuple[int, ...]]) -> None:
    before = keyframes([chain(1000)], (), SPACE, NOWHERE)
    drawn.clear()
    siblings = [SeedChain(7, 0, (*chain(1009).links, Link(1009, index, 0.1))) for index in range(20)]
    after = keyframes(siblings, before, SPACE, NOWHERE)
    assert len(after) == 1
    assert len(drawn) == 10
    again = keyframes(siblings, (), SPACE, NOWHERE)
    assert encode(again[0]) == encode(after[0])


def test_memory_is_bounded_and_the_latest_stay() -> None:
    make = Materialiser(SPACE, remembered_bytes=4 * SPACE.size * 3)
    for number in range(10):
        make([chain(2, number)], NOWHERE)
    assert [made.chain.root for made in make.chains.kept.values()] == [7, 8, 9]
