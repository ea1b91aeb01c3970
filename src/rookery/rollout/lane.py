"""One batch of episodes on its way from reset to the last step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.envs import Arena, Step
from rookery.policies.normaliser import Moments, Scaling
from rookery.policies.policy import Policy
from rookery.rollout.noise import NoiseBlocks
from rookery.rollout.results import WORST, Result, Trial

_COMPACT_BELOW = 0.75  # share of members still alive under which the rows of the others are worth dropping
_NO_LIMIT = np.iinfo(np.int64).max


class Lane:
    """Members x episodes: all start together, so one clock counts the steps of those that still go on.

    The policy sees a grid with a row for each member and a column for each of its episodes; cells of finished
    episodes are computed and ignored until enough members have finished for a smaller grid to pay.
    """

    def __init__(
        self,
        arena: Arena,
        policy: Policy,
        scaling: Scaling | None,
        trials: Sequence[Trial],
        parameters: NDArray[np.float32],
        threads: int,
        render: bool = False,
    ) -> None:
        self.policy, self.scaling, self.trials = policy, scaling, trials
        self.episodes = len(trials[0].seeds)
        seeds = [seed for trial in trials for seed in trial.seeds]
        self.batch = arena.batch(seeds, threads, render)
        count, width = len(seeds), arena.spaces.observation.size

        # By episode.
        self.alive = np.arange(count, dtype=np.int32)
        self.clock = 0
        self.steps = np.zeros(count, np.int64)
        self.returns = np.zeros(count)
        self.signs = np.zeros(count)
        self.limited = np.zeros(count, np.bool_)
        self.limits = np.repeat([trial.candidate.max_steps or _NO_LIMIT for trial in trials], self.episodes)
        self.observed = np.repeat([trial.observe for trial in trials], self.episodes)
        self.totals = np.zeros((count, width) if self.observed.any() else (0, width))
        self.squares = np.zeros_like(self.totals)
        self.errors: dict[int, str] = {}
        self.noise = NoiseBlocks(policy.head, trials) if policy.head.noise else None

        # The grid: which members are in it, where each episode is in it, and what is there.
        self.members: NDArray[np.intp] = np.arange(len(trials))
        self.cells = np.arange(count)
        self.seen = np.zeros((count, width), np.float32)
        self.carry = policy.carry(len(trials), self.episodes, 1)
        self._bind(parameters)

    def start(self) -> None:
        """Reset all environments and set them going."""
        step = self.batch.reset()
        self.seen[step.ids] = step.observations
        self._drop(step, self._broken(step))
        if len(self.alive):
            self.begin_step()

    def begin_step(self) -> None:
        """Choose actions for the episodes that go on, and set their environments going."""
        self._compact()
        cells = self.cells[self.alive]
        self._observe(cells)
        grid = self.seen.reshape(len(self.members), self.episodes, 1, -1)
        noise = (
            None
            if self.noise is None
            else self.noise.at(self.clock, self._episodes()).reshape(*grid.shape[:3], -1)
        )
        actions, self.carry = self.policy.act(self.views, grid, self.carry, self.scaling, noise)
        self.batch.send(actions.reshape(len(self.seen), *actions.shape[3:])[cells], self.alive)
        self.clock += 1

    def finish_step(self) -> None:
        """Wait for the environments, and drop the episodes that are over."""
        step = self.batch.receive()
        ids = step.ids
        self.seen[self.cells[ids]] = step.observations
        self.returns[ids] += step.rewards
        self.signs[ids] += np.sign(step.rewards)
        over = step.terminated | step.truncated | self._broken(step)
        if self.clock >= self.limits.min():
            cut = ~over & (self.clock >= self.limits[ids])
            self.limited[ids[cut]] = True
            over |= cut
        self._drop(step, over)

    def results(self) -> list[Result]:
        """One result for each trial, once nothing is alive."""
        return [self._result(number, trial) for number, trial in enumerate(self.trials)]

    def close(self) -> None:
        self.batch.close()

    def _bind(self, parameters: NDArray[np.float32]) -> None:
        self.parameters = parameters
        self.views = self.policy.space.split(parameters[:, None])  # one set of parameters for a member's episodes

    def _episodes(self) -> NDArray[np.intp]:
        """The episodes in the grid, row by row."""
        return (self.members[:, None] * self.episodes + np.arange(self.episodes)).reshape(-1)

    def _compact(self) -> None:
        live = np.unique(self.alive // self.episodes).astype(np.intp)
        if len(live) >= _COMPACT_BELOW * len(self.members):
            return
        rows = np.searchsorted(self.members, live)
        self.members = live
        cells = (rows[:, None] * self.episodes + np.arange(self.episodes)).reshape(-1)
        self.seen = self.seen[cells]
        self.carry = tuple(array[rows] for array in self.carry)
        self._bind(self.parameters[rows])
        self.cells[self._episodes()] = np.arange(len(cells))

    def _observe(self, cells: NDArray[np.intp]) -> None:
        if not len(self.totals):
            return
        chosen = self.observed[self.alive]
        ids, seen = self.alive[chosen], self.seen[cells[chosen]].astype(np.float64)
        self.totals[ids] += seen
        self.squares[ids] += seen * seen

    def _broken(self, step: Step) -> NDArray[np.bool_]:
        """Which environments raised or gave something that is no number; the reason is written down."""
        broken = np.zeros(len(step.ids), np.bool_)
        if not step.failures and np.isfinite(step.observations.sum() + step.rewards.sum()):
            return broken
        finite = np.isfinite(step.observations).reshape(len(step.ids), -1).all(axis=1)
        for row, env in enumerate(step.ids.tolist()):
            if env in step.failures:
                reason = step.failures[env]
            elif not np.isfinite(step.rewards[row]):
                reason = f"the reward was {step.rewards[row]}"
            elif not finite[row]:
                reason = "the observation was not finite"
            else:
                continue
            broken[row] = True
            self.errors[env] = f"{reason} (at step {self.clock})"
        return broken

    def _drop(self, step: Step, over: NDArray[np.bool_]) -> None:
        if over.any():
            self.steps[step.ids[over]] = self.clock
            self.alive = step.ids[~over]

    def _result(self, number: int, trial: Trial) -> Result:
        own = slice(number * self.episodes, (number + 1) * self.episodes)
        steps = int(self.steps[own].sum())
        failed = [env for env in range(own.start, own.stop) if env in self.errors]
        error = None
        if failed:
            seed = trial.seeds[failed[0] - own.start]
            name = f"candidate {trial.candidate.id}" if trial.candidate.id >= 0 else "the champion"
            error = f"{name}, environment seed {seed}: {self.errors[failed[0]]}"
        moments = None
        if trial.observe and not failed:
            moments = Moments(steps, self.totals[own].sum(axis=0), self.squares[own].sum(axis=0))
        return Result(
            id=trial.candidate.id,
            fitness=WORST if failed else float(self.returns[own].mean()),
            signs=WORST if failed else float(self.signs[own].mean()),
            returns=tuple(self.returns[own].tolist()),
            lengths=tuple(self.steps[own].tolist()),
            limited=int(self.limited[own].sum()),
            moments=moments,
            error=error,
        )
