"""One generation: which episodes candidates get, what feeds the normaliser, and what is remembered of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rookery.envs import Env
from rookery.evolution.generation import (
    CHAMPION,
    Plan,
    Progress,
    Score,
    absorb,
    fresh_episodes,
    judge,
    plan,
    score,
)
from rookery.experiment import Experiment, override_experiment
from rookery.genomes import ParameterSpace
from rookery.policies import Moments
from rookery.rollout.results import WORST, Result
from rookery.store.codec import decode, encode

SPACE = ParameterSpace.flat(4)


def prepared(*overrides: str, normalised: bool = True) -> tuple[Experiment, Progress]:
    plain = Experiment(env=Env(id="CartPole-v1"))
    experiment = override_experiment(plain, ["population=6", *overrides], Experiment.__struct_fields__)
    state = experiment.algorithm.init(experiment.seed, SPACE)
    return experiment, Progress(0, 0, 0, state, Moments.empty(3) if normalised else None)


def answers(planned: Plan, **changes: Any) -> list[Result]:
    return [
        Result(
            **{
                "id": trial.candidate.id,
                "fitness": float(number),
                "returns": (float(number),) * len(trial.seeds),
                "lengths": (10,) * len(trial.seeds),
                "moments": Moments(10, np.full(3, number + 1.0), np.full(3, 2.0)) if trial.observe else None,
                **changes,
            }
        )
        for number, trial in enumerate([*planned.candidates, *planned.champion])
    ]


def seeds_of_generations(count: int, *overrides: str) -> list[list[tuple[int, ...]]]:
    experiment, progress = prepared(*overrides)
    found = []
    for _ in range(count):
        planned = plan(experiment, progress)
        found.append([trial.seeds for trial in planned.candidates])
        progress = absorb(experiment, progress, planned, answers(planned))
    return found


def test_by_default_a_generation_shares_its_seeds_and_the_next_one_has_others() -> None:
    one, two = seeds_of_generations(2, "evaluation.episodes=3")
    assert len(set(one)) == len(set(two)) == 1
    assert len(set(one[0] + two[0])) == 6


def test_a_mirrored_pair_can_have_seeds_of_its_own() -> None:
    one, two = seeds_of_generations(2, "seeding=pair", "evaluation.episodes=2")
    assert one[0::2] == one[1::2]
    assert len({seed for pair in one + two for seed in pair}) == 12


def test_fixed_seeds_stay_whether_given_or_drawn() -> None:
    one, two = seeds_of_generations(2, "seeding=fixed", "evaluation.episodes=2")
    assert one == two
    assert len(set(one)) == 1
    one, two = seeds_of_generations(2, "seeding=fixed", "evaluation.episodes=2", "evaluation.seeds=[7, 9]")
    assert one == two == [(7, 9)] * 6


def test_another_run_has_other_seeds_and_the_same_run_the_same() -> None:
    assert seeds_of_generations(1) == seeds_of_generations(1)
    assert seeds_of_generations(1) != seeds_of_generations(1, "seed=1")


@pytest.mark.parametrize(("share", "count"), [(0, 0), (0.01, 1), (0.5, 3), (1, 6)])
def test_the_champion_gets_its_share_of_episodes_without_noise_or_limit(share: float, count: int) -> None:
    experiment, progress = prepared(
        f"champion_share={share}", "evaluation.episodes=2", "algorithm.step_limit={start: 5}", "action.sample=true"
    )
    planned = plan(experiment, progress)
    assert len(planned.champion) == count
    assert all(trial.candidate.max_steps == 5 and trial.explore for trial in planned.candidates)
    for trial in planned.champion:
        assert trial.candidate.id == CHAMPION
        assert trial.candidate.max_steps is None
        assert trial.explore is None
        assert not trial.observe
    seeds = [seed for trial in planned.champion for seed in trial.seeds]
    assert len(set(seeds)) == len(seeds) == 2 * count
    assert not set(seeds) & set(planned.candidates[0].seeds)


@pytest.mark.parametrize(("share", "low", "high"), [(1.0, 300, 300), (0.3, 60, 120)])
def test_a_share_of_the_rollouts_feeds_the_normaliser(share: float, low: int, high: int) -> None:
    experiment, progress = prepared("population=300", f"normaliser.share={share}")
    planned = plan(experiment, progress)
    watched = [trial.candidate.id for trial in planned.candidates if trial.observe]
    assert low <= len(watched) <= high
    after = absorb(experiment, progress, planned, answers(planned))
    assert after.moments is not None
    assert after.moments.count == 10 * len(watched)
    np.testing.assert_array_equal(after.moments.total, np.full(3, sum(number + 1.0 for number in watched)))


def test_without_a_normaliser_nothing_is_watched() -> None:
    experiment, progress = prepared("policy.normaliser=null", normalised=False)
    planned = plan(experiment, progress)
    assert not any(trial.observe for trial in planned.candidates)
    assert absorb(experiment, progress, planned, answers(planned)).moments is None


def test_everything_that_was_played_is_counted_and_progress_survives_the_disk() -> None:
    experiment, progress = prepared("champion_share=0.5", "evaluation.episodes=2")
    planned = plan(experiment, progress)
    after = absorb(experiment, progress, planned, answers(planned))
    assert (after.generation, after.episodes, after.steps) == (1, 18, 180)
    loaded = decode(encode(after), Progress)
    assert encode(loaded) == encode(after)
    ahead = [plan(experiment, state) for state in (after, loaded)]
    assert encode(ahead[0].strategy) == encode(ahead[1].strategy)
    assert [encode(trial) for trial in ahead[0].candidates] == [encode(trial) for trial in ahead[1].candidates]


@pytest.mark.parametrize("episodes", [1, 7, 8, 100, 101])
def test_fresh_episodes_are_as_many_as_asked_for_and_belong_to_their_purpose(episodes: int) -> None:
    experiment, progress = prepared()

    def drawn(purpose: str, number: int) -> list[int]:
        _, trials = fresh_episodes(experiment, progress, purpose, number, episodes)
        assert all(trial.explore is None and trial.candidate.id == CHAMPION for trial in trials)
        return [seed for trial in trials for seed in trial.seeds]

    one = drawn("evaluate", 0)
    assert len(set(one)) == len(one) == episodes
    assert one == drawn("evaluate", 0)
    assert not set(one) & {*drawn("evaluate", 1), *drawn("validation", 0)}


def test_a_score_is_in_the_rewards_of_the_environment() -> None:
    _, progress = prepared()
    results = [Result(id=CHAMPION, fitness=0, returns=returns) for returns in ((1.0, 3.0), (5.0, 7.0))]
    measured = score(progress, results, 0.5)
    assert (measured.mean, measured.episodes) == (8.0, 4)
    assert measured.std == pytest.approx(np.std([2, 6, 10, 14]))
    assert measured.sure == pytest.approx(8 - measured.std / 2)


def test_the_best_is_the_one_that_chance_explains_least() -> None:
    _, progress = prepared()
    steady, lucky, better = Score(0, 0, 10, 1, 100), Score(1, 0, 11, 50, 100), Score(2, 0, 12, 1, 100)
    for measured, best, holder in ((steady, True, steady), (lucky, False, steady), (better, True, better)):
        progress, is_best = judge(progress, measured)
        assert is_best is best
        assert (progress.best, progress.validated) == (holder, measured)


@pytest.mark.parametrize("earned", [float("nan"), 1e9], ids=["nan", "until it broke"])
def test_a_validation_in_which_an_episode_broke_is_no_record_for_ever(earned: float) -> None:
    """What a broken episode earned until then counts for nothing, and a later and better champion is the best."""
    _, progress = prepared()
    whole = Result(id=CHAMPION, fitness=5.0, returns=(5.0, 5.0))
    broken = Result(id=CHAMPION, fitness=WORST, returns=(earned, 5.0), error="it broke")
    progress, _ = judge(progress, score(progress, [whole, broken], 1.0))
    assert progress.validated is not None
    assert progress.validated.mean <= 5.0
    better = replace(whole, returns=(9.0, 9.0))
    progress, best = judge(progress, score(progress, [better, better], 1.0))
    assert best
