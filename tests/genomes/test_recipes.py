"""Recipes: what a worker makes of a genome, and that it makes the same wherever it is."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.genomes import Materialiser, Parameter, ParameterSpace, SignedSeed, Vector
from rookery.genomes.recipes import noise

CENTRE = np.linspace(-1, 1, 50, dtype=np.float32)
materialise = Materialiser(ParameterSpace.flat(50))


def test_a_signed_seed_is_noise_on_the_centre_and_its_mirror_image_is_the_other_side() -> None:
    plus, minus = materialise([SignedSeed(7, 3, 2, sign, 0.25) for sign in (1, -1)], CENTRE)
    drawn = noise(7, 3, 2, CENTRE.size)
    np.testing.assert_allclose(plus, CENTRE + 0.25 * drawn, rtol=1e-6)
    np.testing.assert_allclose(minus, CENTRE - 0.25 * drawn, rtol=1e-6)


def test_a_vector_is_itself() -> None:
    values = np.arange(50, dtype=np.float32)
    (row,) = materialise([Vector(values)], CENTRE)
    np.testing.assert_array_equal(row, values)
    row[:] = 0
    assert values[1] == 1, "whoever materialises must not share memory with the genome"


def test_a_genome_does_not_depend_on_its_neighbours() -> None:
    genomes = [
        SignedSeed(1, 0, 0, 1, 0.1),
        SignedSeed(1, 0, 0, -1, 0.1),
        Vector(2 * CENTRE),
        SignedSeed(1, 0, 0, 1, 0.1),
        SignedSeed(1, 0, 1, 1, 0.1),
        SignedSeed(1, 1, 0, 1, 0.1),
        SignedSeed(2, 0, 0, 1, 0.1),
    ]
    together = materialise(genomes, CENTRE)
    np.testing.assert_array_equal(together[::-1], materialise(genomes[::-1], CENTRE))
    for genome, row in zip(genomes, together, strict=True):
        np.testing.assert_array_equal(materialise([genome], CENTRE)[0], row)
    assert len(np.unique(together, axis=0)) == len(genomes) - 1


def test_nothing_is_materialised_from_nothing() -> None:
    assert materialise([], CENTRE).shape == (0, 50)


def test_noise_is_standard_normal_and_belongs_to_its_name() -> None:
    drawn = noise(0, 0, 0, 100_000)
    assert drawn.dtype == np.float32
    assert drawn.mean() == pytest.approx(0, abs=0.02)
    assert drawn.std() == pytest.approx(1, abs=0.02)
    others = [noise(*name, 100_000) for name in ((1, 0, 0), (0, 1, 0), (0, 0, 1))]
    assert np.abs(np.corrcoef([drawn, *others]) - np.eye(4)).max() < 0.02


def test_a_space_splits_vectors_with_any_leading_axes() -> None:
    space = ParameterSpace((Parameter("w", (2, 3)), Parameter("b", (3,))))
    vectors = np.arange(4 * 5 * 9, dtype=np.float32).reshape(4, 5, 9)
    views = space.split(vectors)
    assert space.size == 9
    assert views["w"].shape == (4, 5, 2, 3)
    np.testing.assert_array_equal(views["w"][3, 4], vectors[3, 4, :6].reshape(2, 3))
    np.testing.assert_array_equal(views["b"][3, 4], vectors[3, 4, 6:])
