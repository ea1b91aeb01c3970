"""What an experiment may change about an environment's steps, on any backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.envs.batch import BatchedEnv, Ids, Step


class RewardScale:
    """Rewards times a constant."""

    def __init__(self, inner: BatchedEnv, scale: float) -> None:
        self.inner = inner
        self.scale = np.float32(scale)
        self.reset, self.send, self.render, self.close = inner.reset, inner.send, inner.render, inner.close

    def receive(self) -> Step:
        step = self.inner.receive()
        return step._replace(rewards=step.rewards * self.scale)


class ActionRepeat:
    """Each action is applied several times; rewards add up, and an episode that ends takes no more of them."""

    def __init__(self, inner: BatchedEnv, times: int) -> None:
        self.inner = inner
        self.times = times
        self.sent: NDArray[Any] | None = None
        self.ended: set[int] = set()  # whose next step starts an episode
        self.render, self.close = inner.render, inner.close

    def reset(self) -> None:
        self.sent = None
        self.ended.clear()
        self.inner.reset()

    def send(self, actions: NDArray[Any], ids: Ids) -> None:
        self.sent = actions
        self.inner.send(actions, ids)

    def receive(self) -> Step:
        whole = self.inner.receive()
        if self.sent is None:
            self.ended.update(whole.failures)
            return whole
        rows = {env: row for row, env in enumerate(whole.ids.tolist())}
        begun = np.array([env in self.ended for env in rows], np.bool_)
        info = None if whole.info is None else np.array(whole.info)
        whole = Step._make([*map(np.array, whole[:5]), dict(whole.failures), info])
        for _ in range(self.times - 1):
            over = begun | whole.terminated | whole.truncated
            over[[rows[env] for env in whole.failures]] = True
            going = np.flatnonzero(~over)
            if not len(going):
                break
            self.inner.send(self.sent[going], whole.ids[going])
            part = self.inner.receive()
            at = [rows[env] for env in part.ids.tolist()]
            whole.observations[at] = part.observations
            whole.rewards[at] += part.rewards
            whole.terminated[at] = part.terminated
            whole.truncated[at] = part.truncated
            whole.failures.update(part.failures)
            if whole.info is not None and part.info is not None:
                whole.info[at] = part.info
        over = whole.terminated | whole.truncated
        self.ended.difference_update(rows)
        self.ended.update(whole.ids[over].tolist(), whole.failures)
        return whole
