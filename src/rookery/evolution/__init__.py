"""Evolution: strategies that ask for evaluations and are told their results. A new one is named here, once."""

from rookery.evolution.breeding import BreedingState
from rookery.evolution.es import ES, ESState
from rookery.evolution.evosax import Evosax, EvosaxState
from rookery.evolution.ga import GA
from rookery.evolution.nevergrad import Nevergrad, NevergradState
from rookery.evolution.novelty import Novelty, NoveltyState
from rookery.evolution.random_search import RandomSearch

Searcher = ES | GA | RandomSearch | Novelty | Nevergrad | Evosax
State = ESState | BreedingState | NoveltyState | NevergradState | EvosaxState

__all__ = [
    "ES",
    "GA",
    "BreedingState",
    "ESState",
    "Evosax",
    "EvosaxState",
    "Nevergrad",
    "NevergradState",
    "Novelty",
    "NoveltyState",
    "RandomSearch",
    "Searcher",
    "State",
]
