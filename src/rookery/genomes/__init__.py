"""Genomes: compact recipes for parameters, and how a worker makes the parameters from them."""

from rookery.genomes.recipes import Genome, SignedSeed, Vector, materialise
from rookery.genomes.space import Parameter, ParameterSpace

__all__ = ["Genome", "Parameter", "ParameterSpace", "SignedSeed", "Vector", "materialise"]
