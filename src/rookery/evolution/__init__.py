"""Evolution: strategies that ask for evaluations and are told their results. A new one is named here, once."""

from rookery.evolution.breeding import BreedingState
from rookery.evolution.es import ES, ESState
from rookery.evolution.ga import GA
from rookery.evolution.novelty import Novelty, NoveltyState
from rookery.evolution.random_search import RandomSearch

Algorithm = ES | GA | RandomSearch | Novelty
State = ESState | BreedingState | NoveltyState

__all__ = ["ES", "GA", "Algorithm", "BreedingState", "ESState", "Novelty", "NoveltyState", "RandomSearch", "State"]
