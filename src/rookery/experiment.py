"""The frozen, validated description of what to run, and how it is read from presets and files."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from rookery.envs.spec import Env
from rookery.errors import UserError, did_you_mean
from rookery.evolution import ES, Novelty, Searcher
from rookery.evolution.breeding import is_steady
from rookery.evolution.pbt import PBT
from rookery.evolution.strategy import AnySource, AnyStrategy
from rookery.fleet.specs import EngineSpec, Inline
from rookery.learning import PPO
from rookery.policies import MLP, PolicySpec
from rookery.settings import (
    Range,
    SettingError,
    Tree,
    apply_overrides,
    build,
    complete,
    merge,
    pull_ranges,
    read_file,
    read_yaml,
    to_tree,
    to_yaml,
)
from rookery.settings.tree import ABSENT, lookup, place

_GENES = "genes are written as ranges in place of a value, such as lr='{low: 1e-4, high: 1e-2, scale: log}'"
_GENE_PARTS = ("env", "policy", "algorithm")

Algorithm = Searcher | PPO | PBT

_Positive = Annotated[int, Meta(gt=0)]
_Seconds = Annotated[float, Meta(gt=0)]


class Stop(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run ends: at whichever of these comes first."""

    score: Annotated[
        float | None,
        Meta(description="mean return on fresh episodes, less its standard error, that is enough; null = never"),
    ] = None
    generations: Annotated[_Positive | None, Meta(description="generations to run; null = no limit")] = None
    steps: Annotated[_Positive | None, Meta(description="environment steps to take; null = no limit")] = None
    seconds: Annotated[_Seconds | None, Meta(description="time to run for; null = no limit")] = None
    overshoot: Annotated[
        bool,
        Meta(description="the last generation may go beyond stop.steps; false = it is left out then"),
    ] = True


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a candidate gets its fitness, and how the champion is validated."""

    episodes: Annotated[int, Meta(ge=1, description="episodes per fitness")] = 1
    seeding: Annotated[
        Literal["generation", "pair", "fixed"],
        Meta(
            description="generation = the same environment seeds for all candidates of a generation; "
            "pair = a set of seeds per mirrored pair; fixed = the same seeds in every generation"
        ),
    ] = "generation"
    seeds: Annotated[
        tuple[Annotated[int, Meta(ge=0)], ...],
        Meta(description="the fixed seeds, one per episode; empty draws them once from the run's seed"),
    ] = ()
    behaviour: Annotated[
        str,
        Meta(
            description="for novelty search, of an episode: last = the last observation; info:FIELD = the last "
            "value of a field of the environment's info; my_package.module:function = of all observations"
        ),
    ] = "last"
    champion_share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="episodes of the champion, noiseless and without the adaptive step limit, "
            "as a share of the population's",
        ),
    ] = 0.05
    validate_every: Annotated[
        int,
        Meta(
            ge=0,
            description="generations between validations of the champion on fresh episodes; "
            "0 = only when the score is near the target and at the end",
        ),
    ] = 20
    validation_episodes: Annotated[int, Meta(ge=1, description="episodes of a validation")] = 100
    sample: Annotated[
        bool, Meta(description="draw discrete actions on fresh episodes too, not only in training")
    ] = False
    unseen: Annotated[
        dict[str, Any] | None,
        Meta(
            description="options of the environment that are others in a second validation, on what training "
            "never shows; null = for Procgen with num_levels, all levels behind those; {} = no such validation"
        ),
    ] = None
    score_range: Annotated[
        tuple[float, float] | None,
        Meta(
            description="low and high: scores are also shown as (score - low) / (high - low); "
            "null = for Procgen, what its paper has; otherwise not"
        ),
    ] = None
    on_error: Annotated[
        Literal["worst", "stop"],
        Meta(description="an episode that fails: worst = counts as the worst fitness; stop = ends the run"),
    ] = "worst"

    def __post_init__(self) -> None:
        if self.seeds and self.seeding != "fixed":
            raise ValueError(f"seeds are used only with seeding=fixed, and seeding is {self.seeding}")
        if self.seeds and len(self.seeds) != self.episodes:
            raise ValueError(
                f"seeds are one per episode, and there are {len(self.seeds)} for episodes={self.episodes}"
            )
        if self.score_range and not self.score_range[0] < self.score_range[1]:
            raise ValueError(f"score_range is a low number and a higher one, got {list(self.score_range)}")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the state of a run is written to disk, and how much of it stays there."""

    every: Annotated[int, Meta(ge=1, description="generations between checkpoints")] = 10
    seconds: Annotated[float, Meta(gt=0, description="at least this often")] = 60.0
    keep: Annotated[
        int, Meta(ge=1, description="checkpoints kept, spread over the run, the newest and the best always")
    ] = 10


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run."""

    description: Annotated[str, Meta(description="what this experiment is, in a line")] = ""
    env: Annotated[Env, Meta(description="the environment")]
    policy: Annotated[PolicySpec, Meta(description="the network that acts")] = MLP()
    algorithm: Annotated[Algorithm, Meta(description="how the policy gets better")] = ES()
    evaluation: Annotated[Evaluation, Meta(description="how a fitness is measured")] = Evaluation()
    replay: Annotated[
        str | None,
        Meta(
            description="name or directory of a run of algorithm.type=pbt: one fresh agent learns with the "
            "hyperparameters that its best member and that one's ancestors had"
        ),
    ] = None
    stop: Annotated[Stop, Meta(description="when to stop: whichever comes first")] = Stop()
    checkpoint: Annotated[Checkpoint, Meta(description="what is kept on disk")] = Checkpoint()
    engine: Annotated[EngineSpec, Meta(description="where the work is done")] = Inline()
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="everything random in the run follows from it")] = 0
    genes: Annotated[dict[str, Range], Meta(description="filled from hyperparameters written as ranges")] = (
        msgspec.field(default_factory=dict)
    )

    @property
    def source(self) -> AnySource:
        """The algorithm, as where the run's agents come from."""
        return self.algorithm

    @property
    def strategy(self) -> AnyStrategy:
        """The algorithm of a run that evolves, as what all of them are."""
        assert not isinstance(self.algorithm, PPO | PBT)
        return self.algorithm

    @property
    def behaviour(self) -> str | None:
        """What is to be picked up of the episodes' behaviour, if the algorithm looks at that."""
        return self.evaluation.behaviour if isinstance(self.algorithm, Novelty) else None

    @property
    def unseen(self) -> Env | None:
        """What the agent is validated on besides, as training never shows it."""
        return self.env.unseen(self.evaluation.unseen)

    @property
    def score_range(self) -> tuple[float, float] | None:
        """What scores are normalised by, if by anything."""
        known = self.env.procgen.score_range if self.env.procgen else None
        return self.evaluation.score_range or known

    @property
    def kind(self) -> str:
        """What the algorithm is called."""
        return str(self.algorithm.__struct_config__.tag)

    def __post_init__(self) -> None:
        try:
            _ = self.unseen
        except ValueError as error:
            raise ValueError(f"evaluation.unseen: {error}") from None
        if is_steady(self.algorithm) and self.policy.normaliser is not None:
            raise ValueError(
                "algorithm.mode=steady needs policy.normaliser=null: its candidates never share statistics"
            )


