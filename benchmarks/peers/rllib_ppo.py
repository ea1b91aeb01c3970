"""Measure RLlib: steps per second of whole iterations of its PPO after the first, in a line of JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
import warnings

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when ray is imported

import ray
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="Gymnasium id")
    parser.add_argument("--runners", type=int, default=2, help="processes that step environments")
    parser.add_argument("--envs", type=int, default=8, help="environments of each")
    parser.add_argument("--rollout", type=int, default=4096, help="steps between updates, of all environments")
    parser.add_argument("--epochs", type=int, default=6, help="passes over a rollout")
    parser.add_argument("--minibatch", type=int, default=256, help="samples of a gradient step")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch in the learner")
    parser.add_argument("--steps", type=int, default=40_960, help="steps to measure, after the first iteration")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    return parser.parse_args(arguments)


def algorithm_for(options: argparse.Namespace) -> PPO:
    """RLlib's PPO with a network of 64 x 64 tanh units, which learns in this process."""
    config = (
        PPOConfig()
        .environment(options.env)
        .env_runners(num_env_runners=options.runners, num_envs_per_env_runner=options.envs)
        .learners(num_learners=0)
        .training(
            train_batch_size_per_learner=options.rollout,
            num_epochs=options.epochs,
            minibatch_size=options.minibatch,
        )
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"))
        .debugging(seed=options.seed, log_level="ERROR")
    )
    return config.build_algo()


def main() -> int:
    """Print the measurement."""
    options = parse()
    warnings.filterwarnings("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)
    torch.set_num_threads(options.threads)
    ray.init(
        "local",
        num_cpus=options.runners,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    try:
        algorithm = algorithm_for(options)
        first = algorithm.train()["num_env_steps_sampled_lifetime"]
        steps, iterations = 0, 0
        start = time.perf_counter()
        while steps < options.steps:
            found = algorithm.train()
            steps = int(found["num_env_steps_sampled_lifetime"] - first)
            iterations += 1
        seconds = time.perf_counter() - start
        algorithm.stop()
    finally:
        ray.shutdown()
    report = {
        "peer": "rllib",
        "ray": ray.__version__,
        "torch": torch.__version__,
        **vars(options),
        "iterations": iterations,
        "steps": steps,
        "seconds": seconds,
        "steps_per_second": steps / seconds,
        "training_return": found["env_runners"].get("episode_return_mean"),
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
