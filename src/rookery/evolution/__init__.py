"""Evolution: strategies that ask for evaluations and are told their results. A new one is named here, once."""

from rookery.evolution.breeding import BreedingState
from rookery.evolution.es import ES, ESState
from rookery.evolution.ga import GA
from rookery.evolution.random_search import RandomSearch

Algorithm = ES | GA | RandomSearch
State = ESState | BreedingState

__all__ = ["ES", "GA", "Algorithm", "BreedingState", "ESState", "RandomSearch", "State"]
