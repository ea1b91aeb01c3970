"""Measure Ray Tune: wall time of its PopulationBasedTraining over Stable-Baselines3's PPO, in a line of JSON."""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AIR_NEW_OUTPUT": "0"}  # read when ray is imported

import ray
import torch
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

SPACE = {"lr": tune.loguniform(1e-4, 1e-2), "gamma": tune.uniform(0.95, 0.999)}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="Gymnasium id")
    parser.add_argument("--members", type=int, default=8, help="trials in the population")
    parser.add_argument("--cpus", type=int, default=2, help="trials that train at a time")
    parser.add_argument("--steps", type=int, default=40_960, help="steps of each member")
    parser.add_argument("--exploits", type=int, default=4, help="times that each member may be replaced")
    parser.add_argument("--envs", type=int, default=8, help="environments of a member")
    parser.add_argument("--rollout", type=int, default=4096, help="steps between updates, of all environments")
    parser.add_argument("--epochs", type=int, default=6, help="passes over a rollout")
    parser.add_argument("--minibatch", type=int, default=256, help="samples of a gradient step")
    options = parser.parse_args(arguments)
    if options.steps % ((options.exploits + 1) * options.rollout):
        parser.error(f"--steps {options.steps} is no whole number of rollouts before and after every exploit")
    return options


class Member(tune.Trainable):
    """A PPO that trains for an interval at a time and takes on what another one has learned."""

    def setup(self, config: dict[str, Any], fixed: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        self.fixed = fixed
        self.envs = make_vec_env(fixed["env"], fixed["envs"])
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin anew: Ray uses a process for one member after another, and brings what each has learned."""
        self.model = PPO(
            "MlpPolicy",
            self.envs,
            learning_rate=new_config["lr"],
            gamma=new_config["gamma"],
            n_steps=self.fixed["rollout"] // self.fixed["envs"],
            batch_size=self.fixed["minibatch"],
            n_epochs=self.fixed["epochs"],
            device="cpu",
        )
        return True

    def step(self) -> dict[str, float]:
        self.model.learn(self.fixed["interval"], reset_num_timesteps=False)
        return {"score": statistics.mean(float(episode["r"]) for episode in self.model.ep_info_buffer)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self.model.save(Path(checkpoint_dir) / "model")

    def load_checkpoint(self, checkpoint: str) -> None:
        self.model.set_parameters(str(Path(checkpoint) / "model"), device="cpu")


def bounded(config: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters within their ranges, which Ray's factors of 0.8 and 1.2 know nothing of."""
    return {key: min(max(value, SPACE[key].lower), SPACE[key].upper) for key, value in config.items()}


def tuner_for(options: argparse.Namespace, storage: str) -> tuple[tune.Tuner, PopulationBasedTraining]:
    """A population that is looked at after every interval; its lowest quarter copies from its best."""
    fixed = {key: getattr(options, key) for key in ("env", "envs", "rollout", "epochs", "minibatch")}
    fixed["interval"] = options.steps // (options.exploits + 1)
    scheduler = PopulationBasedTraining(
        perturbation_interval=1, hyperparam_mutations=SPACE, custom_explore_fn=bounded
    )
    tuner = tune.Tuner(
        tune.with_parameters(Member, fixed=fixed),
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="score", mode="max", num_samples=options.members, scheduler=scheduler, reuse_actors=True
        ),
        run_config=tune.RunConfig(
            storage_path=storage, verbose=0, stop={"training_iteration": options.exploits + 1}
        ),
    )
    return tuner, scheduler


def main() -> int:
    """Print the measurement."""
    options = parse()
    warnings.filterwarnings("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as storage:
        start = time.perf_counter()
        ray.init(
            "local",
            num_cpus=options.cpus,
            include_dashboard=False,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
        try:
            tuner, scheduler = tuner_for(options, storage)
            results = tuner.fit()
        finally:
            ray.shutdown()
        seconds = time.perf_counter() - start
    if results.errors:
        print(f"ray_pbt: {len(results.errors)} trials failed; the first: {results.errors[0]}", file=sys.stderr)
        return 1
    report = {
        "peer": "ray-tune",
        "ray": ray.__version__,
        "stable-baselines3": version("stable-baselines3"),
        "torch": torch.__version__,
        **vars(options),
        "replaced": scheduler._num_perturbations,
        "seconds": seconds,
        "steps_per_second": options.members * options.steps / seconds,
        "best_score": results.get_best_result().metrics["score"],
        "worst_score": min(result.metrics["score"] for result in results),
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
