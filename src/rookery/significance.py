"""Whether two small samples differ by more than chance: the Mann-Whitney U test, exact also where values tie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """The two-sided p-value: how often a random division of all values is at least as uneven as this one.

    Nothing is approximated: all divisions are counted, by the sum of ranks that they give to `one`.
    """
    values = np.array([*one, *other])
    ordered = np.sort(values)
    # Equal values share the mean of their ranks; twice that is a whole number.
    ranks = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1
    ways = np.zeros((len(one) + 1, int(ranks.sum()) + 1))  # of choosing so many values with such a sum
    ways[0, 0] = 1
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    chosen = ways[-1]
    expected = len(one) * (len(values) + 1)
    deviations = np.abs(np.arange(len(chosen)) - expected)
    measured = abs(int(ranks[: len(one)].sum()) - expected)
    return float(chosen[deviations >= measured].sum() / chosen.sum())
