"""TensorBoard reads back what a run did, and nothing that was superseded."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rookery.observers.events import Generation, MemberRow, Notice, Population, Started, Validated
from rookery.observers.tensorboard import TensorBoard


def sitting(directory: Path, first: int, last: int, score: float) -> TensorBoard:
    board = TensorBoard(directory)
    board.on(
        Started(
            time=1.0,
            seconds=0,
            name="r",
            directory="runs/r",
            generation=first,
            steps=first * 100,
            version="1",
        )
    )
    for number in range(first + 1, last + 1):
        board.on(
            Generation(
                time=1.0 + number,
                seconds=number,
                generation=number,
                steps=number * 100,
                episodes=8,
                fitness_min=-1,
                fitness_mean=0.5,
                fitness_max=2,
                score=score if number % 2 else None,
                episode_length=10,
                steps_per_second=100,
                times={"ask": 0.1, "evaluate": 0.2, "tell": 0.3},
                telemetry={"gradient_norm": 0.25},
            )
        )
    at = {"time": 1.0, "seconds": 1.0, "generation": last, "steps": last * 100}
    board.on(Validated(**at, score=score, std=1, episodes=10, best=True))  # type: ignore[arg-type]
    board.on(Notice(time=1.0, seconds=1.0, message="nothing to plot"))
    return board


def points(directory: Path, tag: str) -> list[tuple[int, float]]:
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


def test_every_number_has_its_tag(tmp_path: Path) -> None:
    watched = sitting(tmp_path / "tb", 0, 3, score=7.0)
    accumulator = EventAccumulator(str(tmp_path / "tb"))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == {
        "fitness/min",
        "fitness/mean",
        "fitness/max",
        "score/champion",
        "score/validated",
        "time/ask",
        "time/evaluate",
        "time/tell",
        "steps_per_second",
        "episode_length",
        "failed",
        "generation",
        "algorithm/gradient_norm",
    }
    assert points(tmp_path / "tb", "score/champion") == [(100, 7.0), (300, 7.0)]
    assert points(tmp_path / "tb", "score/validated") == [(300, 7.0)]
    assert points(tmp_path / "tb", "generation") == [(100, 1.0), (200, 2.0), (300, 3.0)]
    watched.close()


@pytest.mark.parametrize("torn", [0, 7])
def test_a_resumed_run_hides_the_points_it_does_again(tmp_path: Path, torn: int) -> None:
    sitting(tmp_path, 0, 9, score=1.0).close()
    (killed,) = tmp_path.iterdir()
    killed.write_bytes(killed.read_bytes()[: -torn or None])
    sitting(tmp_path, 4, 6, score=2.0).close()
    assert [step for step, _ in points(tmp_path, "generation")] == [100, 200, 300, 400, 500, 600]
    assert points(tmp_path, "score/champion") == [(100, 1.0), (300, 1.0), (500, 2.0)]
    assert points(tmp_path, "score/validated") == [(600, 2.0)]


def test_more_than_nine_sittings_stay_in_order(tmp_path: Path) -> None:
    for first in range(12):
        sitting(tmp_path, first, first + 3, score=float(first)).close()
    assert points(tmp_path, "generation") == [(100 * n, float(n)) for n in range(1, 15)]


def test_members_have_curves_of_their_scores_and_of_what_varies(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    for generation, rates in ((1, (0.1, 0.2)), (2, (0.4, 0.4))):
        rows = tuple(
            MemberRow(
                id=number, score=number + 10.0 * generation, steps=1, hyperparameters={"lr": lr, "gamma": 0.99}
            )
            for number, lr in enumerate(rates)
        )
        at = {"time": 1.0, "seconds": 1.0, "generation": generation, "steps": generation * 100}
        board.on(Population(**at, members=rows))  # type: ignore[arg-type]
    board.close()
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == {f"member/{n}/{name}" for n in (0, 1) for name in ("score", "lr")}
    assert points(tmp_path, "member/1/score") == [(100, 11.0), (200, 21.0)]
    assert points(tmp_path, "member/1/lr") == [(100, pytest.approx(0.2)), (200, pytest.approx(0.4))]
