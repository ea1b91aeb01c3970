"""Low-rank noise: as full noise in expectation, and products that are shared without a bit of difference."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rookery.genomes import LowRank, Materialiser, Parameter, ParameterSpace
from rookery.genomes.low_rank import FullNoise, LowRankNoise, Perturbed

SPACE = ParameterSpace((Parameter("w", (7, 5), 1.0), Parameter("b", (5,)), Parameter("tiny", (2, 2), 1.0)))
DRAWS = 20_000
every_rank = pytest.mark.parametrize("rank", [1, 2])


def draws(noises: LowRankNoise | FullNoise, count: int) -> NDArray[np.float32]:
    return np.stack([noises.draw(3, 0, index) for index in range(count)])


@every_rank
def test_noise_has_mean_zero_and_the_identity_as_its_covariance(rank: int) -> None:
    noises = LowRankNoise(SPACE.matrices, rank)
    whole = np.stack([noises.dense(drawn) for drawn in draws(noises, DRAWS)])
    assert np.abs(whole.mean(axis=0)).max() < 5 / np.sqrt(DRAWS)
    # The square of a product of two normal numbers varies four times as much as that of one.
    assert np.abs(np.cov(whole.T) - np.eye(SPACE.size)).max() < 5 * np.sqrt(8 / DRAWS)


@every_rank
def test_a_matrix_has_the_rank_and_what_is_no_matrix_or_too_small_has_full_noise(rank: int) -> None:
    noises = LowRankNoise(SPACE.matrices, rank)
    assert noises.size == rank * (7 + 5) + 5 + 4
    views = SPACE.split(noises.dense(noises.draw(0, 0, 0)))
    assert np.linalg.matrix_rank(views["w"]) == rank
    assert np.linalg.matrix_rank(views["tiny"]) == 2


@every_rank
def test_a_weighted_sum_is_that_of_the_noise_written_out(rank: int) -> None:
    noises = LowRankNoise(SPACE.matrices, rank)
    drawn, weights = draws(noises, 30), np.linspace(-1, 1, 30, dtype=np.float32)
    total = np.ones(SPACE.size, np.float32)
    noises.add_weighted(total, weights, drawn)
    expected = 1 + weights @ np.stack([noises.dense(row) for row in drawn])
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("curvature", [0.0, 0.3], ids=["linear", "quadratic"])
def test_the_expected_update_is_that_of_full_noise(curvature: float) -> None:
    """Both estimate the gradient, which is known here: the sum of fitness * noise over mirrored pairs."""
    slope, at = np.linspace(-1, 2, SPACE.size), np.linspace(1, -1, SPACE.size)

    def fitness(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x @ slope - curvature * np.square(x).sum(axis=-1)

    truth = slope - 2 * curvature * at
    for noises in (FullNoise(SPACE.size), LowRankNoise(SPACE.matrices, 1), LowRankNoise(SPACE.matrices, 2)):
        drawn = draws(noises, DRAWS)
        whole = drawn if isinstance(noises, FullNoise) else np.stack([noises.dense(row) for row in drawn])
        weights = (fitness(at + 0.1 * whole) - fitness(at - 0.1 * whole)) / 0.2
        estimate = np.zeros(SPACE.size, np.float32)
        noises.add_weighted(estimate, (weights / DRAWS).astype(np.float32), drawn)
        assert np.abs(estimate - truth).max() < 6 * np.linalg.norm(truth) / np.sqrt(DRAWS)


def test_a_low_rank_genome_is_noise_on_the_centre() -> None:
    centre = np.linspace(-1, 1, SPACE.size, dtype=np.float32)
    noises = LowRankNoise(SPACE.matrices, 2)
    plus, minus, still = Materialiser(SPACE)([LowRank(7, 3, 2, s, 0.25 * abs(s), 2) for s in (1, -1, 0)], centre)
    drawn = noises.dense(noises.draw(7, 3, 2))
    np.testing.assert_allclose(plus, centre + 0.25 * drawn, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(minus, centre - 0.25 * drawn, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(still, centre)


@pytest.mark.parametrize(("rows", "columns"), [(4, 16), (17, 33), (64, 64), (256, 32), (1000, 7), (3136, 512)])
def test_a_row_of_a_shared_product_does_not_depend_on_where_it_stands(rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    shared, left, right = (
        rng.standard_normal(s, np.float32) for s in ((rows, columns), (40, 1, rows, 1), (40, 1, 1, columns))
    )
    matrices, x = Perturbed(shared, left, right, (columns,)), rng.standard_normal((40, 2, 1, rows), np.float32)
    whole = x @ matrices
    np.testing.assert_allclose(whole, x @ (shared + left @ right), rtol=1e-3, atol=1e-3 * np.sqrt(rows))
    for members in ([0], [17], [39, 3, 8], list(range(39, 0, -1))):
        assert (x[members] @ matrices[members]).tobytes() == whole[members].tobytes()


def test_perturbed_matrices_are_for_products_only() -> None:
    shared = np.zeros((4, 6), np.float32)
    matrices = Perturbed(shared, np.zeros((3, 4, 1), np.float32), np.zeros((3, 1, 6), np.float32), (2, 3))
    assert matrices.shape == (3, 4, 2, 3)
    assert matrices.reshape(3, 4, 6).shape == (3, 4, 6)
    with pytest.raises(ValueError, match="only its columns can be arranged anew"):
        matrices.reshape(12, 6)
    with pytest.raises(TypeError):
        shared + matrices
