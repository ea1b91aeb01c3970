"""How a copy's hyperparameters change."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.evolution.explore import (
    Explore,
    Keep,
    Perturb,
    Polynomial,
    Resample,
    Triangular,
    Uniform,
    draw,
    within,
)
from rookery.settings import Range

LR = Range(low=1e-5, high=1e-2, scale="log")
SHARE = Range(low=-1.0, high=3.0)
WHOLE = Range(low=2, high=9, integer=True)
RULES: list[Explore] = [Perturb(), Resample(), Triangular(), Uniform(), Polynomial(), Polynomial(eta=1), Keep()]


def changed(rule: Explore, value: float, gene: Range, count: int = 2000) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.array([rule.change(value, gene, rng) for _ in range(count)])


@pytest.mark.parametrize("gene", [LR, SHARE, WHOLE], ids=["log", "linear", "whole"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_comes_of_it_lies_in_its_range(rule: Explore, gene: Range) -> None:
    rng = np.random.default_rng(0)
    for start in (gene.low, gene.high, gene.middle):
        value = float(start)
        for _ in range(300):
            value = within(rule.change(value, gene, rng), gene)
            assert gene.low <= value <= gene.high
            assert not gene.integer or value == int(value)


def test_a_draw_is_even_by_difference_or_by_ratio() -> None:
    rng = np.random.default_rng(0)
    decades = np.log10([draw(LR, rng) for _ in range(4000)])
    assert np.histogram(decades, bins=3, range=(-5, -2))[0] == pytest.approx([1333] * 3, rel=0.1)
    plain = [draw(SHARE, rng) for _ in range(4000)]
    assert np.histogram(plain, bins=4, range=(-1, 3))[0] == pytest.approx([1000] * 4, rel=0.12)
    assert {draw(WHOLE, rng) for _ in range(400)} == set(range(2, 10))


def test_perturb_multiplies_by_one_of_two_factors_or_draws_anew() -> None:
    found = changed(Perturb(), 1e-3, LR)
    kept = np.isclose(found, 0.8e-3) | np.isclose(found, 1.2e-3)
    assert 1 - kept.mean() == pytest.approx(0.25, abs=0.03)
    assert np.isclose(found[kept], 1.2e-3).mean() == pytest.approx(0.5, abs=0.04)
    assert set(changed(Perturb(resample=0.0, down=0.5, up=2.0), 1.0, SHARE)) == {0.5, 2.0}


def test_triangular_and_uniform_factors_have_their_distributions() -> None:
    factors = changed(Triangular(), 1.0, SHARE)
    assert factors.min() >= 0.9
    assert factors.max() <= 1.2
    assert factors.mean() == pytest.approx((0.9 + 0.95 + 1.2) / 3, abs=0.005)
    even = changed(Uniform(), 2.0, SHARE)
    assert (even.min(), even.max()) == (pytest.approx(1.8, abs=0.01), pytest.approx(2.2, abs=0.01))
    with pytest.raises(ValueError, match="low <= mode <= high"):
        Triangular(low=1.0, mode=0.5, high=2.0)


def test_polynomial_steps_are_small_where_eta_is_great_and_symmetric_in_the_middle() -> None:
    wide, narrow = (np.log(changed(Polynomial(eta=eta), LR.middle, LR) / LR.middle) for eta in (2, 50))
    assert np.abs(narrow).mean() < 0.1 * np.abs(wide).mean() * 2
    assert abs(wide.mean()) < 0.05 * np.ptp(wide)
    found = changed(Polynomial(eta=0), LR.low, LR)
    assert found.min() == pytest.approx(LR.low)
    assert found.max() <= LR.high * (1 + 1e-9)


def test_keep_keeps_and_resample_forgets() -> None:
    assert set(changed(Keep(), 0.123, SHARE)) == {0.123}
    assert (changed(Resample(), LR.low, LR) == changed(Resample(), LR.high, LR)).all()


def test_within_is_the_nearest_that_is_allowed() -> None:
    assert [within(value, LR) for value in (1.0, 1e-9, 2e-3)] == [1e-2, 1e-5, 2e-3]
    assert [within(value, WHOLE) for value in (3.4, 3.6, 100.0)] == [3.0, 4.0, 9.0]
