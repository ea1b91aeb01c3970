"""Random streams: the same key gives the same numbers for ever, and no two keys share any."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from rookery.streams import SEED_LIMIT, seeds, stream

KEYS = [
    (0, "noise", 0, 0),
    (1, "noise", 0, 0),
    (0, "observe", 0, 0),
    (0, "noise", 1, 0),
    (0, "noise", 0, 1),
    (0, "noise", 1, 1),
    (0, "noise", 0, -1),
    (2**63, "noise", 0, 0),
]


def test_a_key_names_the_same_numbers_today_and_tomorrow() -> None:
    # A genome in a checkpoint is such a key: were these to change, old runs would mean something else.
    assert stream(7, "noise", 3, 2).integers(1000, size=5).tolist() == [539, 454, 61, 903, 665]
    assert seeds(7, "training", 3, 2, 3) == (1254710546, 1841374106, 1367424633)


def test_every_part_of_the_key_matters_and_streams_do_not_overlap() -> None:
    drawn = [set(stream(*key).integers(2**63, size=2000).tolist()) for key in KEYS]
    assert all(not one & other for one, other in combinations(drawn, 2))


def test_seeds_are_what_environments_take() -> None:
    many = seeds(3, "training", 0, 0, 1000)
    assert len(set(many)) == 1000
    assert all(type(seed) is int and 0 <= seed < SEED_LIMIT for seed in many)
    assert many[:10] == seeds(3, "training", 0, 0, 10)


def test_streams_are_normal_enough() -> None:
    firsts = np.array([stream(0, "noise", 0, index).standard_normal() for index in range(5000)])
    assert abs(firsts.mean()) < 0.05
    assert abs(firsts.std() - 1) < 0.05
