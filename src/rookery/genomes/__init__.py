"""Genomes: compact recipes for parameters, and how a worker makes the parameters from them."""

from rookery.genomes.materialise import Materialiser
from rookery.genomes.recipes import Genome, SignedSeed, Vector
from rookery.genomes.space import Parameter, ParameterSpace

__all__ = ["Genome", "Materialiser", "Parameter", "ParameterSpace", "SignedSeed", "Vector"]
