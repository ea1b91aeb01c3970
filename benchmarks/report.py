"""`python -m benchmarks.report`: put the figures of `results/` into the pages that show them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PAGES = (
    "README.md",
    "docs/benchmarks.md",
    "docs/scaling.md",
    "docs/algorithms/es.md",
    "docs/algorithms/ppo.md",
    "docs/algorithms/pbt.md",
)

_TABLE = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
_TITLES = {  # columns that want more than their name
    "inline_ratio": "inline / EnvPool",
    "process_ratio": "process / EnvPool",
    "inline_of_full": "inline / full",
    "process_of_full": "process / full",
    "envpool": "EnvPool",
    "envpool_full": "EnvPool, full",
    "evotorch": "EvoTorch",
    "under_30_s": "and within 30 s",
    "peak_mb": "peak, MB",
    "of_inline": "of inline",
    "head_share_of_core": "head, share of a core",
    "head_microseconds_per_evaluation": "head, µs per evaluation",
    "published_seconds": "published, s",
    "piped_seconds": "piped, s",
    "sb3_ppo": "Stable-Baselines3",
    "rllib_ppo": "RLlib",
    "torch_threads": "its torch threads",
    "steps_of_each": "steps of each member",
    "alone_seconds": "one member, s",
    "together_seconds": "all members, s",
    "rookery_seconds": "Rookery, s",
    "ray_tune_seconds": "Ray Tune, s",
}


def main() -> None:
    """Write all pages again."""
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """A page with its tables as the results have them."""
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{table(found[1])}\n<!-- end -->", text)


def table(name: str) -> str:
    """A table of this name."""
    if name == "summary":
        return _markdown(("", "measured", "by"), summary())
    if not (RESULTS / f"{name}.json").exists():
        return "*Not measured yet.*"
    found = rows(name)
    keys = list(dict.fromkeys(key for row in found for key in row))
    titles = [_TITLES.get(key, key.replace("_", " ")) for key in keys]
    return _markdown(titles, [[_shown(row.get(key, "")) for key in keys] for row in found])


def rows(name: str) -> list[dict[str, Any]]:
    """What a benchmark has found."""
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return found


def summary() -> list[tuple[str, str, str]]:
    """What the README tells: a line for each claim, with the command that measures it."""
    solved = {row["preset"]: row for row in rows("solve")}
    lander, cartpole, pendulum = solved["lander"], solved["cartpole"], solved["pendulum"]
    speed, startup = rows("throughput"), rows("startup")
    calls = {row["engine"]: row for row in rows("dispatch")}
    engines = {row["engine"]: row for row in rows("engines")}
    evotorch = [
        _range(row["ratio"] for row in rows("evotorch") if row["normalised"] is how) for how in (True, False)
    ]
    head = next(row for row in rows("scaling") if (row["what"], row["workers"]) == ("generations", 2000))
    cold = "from a cold process to a score of"
    claims = {
        f"`rookery run lander`, {cold} 200 on 100 fresh episodes; {lander['seeds']} seeds": (
            f"median **{lander['median_seconds']} s**, worst {lander['worst_seconds']} s",
            "solve",
        ),
        "the same for `cartpole` (475) and `pendulum` (-200)": (
            f"median {cartpole['median_seconds']} s and {pendulum['median_seconds']} s",
            "solve",
        ),
        "steps/s, policies included, over EnvPool's own: LunarLander, BipedalWalker, HalfCheetah": (
            f"`process` **{_slashed(speed, 'process_ratio')}**, `inline` {_slashed(speed, 'inline_ratio')}",
            "throughput",
        ),
        "the same for pixels: Pong, Nature network, 16 policies; 4 with 4 episodes; 16 with noise of rank 1": (
            f"`process` **{_slashed(rows('pixels'), 'process_ratio')}**",
            "pixels",
        ),
        "steps/s over EvoTorch's GymNE with two actors, same network, LunarLander": (
            f"**{evotorch[0]}** with normalised observations, {evotorch[1]} without",
            "evotorch",
        ),
        "a whole run of `lander` with two workers, steps/s over `inline`": (
            ", ".join(f"`{name}` {engines[name]['of_inline']:.2f}" for name in ("process", "ray", "mpi")),
            "engines",
        ),
        "empty calls per second: `process`; `ray` over bare Ray; `mpi` over bare mpi4py": (
            f"{calls['process']['calls_per_second']:,}; {calls['ray']['ratio']}; {calls['mpi']['ratio']}",
            "dispatch",
        ),
        "a head that feeds 2,000 workers, evaluations of one second": (
            f"**{head['head_share_of_core']:.0%}** of a core",
            "scaling",
        ),
        "`import rookery`; `rookery --help`": (
            "; ".join(f"{row['seconds']:.2f} s" for row in startup),
            "startup",
        ),
        **_learners(),
    }
    return [(what, found, f"`make bench ARGS={name}`") for what, (found, name) in claims.items()]


def _learners() -> dict[str, tuple[str, str]]:
    """What is claimed of PPO, as far as it has been measured."""
    claims = {
        "steps/s of a whole `ppo` run over Stable-Baselines3's, four environments; 10 epochs of 64, 6 of 256": (
            "ppo",
            lambda found: "; ".join(
                f"**{_range(row['ratio'] for row in found if row['minibatch'] == size)}**" for size in (64, 256)
            ),
        ),
        "the same over RLlib's with two runners: Pendulum, CartPole": (
            "ppo_rllib",
            lambda found: _slashed(found, "ratio"),
        ),
        "the same over Stable-Baselines3's on BigFish, Nature network": (
            "ppo_pixels",
            lambda found: _slashed(found, "ratio"),
        ),
        "from a cold process to the end, compilation included; median": (
            "ppo_learning",
            lambda found: ", ".join(
                f"`{row['preset']}` ({row['target']:g}) {row['median_seconds']} s" for row in found
            ),
        ),
        "wall time of eight members over that of one: `cartpole-ppo`, `lander-ppo`": (
            "ppo_members",
            lambda found: _slashed(found, "ratio"),
        ),
        "Ray Tune's PBT over Stable-Baselines3 on CartPole: its wall time over ours; 10 epochs of 64, 6 of 256": (
            "pbt_tune",
            lambda found: " and ".join(str(row["ratio"]) for row in found),
        ),
        "`lander-pbt` earns more than the median of its members left alone; cost of PBT itself": (
            "pbt_lander",
            lambda found: (
                f"{sum(row['median_bred'] > row['median_alone'] for row in found)} of {len(found)} seeds; "
                f"{max(row['overhead'] for row in found):.1%} of wall time"
            ),
        ),
    }
    measured = {what: claim for what, claim in claims.items() if (RESULTS / f"{claim[0]}.json").exists()}
    return {what: (tell(rows(name)), name) for what, (name, tell) in measured.items()}


def _slashed(found: Sequence[dict[str, Any]], key: str) -> str:
    return " / ".join(f"{row[key]:.2f}" for row in found)


def _range(values: Iterable[float]) -> str:
    low, *_, high = sorted(values)
    return f"{low:.1f} to {high:.1f}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _markdown(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join([*head, *("| " + " | ".join(line) + " |" for line in lines)])


if __name__ == "__main__":
    main()
