"""Genomes: compact recipes for parameters, and how a worker makes the parameters from them."""

from rookery.genomes.chains import keyframes
from rookery.genomes.materialise import Materialiser, rank_of
from rookery.genomes.recipes import (
    NO_LINEAGE,
    Child,
    Genome,
    Keyframe,
    Lineage,
    Link,
    LowRank,
    SeedChain,
    SignedSeed,
    Vector,
)
from rookery.genomes.space import Parameter, ParameterSpace

__all__ = [
    "NO_LINEAGE",
    "Child",
    "Genome",
    "Keyframe",
    "Lineage",
    "Link",
    "LowRank",
    "Materialiser",
    "Parameter",
    "ParameterSpace",
    "SeedChain",
    "SignedSeed",
    "Vector",
    "keyframes",
    "rank_of",
]
