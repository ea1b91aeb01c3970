"""Evaluation: a result depends on its candidate and its seeds, and on nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env, make
from rookery.genomes import Genome, LowRank, Materialiser, ParameterSpace, SignedSeed, Vector
from rookery.policies import LSTM, MLP, Actions, Elman, Impala, Moments, Nature, Network, Normaliser, cnn
from rookery.policies.virtual_batch import VirtualBatch
from rookery.rollout import evaluate, lane
from rookery.rollout.evaluate import Evaluator
from rookery.rollout.results import WORST, Candidate, Context, Result, Trial
from rookery.store.codec import encode

ECHO = Env(id="tests.environments:Echo")
PENDULUM = Env(id="Pendulum-v1", max_steps=40)
SNOW = Env(id="tests.environments:Snow")
FAULTY = "tests.environments:Faulty"

SETUPS: dict[str, tuple[Env, Network]] = {
    "mlp": (Env(id="CartPole-v1"), MLP(hidden=(8,))),
    "mlp, sampling": (Env(id="CartPole-v1"), MLP(hidden=(8,), action=Actions(sample=True))),
    "mlp, lander": (Env(id="LunarLander-v3", max_steps=150), MLP(hidden=(8, 8), output_scale=1.0)),
    "lstm, noise": (PENDULUM, LSTM(hidden=(6,), action=Actions(noise=0.3))),
    "nature": (SNOW, Nature(hidden=(16,), output_scale=1.0, action=Actions(sample=True))),
    "nature, virtual batch": (SNOW, Nature(hidden=(16,), output_scale=1.0, vbn=VirtualBatch(frames=8))),
    "impala": (SNOW, Impala(hidden=(8,), channels=(4, 4), output_scale=1.0)),
    "elman, gymnasium": (replace(PENDULUM, backend="gymnasium"), Elman(hidden=(6,))),
}


@contextmanager
def opened(env: Env, network: Network, threads: int = 1) -> Iterator[Evaluator]:
    evaluator = Evaluator(env, network, threads)
    try:
        yield evaluator
    finally:
        evaluator.close()


@pytest.fixture(params=SETUPS.values(), ids=SETUPS.keys())
def evaluator(request: pytest.FixtureRequest) -> Iterator[Evaluator]:
    with opened(*request.param) as made:
        yield made


def context(evaluator: Evaluator) -> Context:
    size = evaluator.policy.inputs
    moments = Moments(50, np.linspace(-5, 5, size), np.linspace(20, 60, size))
    return Context(evaluator.policy.space.initial(np.random.default_rng(0)), moments)


def trials(count: int = 20, episodes: int = 2, rank: int = 0) -> list[Trial]:
    """Mirrored pairs that explore, some of them watched, some with a limit."""

    def genome(index: int, sign: int) -> Genome:
        return LowRank(1, 0, index, sign, 1.0, rank) if rank else SignedSeed(1, 0, index, sign, 1.0)

    return [
        Trial(
            Candidate(n, genome(n // 2, 1 - 2 * (n % 2)), n // 2, (), 30 if n % 5 == 4 else None),
            tuple(range(100 + n // 2, 100 + n // 2 + episodes)),
            observe=n % 3 == 0,
            explore=(1, 0, n) if n % 4 else None,
        )
        for n in range(count)
    ]


def bits(results: Sequence[Result]) -> list[bytes]:
    return [encode(result) for result in results]


def one_by_one(evaluator: Evaluator, asked: list[Trial]) -> list[Result]:
    return [evaluator.evaluate(context(evaluator), [trial])[0] for trial in asked]


def reversed_(evaluator: Evaluator, asked: list[Trial]) -> list[Result]:
    return evaluator.evaluate(context(evaluator), asked[::-1])[::-1]


def between_others(evaluator: Evaluator, asked: list[Trial]) -> list[Result]:
    strangers = [
        Trial(Candidate(900 + n, _stranger(asked[0], n)), tuple(range(n, n + 1 + n % 3)))
        for n in range(len(asked))
    ]
    mixed = [trial for pair in zip(asked, strangers, strict=True) for trial in pair]
    return evaluator.evaluate(context(evaluator), mixed)[::2]


def _stranger(known: Trial, number: int) -> Genome:
    """Somebody else, of the same kind now and then."""
    genome = known.candidate.genome
    if isinstance(genome, LowRank) and number % 3:
        return LowRank(9, 9, number, 1, 2.0 * (number % 2), genome.rank)
    return SignedSeed(9, 9, number, 1, 2.0)


def with_two_threads(evaluator: Evaluator, asked: list[Trial]) -> list[Result]:
    with opened(evaluator.env, evaluator.policy.network, threads=2) as other:
        return other.evaluate(context(other), asked)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("way", [one_by_one, reversed_, between_others, with_two_threads])
def test_a_result_does_not_depend_on_the_batch(
    evaluator: Evaluator, way: Callable[[Evaluator, list[Trial]], list[Result]], rank: int
) -> None:
    asked = trials(rank=rank)
    together = evaluator.evaluate(context(evaluator), asked)
    assert [result.id for result in together] == list(range(20))
    assert len({result.returns for result in together}) > 3
    assert bits(way(evaluator, asked)) == bits(together)


@pytest.mark.parametrize(
    ("module", "constant", "value"),
    [
        (evaluate, "_PARAMETER_BYTES", 1),
        (evaluate, "_PARAMETER_BYTES", 3000),
        (evaluate, "_EPISODES_AT_ONCE", 7),
        (lane, "_COMPACT_BELOW", 0.0),
        (lane, "_COMPACT_BELOW", 1.0),
        (cnn, "_FRAMES_AT_ONCE", 1),
        (cnn, "_FRAMES_AT_ONCE", 100),
    ],
)
@pytest.mark.parametrize("rank", [0, 2])
def test_how_the_work_is_cut_up_changes_no_bit(
    evaluator: Evaluator, monkeypatch: pytest.MonkeyPatch, module: Any, constant: str, value: float, rank: int
) -> None:
    asked = trials(rank=rank)
    before = bits(evaluator.evaluate(context(evaluator), asked))
    monkeypatch.setattr(module, constant, value)
    assert bits(evaluator.evaluate(context(evaluator), asked)) == before


def episode(evaluator: Evaluator, vector: Any, seed: int, carry: Any = None) -> tuple[list[Any], list[float], Any]:
    """An episode played by hand: what was seen before each action, what it earned, and what was remembered."""
    policy, given = evaluator.policy, context(evaluator)
    views, scaling = evaluator.parameters([Vector(vector)], given.centre), policy.scaling(given.moments)
    batch, ids = make(evaluator.env, [seed]), np.zeros(1, np.int32)
    batch.reset()
    step = batch.receive()
    carry = policy.carry(1, 1, 1) if carry is None else carry
    seen, earned, over = [], [], False
    while not over:
        seen.append(step.observations[0].astype(np.float64))
        actions, carry = policy.act(views, step.observations[:, None, None], carry, scaling)
        batch.send(actions.reshape(1, *actions.shape[3:]), ids)
        step = batch.receive()
        earned.append(float(step.rewards[0]))
        over = bool(step.terminated[0] | step.truncated[0])
    batch.close()
    return seen, earned, carry


def test_results_are_those_of_episodes_played_by_hand(evaluator: Evaluator) -> None:
    genome = SignedSeed(3, 0, 0, 1, 1.0)
    given = context(evaluator)
    (vector,) = Materialiser(ParameterSpace.flat(given.centre.size))([genome], given.centre)
    asked = [Trial(Candidate(n, genome), (5, 6), observe=True) for n in range(4)]
    played = [episode(evaluator, vector, seed) for seed in (5, 6)]
    for result in evaluator.evaluate(given, asked):
        assert result.returns == tuple(sum(earned) for _, earned, _ in played)
        assert result.fitness == pytest.approx(np.mean(result.returns))
        assert result.signs == np.mean([np.sign(earned).sum() for _, earned, _ in played])
        assert result.lengths == tuple(len(earned) for _, earned, _ in played)
        if evaluator.policy.network.images:
            assert result.moments is None
            continue
        seen = np.array(played[0][0] + played[1][0])
        assert result.moments is not None
        assert result.moments.count == result.steps == len(seen)
        np.testing.assert_allclose(result.moments.total, seen.sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(result.moments.squares, np.square(seen).sum(axis=0), rtol=1e-12)
        mean, std = result.moments.statistics(floor=1e-6)
        np.testing.assert_allclose(mean, seen.mean(axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(std, np.maximum(seen.std(axis=0), 1e-6), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 3])
def test_sharing_products_changes_nothing_but_rounding(evaluator: Evaluator, rank: int) -> None:
    """What low-rank members put out is what their matrices, written out, put out."""
    given, shape = context(evaluator), evaluator.arena.spaces.observation
    genomes = [trial.candidate.genome for trial in trials(10, rank=rank)]
    rng = np.random.default_rng(0)
    seen = rng.integers(256, size=(10, 2, 1, *shape.shape)).astype(shape.dtype)
    seen = seen if evaluator.policy.network.images else seen / 256
    vectors = [Vector(row) for row in evaluator.materialise(genomes, given.centre)]
    carry = evaluator.policy.carry(10, 2, 1)
    outputs = [
        evaluator.policy.network.forward(evaluator.parameters(kind, given.centre), seen, carry)[0]
        for kind in (genomes, vectors)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-3, atol=1e-4 * np.abs(outputs[1]).max())


def test_only_what_is_watched_feeds_the_normaliser(evaluator: Evaluator) -> None:
    for trial, result in zip(trials(), evaluator.evaluate(context(evaluator), trials()), strict=True):
        assert (result.moments is not None) == (trial.observe and not evaluator.policy.network.images)


@pytest.mark.parametrize("network", [LSTM(hidden=(5, 4)), Elman(hidden=(5,))], ids=["lstm", "elman"])
def test_memory_is_reset_with_every_episode(network: Network) -> None:
    network = type(network)(hidden=network.hidden, output_scale=1.0, normaliser=None)
    with opened(ECHO, network) as evaluator:
        given = context(evaluator)
        genome = Vector(3 * given.centre)
        asked = [Trial(Candidate(0, genome), (5, 6, 5))]
        (first,) = evaluator.evaluate(given, asked)
        evaluator.evaluate(given, [Trial(Candidate(1, genome), (8, 9, 7)) for _ in range(10)])
        (second,) = evaluator.evaluate(given, asked)
        assert first.returns == second.returns
        assert first.returns[0] == first.returns[2]
        assert first.returns[0] != first.returns[1], "the memory of what was shown must be seen in what is earned"

        _, earned, remembered = episode(evaluator, genome.values, 5)
        assert sum(earned) == first.returns[0]
        _, leaked, _ = episode(evaluator, genome.values, 5, remembered)
        assert sum(leaked) != first.returns[0], "a memory that leaks must be seen in what is earned"


def test_episodes_at_the_candidates_limit_are_counted() -> None:
    with opened(PENDULUM, MLP(hidden=(4,))) as evaluator:
        limits = (None, 39, 40, 41, 1)
        genome = Vector(context(evaluator).centre)
        asked = [Trial(Candidate(n, genome, max_steps=limit), (1, 2)) for n, limit in enumerate(limits)]
        results = evaluator.evaluate(context(evaluator), asked)
        assert [result.lengths[0] for result in results] == [40, 39, 40, 40, 1]
        # The environment's own end is no cut, also where the limit lies at the same step.
        assert [result.limited for result in results] == [0, 2, 0, 0, 2]


@pytest.mark.parametrize(
    ("env", "network"),
    [
        (Env(id="CartPole-v1"), MLP(hidden=(4,), action=Actions(sample=True))),
        (PENDULUM, MLP(hidden=(4,), action=Actions(noise=0.5))),
        (PENDULUM, MLP(hidden=(4,), action=Actions(bins=5, sample=True))),
    ],
    ids=["sample", "noise", "bins"],
)
def test_exploring_differs_between_candidates_and_repeats_exactly(env: Env, network: Network) -> None:
    with opened(env, network) as evaluator:
        given = context(evaluator)
        genome = Vector(given.centre)
        asked = [Trial(Candidate(n, genome), (1, 1), explore=(4, 2, n)) for n in range(8)]
        still = [Trial(Candidate(n, genome), (1, 1)) for n in range(2)]
        results = evaluator.evaluate(given, [*asked, *still])
        assert len({result.returns for result in results[:8]}) > 4
        assert any(result.returns[0] != result.returns[1] for result in results[:8]), "each episode explores anew"
        assert results[8].returns == results[9].returns == results[8].returns[::-1]
        assert bits(evaluator.evaluate(given, asked)) == bits(results[:8])
        later = [replace(trial, explore=(4, 3, trial.candidate.id)) for trial in asked]
        assert bits(evaluator.evaluate(given, later)) != bits(results[:8])


@pytest.mark.parametrize(
    ("fault", "at", "said"),
    [
        ("raise", 3, r"RuntimeError: the wheel came off \(at step 3\)"),
        ("raise", 0, r"RuntimeError: the wheel came off \(at step 0\)"),
        ("reward", 3, r"rewards?\b.* nan"),
        ("observation", 3, r"the observation was not finite \(at step 3\)"),
        ("observation", 0, r"the observation was not finite \(at step 0\)"),
        ("infinite", 3, r"the observation was not finite \(at step 3\)"),
    ],
)
@pytest.mark.parametrize(
    "network",
    [MLP(hidden=(4,)), MLP(hidden=(4,), normaliser=None), LSTM(hidden=(4,))],
    ids=["mlp", "mlp without normaliser", "lstm"],
)
def test_an_episode_that_breaks_fails_its_candidate_and_no_other(
    network: Network, fault: str, at: int, said: str
) -> None:
    """Seeds that are a multiple of 5 break: those of candidates 0 and 5, and one episode of candidate 3."""
    seeds = {number: (number, 5 * number + 1) for number in range(7)} | {3: (3, 10)}

    def results(every: int) -> list[Result]:
        env = Env(id=FAULTY, options={"fault": fault, "at": at, "every": every})
        with opened(env, network) as evaluator:
            genome: Genome = SignedSeed(1, 0, 0, 1, 1.0)
            asked = [Trial(Candidate(n, genome), own, observe=True, explore=(0, 0, n)) for n, own in seeds.items()]
            return evaluator.evaluate(context(evaluator), asked)

    broken, healthy = results(5), results(10**9)
    for number, result in enumerate(broken):
        if number not in (0, 3, 5):
            assert encode(result) == encode(healthy[number])
            continue
        seed = 10 if number == 3 else number
        assert re.match(f"candidate {number}, environment seed {seed}: .*{said}", str(result.error))
        assert result.failed
        assert (result.fitness, result.signs, result.moments) == (WORST, WORST, None)


def test_normalising_is_left_to_the_policy() -> None:
    """Moments that nobody uses change nothing; moments that are used do."""
    env = Env(id="CartPole-v1")
    for normaliser, same in ((None, True), (Normaliser(), False)):
        with opened(env, MLP(hidden=(8,), normaliser=normaliser)) as evaluator:
            given = context(evaluator)
            results = [
                evaluator.evaluate(replace(given, moments=moments), trials(4)) for moments in (given.moments, None)
            ]
            assert (bits(results[0]) == bits(results[1])) is same
