"""The Mann-Whitney test, beside what can be counted by hand and what SciPy says."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from rookery.significance import mann_whitney


def test_two_samples_that_do_not_overlap() -> None:
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert mann_whitney([1], [2]) == 1.0
    assert mann_whitney([3, 3, 3], [3, 3]) == 1.0


@pytest.mark.parametrize("sizes", [(5, 5), (3, 8), (20, 20)])
def test_without_ties_it_is_scipys_exact_value(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.5, 2.0):
        one, other = rng.normal(size=sizes[0]), rng.normal(shift, size=sizes[1])
        expected = mannwhitneyu(one, other, method="exact").pvalue
        assert mann_whitney(one, other) == pytest.approx(expected)
        assert mann_whitney(other, one) == pytest.approx(expected)


def test_with_ties_it_counts_every_division() -> None:
    values = [1, 1, 2, 2, 2, 3, 4, 4]
    ranks = [1.5, 1.5, 4, 4, 4, 6, 7.5, 7.5]
    chosen = (0, 1, 2, 5)
    sums = [sum(ranks[i] for i in subset) for subset in combinations(range(8), 4)]
    far = abs(sum(ranks[i] for i in chosen) - 18)
    expected = np.mean([abs(total - 18) >= far for total in sums])
    one, other = [values[i] for i in chosen], [values[i] for i in range(8) if i not in chosen]
    assert mann_whitney(one, other) == pytest.approx(expected)
