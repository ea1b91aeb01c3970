"""How much better than expected: generalised advantage estimation, corrected for actions of an older policy."""

from __future__ import annotations

from typing import Any


def advantages(
    rewards: Any, values: Any, terminated: Any, over: Any, discount: Any, trace: Any, weights: Any | None = None
) -> Any:
    """Advantages (steps, envs) for rewards of that shape and values (steps + 1, envs).

    `over` (steps + 1, envs) says where an observation was the last of its episode. What was truncated has the
    value of that observation to come, what was terminated has none. `weights` are the probabilities of the
    actions under the policy that learns over those under the policy that acted, at most one is used (V-trace);
    None where both are the same (GAE).
    """
    import jax
    import jax.numpy as jnp

    ahead = jnp.where(terminated, 0.0, values[1:])
    surprise = rewards + discount * ahead - values[:-1]
    reach = jnp.where(over[1:], 0.0, discount * trace)
    if weights is not None:
        kept = jnp.minimum(weights, 1.0)
        surprise, reach = kept * surprise, kept * reach

    def back(later: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
        advantage = now[0] + now[1] * later
        return advantage, advantage

    _, found = jax.lax.scan(back, jnp.zeros_like(values[0]), (surprise, reach), reverse=True)
    return found