class _Layer(NamedTuple):
    """One file or preset of a chain of `extends`."""

    label: str
    tree: Tree


def load_experiment(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a preset's name or a YAML file, with `key=value` overrides on top."""
    layers = _layers(source)
    tree, touched = apply_overrides(Experiment, _combine(layers), overrides)
    try:
        return _build(tree)
    except SettingError as error:
        if any(_overlap(path, error.path) for path in touched):
            raise
        raise UserError(f"{_origin(layers, error.path)}: {error}") from None


def override_experiment(experiment: Experiment, overrides: Sequence[str], allowed: Container[str]) -> Experiment:
    """The experiment with some of its top-level parts changed; an override of another part is an error."""
    tree = _place_genes(to_tree(experiment))
    tree, touched = apply_overrides(Experiment, tree, overrides)
    for path in touched:
        if path.partition(".")[0] not in allowed:
            parts = ", ".join(field for field in Experiment.__struct_fields__ if field in allowed)
            raise UserError(f"{path!r} cannot be changed in a run that has begun; only these can: {parts}")
    return _build(tree)


def experiment_yaml(experiment: Experiment, help: bool = False) -> str:  # noqa: A002
    """The experiment as a file for `load_experiment`, everything spelled out and genes as ranges."""
    return to_yaml(experiment, help, ranges=experiment.genes, omit=("genes",))


def preset_names() -> tuple[str, ...]:
    """The experiments that come with the package."""
    files = (entry.name for entry in resources.files("rookery").joinpath("presets").iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml")))


def preset_description(name: str) -> str:
    """What a preset says of itself; a preset that says nothing has the description of what it extends."""
    described = (layer.tree["description"] for layer in _layers(name) if "description" in layer.tree)
    return str(next(described, ""))


def _build(tree: Tree) -> Experiment:
    if tree["genes"]:
        raise SettingError("genes", f"genes: {_GENES}")
    tree, genes = pull_ranges(Experiment, tree)
    for path in genes:
        if path.partition(".")[0] not in _GENE_PARTS:
            raise SettingError(path, f"{path}: cannot be a range; only {', '.join(_GENE_PARTS)} have genes")
    return msgspec.structs.replace(build(Experiment, tree), genes=genes)


def _combine(layers: Sequence[_Layer]) -> Tree:
    tree = complete(Experiment, {})
    for layer in reversed(layers):
        tree = merge(Experiment, tree, layer.tree)
    return tree


def _layers(source: str) -> list[_Layer]:
    """A preset or file and everything it extends, itself first."""
    layers: list[_Layer] = []
    name, folder, inside = source, Path(), False
    while True:
        if _is_path(name):
            path = folder / Path(name).expanduser()
            label, folder, inside = os.path.normpath(path), path.parent, False
        else:
            label, inside = f"preset {name!r}", True
        extends = _again(layers, label)
        try:
            tree = read_yaml(_preset_text(name), label) if inside else read_file(Path(label))
        except UserError as error:
            raise UserError(f"{extends}{error}") from None
        base = tree.pop("extends", None)
        layers.append(_Layer(label, _place_genes(tree)))
        if base is None:
            return layers
        if not isinstance(base, str):
            raise UserError(f"{label}: extends: expected a preset or a file, got {base!r}")
        if inside and _is_path(base):
            raise UserError(f"{label}: extends: a preset extends presets, not files such as {base!r}")
        name = base


def _again(layers: Sequence[_Layer], label: str) -> str:
    """`X: extends: ` for an error about the base of X; an experiment that extends itself is one."""
    labels = [layer.label for layer in layers]
    if label in labels:
        raise UserError(f"extends goes in a circle: {' -> '.join([*labels[labels.index(label) :], label])}")
    return f"{labels[-1]}: extends: " if labels else ""


def _is_path(source: str) -> bool:
    return source.endswith((".yaml", ".yml")) or "/" in source or os.sep in source


def _preset_text(name: str) -> str:
    known = preset_names()
    if name not in known:
        hint = did_you_mean(name, known)
        raise UserError(f"there is no preset {name!r}.{hint} `rookery presets` lists them")
    return resources.files("rookery").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8")


def _place_genes(tree: Tree) -> Tree:
    """The tree with `genes`, as a finished experiment has them, put back into the places they came from."""
    genes = tree.get("genes")
    if not isinstance(genes, dict):
        return tree
    tree = {name: value for name, value in tree.items() if name != "genes"}
    for path, value in genes.items():
        written: Any = value
        if isinstance(value, dict):
            written = {name: item for name, item in value.items() if name != "integer"}
        tree = place(tree, path, written)
    return tree


def _origin(layers: Sequence[_Layer], path: str) -> str:
    """The file that says something at a path, or nearest above it; the first one when none does."""
    while path:
        for layer in layers:
            if lookup(layer.tree, path) is not ABSENT:
                return layer.label
        path = path.rpartition(".")[0]
    return layers[0].label


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
