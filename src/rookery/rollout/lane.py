"""One batch of episodes on its way from reset to the last step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.envs import Arena, Step
from rookery.policies.normaliser import Moments, Scaling
from rookery.policies.policy import Policy
from rookery.rollout.behaviour import Recorder
from rookery.rollout.noise import NoiseBlocks
from rookery.rollout.results import WORST, Result, Trial

_COMPACT_BELOW = 0.75  # share of members still alive under which the rows of the others are worth dropping
_NO_LIMIT = np.iinfo(np.int64).max
_REMEMBER = 1024  # steps whose rewards are kept before they are added up


class Lane:
    """Members x episodes: all start together, so one clock counts the steps of those that still go on.

    The policy sees a grid with a row for each member and a column for each of its episodes. Cells of finished
    episodes are computed and ignored until enough members have finished for a smaller grid to pay. What follows
    from the set of live episodes is kept until the set changes: a step costs a few dozen microseconds here, as
    much as it costs to simulate four landers.
    """

    def __init__(
        self,
        arena: Arena,
        policy: Policy,
        scaling: Scaling | None,
        trials: Sequence[Trial],
        threads: int,
        render: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self.policy, self.scaling, self.trials = policy, scaling, trials
        self.episodes = len(trials[0].seeds)
        self.recorder = recorder
        self.batch = arena.batch([seed for trial in trials for seed in trial.seeds], threads, render)
        self.batch.reset()  # goes on while the caller makes the parameters
        count, shown = len(trials) * self.episodes, arena.spaces.observation

        # By episode: what will be reported.
        self.steps = np.zeros(count, np.int64)
        self.returns, self.signs = np.zeros(count), np.zeros(count)
        self.limited = np.zeros(count, np.bool_)
        self.errors: dict[int, str] = {}
        self.limits = np.repeat([trial.candidate.max_steps or _NO_LIMIT for trial in trials], self.episodes)
        watched = [trial.observe and not shown.is_image for trial in trials]  # images have no moments
        self.observed = np.repeat(watched, self.episodes)
        self.totals = np.zeros((count if self.observed.any() else 0, shown.size))
        self.squares = np.zeros_like(self.totals)
        self.rewards: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
        self.whole = np.issubdtype(shown.dtype, np.integer)  # such numbers are always finite
        exploring = policy.head.noise and any(trial.explore for trial in trials)
        self.noise = NoiseBlocks(policy.head, trials) if exploring else None

        # By cell of the grid: whose it is, what its environment shows, and the moments of what it showed so far.
        self.clock = 0
        self.alive = np.arange(count, dtype=np.int32)
        self.members: NDArray[np.intp] = np.arange(len(trials))
        self.seen: NDArray[Any] = np.zeros((count, *shown.shape), shown.dtype)
        self.carry = policy.carry(len(trials), self.episodes, 1)
        self.sums, self.sums_of_squares = self.totals.copy(), self.squares.copy()
        self._settle()

    def start(self, parameters: Mapping[str, Any]) -> None:
        """Set the environments going under these policies; parameters have a first axis for the trials."""
        self.parameters = parameters
        step = self.batch.receive()
        self._see(step)
        if self.recorder is not None:
            self.recorder.see(self.alive, step)
        self._drop(self._broken(step))
        if len(self.alive):
            self.begin_step()

    def begin_step(self) -> None:
        """Choose actions for the episodes that go on, and set their environments going."""
        if len(self.sums):
            seen = self.seen[self.watched]
            self.sums[self.watched] += seen
            self.sums_of_squares[self.watched] += np.multiply(seen, seen, dtype=np.float64)
        grid = self.seen.reshape(len(self.members), self.episodes, 1, *self.seen.shape[1:])
        noise = None
        if self.noise is not None:
            noise = self.noise.at(self.clock, self._in_grid()).reshape(*grid.shape[:3], -1)
        actions, self.carry = self.policy.act(self.parameters, grid, self.carry, self.scaling, noise)
        self.batch.send(actions.reshape(len(self.seen), *actions.shape[3:])[self.cells], self.alive)
        self.clock += 1

    def finish_step(self) -> None:
        """Wait for the environments, and drop the episodes that are over."""
        step = self.batch.receive()
        self.rewards.append((self.alive, step.rewards))
        if len(self.rewards) == _REMEMBER:
            self._add_up()
        self._see(step)
        if self.recorder is not None:
            self.recorder.see(self.alive, step)
        over = step.terminated | step.truncated
        if step.failures or not (self.whole or isfinite(step.observations.sum())):
            over |= self._broken(step)
        if self.clock >= self.first_limit:
            cut = ~over & (self.clock >= self.limits[self.alive])
            self.limited[self.alive[cut]] = True
            over |= cut
        if over.any():
            self._drop(over)

    def results(self) -> list[Result]:
        """One result for each trial, once nothing is alive."""
        self._add_up()
        self._keep_moments(slice(None))
        by_trial = len(self.trials), self.episodes
        fitness, signs = (sums.reshape(by_trial).mean(axis=1).tolist() for sums in (self.returns, self.signs))
        return [
            self._result(number, trial, *means)
            for number, (trial, *means) in enumerate(zip(self.trials, fitness, signs, strict=True))
        ]

    def close(self) -> None:
        self.batch.close()

    def _settle(self) -> None:
        """Work out what follows from the live episodes and the members in the grid."""
        self.first_limit = self.limits[self.alive].min(initial=_NO_LIMIT)
        if len(self.alive) == len(self.seen):
            self.cells: NDArray[np.intp] | slice = slice(None)
        else:
            rows = np.searchsorted(self.members, self.alive // self.episodes)
            self.cells = rows * self.episodes + self.alive % self.episodes
        watching = self.observed[self.alive]
        if isinstance(self.cells, slice):
            self.watched = self.cells if watching.all() else np.flatnonzero(watching)
        else:
            self.watched = self.cells[watching]

    def _in_grid(self) -> NDArray[np.intp]:
        """The episodes in the grid, cell by cell."""
        return (self.members[:, None] * self.episodes + np.arange(self.episodes)).reshape(-1)

    def _see(self, step: Step) -> None:
        if isinstance(self.cells, slice):
            self.seen = step.observations
        else:
            self.seen[self.cells] = step.observations

    def _drop(self, over: NDArray[np.bool_]) -> None:
        """Take episodes out of the live ones, and members out of the grid when there are enough to take."""
        self.steps[self.alive[over]] = self.clock
        self.alive = self.alive[~over]
        live = np.unique(self.alive // self.episodes).astype(np.intp)
        if 0 < len(live) < _COMPACT_BELOW * len(self.members):
            rows = np.searchsorted(self.members, live)
            cells = (rows[:, None] * self.episodes + np.arange(self.episodes)).reshape(-1)
            self._keep_moments(cells)
            self.seen, self.members = self.seen[cells], live
            self.carry = tuple(array[rows] for array in self.carry)
            self.parameters = {name: part[rows] for name, part in self.parameters.items()}
        self._settle()

    def _keep_moments(self, cells: NDArray[np.intp] | slice) -> None:
        """Write down the moments of the whole grid, and go on with those of these cells."""
        if len(self.sums):
            episodes = self._in_grid()
            self.totals[episodes], self.squares[episodes] = self.sums, self.sums_of_squares
            self.sums, self.sums_of_squares = self.sums[cells], self.sums_of_squares[cells]

    def _add_up(self) -> None:
        """Sum the rewards of the steps since the last time, step by step for each episode."""
        if self.rewards:
            ids, rewards = (np.concatenate(part) for part in zip(*self.rewards, strict=True))
            self.returns += np.bincount(ids, rewards, len(self.returns))
            self.signs += np.bincount(ids, np.sign(rewards), len(self.signs))
            self.rewards = []

    def _broken(self, step: Step) -> NDArray[np.bool_]:
        """Which of the live episodes raised or showed something that is no number; the reason is written down."""
        finite = np.isfinite(step.observations).reshape(len(self.alive), -1).all(axis=1)
        broken = np.zeros(len(self.alive), np.bool_)
        for row, env in enumerate(self.alive.tolist()):
            if env in step.failures or not finite[row]:
                broken[row] = True
                reason = step.failures.get(env, "the observation was not finite")
                self.errors[env] = f"{reason} (at step {self.clock})"
        return broken

    def _result(self, number: int, trial: Trial, fitness: float, signs: float) -> Result:
        own = slice(number * self.episodes, (number + 1) * self.episodes)
        error = self._error(trial, own)
        lengths = tuple(self.steps[own].tolist())
        moments = None
        if self.observed[own.start] and error is None:
            moments = Moments(sum(lengths), self.totals[own].sum(axis=0), self.squares[own].sum(axis=0))
        behaviour = None
        if self.recorder is not None and error is None:
            shown = [self.recorder.behaviour(episode) for episode in range(own.start, own.stop)]
            behaviour = np.mean(shown, axis=0)
        return Result(
            id=trial.candidate.id,
            fitness=WORST if error else fitness,
            signs=WORST if error else signs,
            returns=tuple(self.returns[own].tolist()),
            lengths=lengths,
            limited=int(self.limited[own].sum()),
            moments=moments,
            error=error,
            behaviour=behaviour,
        )

    def _error(self, trial: Trial, own: slice) -> str | None:
        """What went wrong first in a trial's episodes, with names by which to try it again."""
        who = f"candidate {trial.candidate.id}" if trial.candidate.id >= 0 else "the champion"
        for episode, seed in zip(range(own.start, own.stop), trial.seeds, strict=True):
            reason = self.errors.get(episode)
            if reason is None and not isfinite(self.returns[episode]):
                reason = f"the rewards added up to {self.returns[episode]}"
            if reason is not None:
                return f"{who}, environment seed {seed}: {reason}"
        return None
