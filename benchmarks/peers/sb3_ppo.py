"""Measure Stable-Baselines3: steps per second of a whole `learn` of its PPO, in a line of JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecMonitor

PROCGEN = ("Easy-v0", "Hard-v0")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="Gymnasium id, or one of EnvPool's Procgen")
    parser.add_argument("--policy", choices=("MlpPolicy", "CnnPolicy"), default="MlpPolicy")
    parser.add_argument("--envs", type=int, default=8, help="environments")
    parser.add_argument("--vec", choices=("dummy", "subproc"), default="dummy", help="here or in processes")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--rollout", type=int, default=4096, help="steps between updates, of all environments")
    parser.add_argument("--epochs", type=int, default=10, help="passes over a rollout")
    parser.add_argument("--minibatch", type=int, default=64, help="samples of a gradient step")
    parser.add_argument("--steps", type=int, default=40_960, help="steps to train for")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    return parser.parse_args(arguments)


def make_envs(options: argparse.Namespace) -> VecEnv:
    """Environments as a user of Stable-Baselines3 makes them; those of Procgen in a pool with two threads."""
    if options.env.endswith(PROCGEN):
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from benchmarks.peers.procgen_envs import ProcgenEnvs

        return VecMonitor(ProcgenEnvs(options.env, options.envs, threads=2, seed=options.seed))
    how = SubprocVecEnv if options.vec == "subproc" else DummyVecEnv
    return make_vec_env(options.env, options.envs, seed=options.seed, vec_env_cls=how)


def main() -> int:
    """Print the measurement."""
    options = parse()
    if options.rollout % options.envs:
        print(
            f"sb3_ppo: a rollout of {options.rollout} cannot be shared by {options.envs} --envs", file=sys.stderr
        )
        return 2
    warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
    torch.set_num_threads(options.threads)
    model = PPO(
        options.policy,
        make_envs(options),
        n_steps=options.rollout // options.envs,
        batch_size=options.minibatch,
        n_epochs=options.epochs,
        seed=options.seed,
        device="cpu",
    )
    start = time.perf_counter()
    model.learn(options.steps)
    seconds = time.perf_counter() - start
    model.get_env().close()
    returns = [float(episode["r"]) for episode in model.ep_info_buffer]
    report = {
        "peer": "stable-baselines3",
        "version": version("stable-baselines3"),
        "torch": torch.__version__,
        **vars(options),
        "steps": model.num_timesteps,
        "seconds": seconds,
        "steps_per_second": model.num_timesteps / seconds,
        "training_return": statistics.mean(returns) if returns else None,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
