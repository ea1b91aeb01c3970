"""States on disk: what goes in comes out, and nothing else ever does."""

from __future__ import annotations

from math import inf, isnan, nan

import msgspec
import numpy as np
import pytest

from rookery.evolution import ES, ESState
from rookery.evolution.generation import Progress
from rookery.genomes import ParameterSpace, SignedSeed, Vector
from rookery.policies import Moments
from rookery.rollout.results import Candidate, Result, Trial
from rookery.store.codec import VERSION, DamagedError, decode, encode


class Everything(msgspec.Struct, frozen=True, eq=False):
    text: str
    number: int
    wide: float
    none: Moments | None
    some: Moments | None
    nothing: np.ndarray
    scalar: np.ndarray
    ints: np.ndarray
    strided: np.ndarray
    many: tuple[Vector | SignedSeed, ...] = ()
    by_name: dict[str, float] = {}


def everything() -> Everything:
    return Everything(
        text="ein Rabe: 🐦‍⬛ $array",
        number=-(2**63),
        wide=-inf,
        none=None,
        some=Moments(3, np.array([nan, inf, -0.0]), np.zeros(0)),
        nothing=np.zeros((0, 4), np.float32),
        scalar=np.array(7.5),
        ints=np.arange(5, dtype=np.int32),
        strided=np.arange(12, dtype=np.float32).reshape(3, 4).T[::2],
        many=(Vector(np.ones(2, np.float32)), SignedSeed(1, 2, 3, -1, 0.1)),
        by_name={"$array": 1.0, "b": inf},
    )


def small() -> bytes:
    return encode(Vector(np.arange(3, dtype=np.float32)))


def test_what_goes_in_comes_out() -> None:
    before = everything()
    after = decode(encode(before), Everything)
    for name in ("text", "number", "wide", "none", "by_name"):
        assert getattr(after, name) == getattr(before, name)
    for name in ("nothing", "scalar", "ints", "strided"):
        one, other = getattr(before, name), getattr(after, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    assert after.some is not None
    assert isnan(after.some.total[0])
    assert np.signbit(after.some.total[2])
    np.testing.assert_array_equal(after.many[0].values, [1, 1])
    assert after.many[1] == before.many[1]


def test_results_and_trials_come_out() -> None:
    result = Result(id=-1, fitness=-inf, signs=-inf, returns=(nan,), lengths=(0,), error="it broke")
    loaded = decode(encode(result), Result)
    assert loaded.failed
    assert (loaded.fitness, loaded.error, loaded.moments) == (-inf, "it broke", None)
    trial = Trial(Candidate(3, SignedSeed(1, 2, 3, -1, 0.5), 1, (2, 4), 9), (5, 6), explore=(1, 2, 3))
    back = decode(encode(trial), Trial)
    assert back.candidate.genome == trial.candidate.genome
    assert (back.candidate.parents, back.explore) == ((2, 4), (1, 2, 3))


def test_equal_structs_give_equal_bytes() -> None:
    assert len({encode(everything()) for _ in range(5)}) == 1
    once = encode(everything())
    assert encode(decode(once, Everything)) == once


def test_what_was_loaded_goes_on_like_what_was_saved() -> None:
    strategy = ES(population=2)
    state = strategy.init(0, ParameterSpace.flat(3))
    loaded = decode(encode(Progress(0, 0, 0, state, None)), Progress).strategy
    asked = [strategy.ask(one) for one in (state, loaded)]
    results = [Result(id=candidate.id, fitness=float(candidate.id)) for candidate in asked[0][1]]
    assert encode(strategy.tell(asked[0][0], results)) == encode(strategy.tell(asked[1][0], results))


def test_every_damaged_byte_is_noticed() -> None:
    data = small()
    for place in range(len(data)):
        for damage in (*(1 << bit for bit in range(8)), 0xFF):
            broken = bytearray(data)
            broken[place] ^= damage
            with pytest.raises(DamagedError):
                decode(bytes(broken), Vector)


def test_every_lost_end_is_noticed() -> None:
    data = small()
    for length in range(len(data)):
        with pytest.raises(DamagedError):
            decode(data[:length], Vector)
    with pytest.raises(DamagedError):
        decode(data + b"\0", Vector)


@pytest.mark.parametrize("seed", range(200))
def test_garbage_is_damage_and_nothing_worse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(small())
    for _ in range(int(rng.integers(2, 20))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    with pytest.raises(DamagedError):
        decode(bytes(data), Vector)


@pytest.mark.parametrize("kind", [ESState, Result, Moments, SignedSeed, Progress])
def test_another_kind_of_content_is_damage_too(kind: type) -> None:
    with pytest.raises(DamagedError):
        decode(small(), kind)
    with pytest.raises(DamagedError):
        decode(encode(SignedSeed(1, 2, 3, 1, 0.1)), Vector)


class Numbers(msgspec.Struct):
    values: int


class Lists(msgspec.Struct, tag="vector"):
    values: list[float]


def test_an_array_where_none_belongs_and_none_where_one_belongs_is_damage() -> None:
    with pytest.raises(DamagedError):
        decode(encode(Moments(1, np.zeros(1), np.zeros(1))), Numbers)
    with pytest.raises(DamagedError):
        decode(encode(Lists([1.0])), Vector)


def test_a_newer_format_is_refused_as_such() -> None:
    data = small()
    newer = data.replace(f'"{VERSION} '.encode(), f'"{VERSION + 1} '.encode(), 1)
    assert newer != data
    with pytest.raises(DamagedError, match=f"written by a newer version .format {VERSION + 1}, this one reads"):
        decode(newer, Vector)


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="cannot store a Generator"):
        encode({"rng": np.random.default_rng(0)})
