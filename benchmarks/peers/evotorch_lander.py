"""Measure EvoTorch: steps per second of its GymNE on a Gymnasium environment, in a line of JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from importlib.metadata import version
from typing import NamedTuple, NoReturn

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when ray is imported

import ray
import torch
from evotorch.algorithms import PGPE
from evotorch.neuroevolution import GymNE

NETWORK = "Linear(obs_length, 32) >> Tanh() >> Linear(32, 32) >> Tanh() >> Linear(32, act_length)"


class Measurement(NamedTuple):
    """What was counted between the end of the warm-up generation and the end of the last one."""

    generations: int
    episodes: int
    steps: int
    seconds: float


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="LunarLander-v3", help="Gymnasium id")
    parser.add_argument("--network", default=NETWORK, help="policy in EvoTorch's notation")
    parser.add_argument("--popsize", type=int, default=128, help="candidates per generation, one episode each")
    parser.add_argument("--actors", type=int, default=2, help="Ray actors that evaluate")
    parser.add_argument(
        "--subbatch",
        type=int,
        default=None,
        help="candidates handed to an actor at once; default popsize/actors",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="measure whole generations for at least this")
    parser.add_argument("--limit", type=int, default=180, help="give up after this many seconds")
    parser.add_argument("--normalise", action="store_true", help="normalise observations, as ES usually does")
    parser.add_argument("--seed", type=int, default=1, help="seed of the search")
    return parser.parse_args(arguments)


def give_up(_signum: int, _frame: object) -> NoReturn:
    """Turn the alarm into an exception, so that Ray is shut down on the way out."""
    raise TimeoutError("the time limit has passed")


def searcher_for(options: argparse.Namespace) -> PGPE:
    """A PGPE search over the policy's parameters."""
    problem = GymNE(
        options.env,
        options.network,
        num_actors=options.actors,
        subbatch_size=options.subbatch,
        observation_normalization=options.normalise,
    )
    return PGPE(
        problem,
        popsize=options.popsize,
        center_learning_rate=0.1,
        stdev_learning_rate=0.1,
        stdev_init=0.1,
        optimizer="adam",
    )


def measure(searcher: PGPE, seconds: float) -> Measurement:
    """Run a warm-up generation, then whole generations for at least `seconds`."""
    searcher.step()
    status = searcher.problem.status
    episodes, steps = status["total_episode_count"], status["total_interaction_count"]
    start = time.perf_counter()
    generations, elapsed = 0, 0.0
    while elapsed < seconds:
        searcher.step()
        generations += 1
        elapsed = time.perf_counter() - start
    status = searcher.problem.status
    return Measurement(
        generations,
        status["total_episode_count"] - episodes,
        status["total_interaction_count"] - steps,
        elapsed,
    )


def main() -> int:
    """Print the measurement; exit code 1 when the time limit passes first."""
    options = parse()
    logging.getLogger("evotorch").setLevel(logging.WARNING)  # it would log to stdout, which is for the result
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(options.limit)
    torch.set_num_threads(1)  # the processors belong to the actors
    torch.manual_seed(options.seed)
    ray.init(address="local", num_cpus=options.actors, include_dashboard=False, log_to_driver=False)
    try:
        found = measure(searcher_for(options), options.seconds)
    except (TimeoutError, SystemError):  # a SystemError where the alarm rang inside Ray's compiled code
        print(f"evotorch_lander: nothing was measured within {options.limit} s; try --limit", file=sys.stderr)
        return 1
    finally:
        signal.alarm(0)
        ray.shutdown()
    report = {
        "peer": "evotorch",
        "version": version("evotorch"),
        "torch": torch.__version__,
        "ray": ray.__version__,
        "env": options.env,
        "network": options.network,
        "popsize": options.popsize,
        "actors": options.actors,
        **found._asdict(),
        "steps_per_episode": found.steps / found.episodes,
        "steps_per_second": found.steps / found.seconds,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
