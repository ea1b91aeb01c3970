"""Genomes: compact recipes for parameters, and how a worker makes the parameters from them."""

from rookery.genomes.chains import keyframes
from rookery.genomes.materialise import Materialiser
from rookery.genomes.recipes import (
    NO_LINEAGE,
    Child,
    Genome,
    Keyframe,
    Lineage,
    Link,
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
    "Materialiser",
    "Parameter",
    "ParameterSpace",
    "SeedChain",
    "SignedSeed",
    "Vector",
    "keyframes",
]
