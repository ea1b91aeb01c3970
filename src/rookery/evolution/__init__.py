"""Evolution: strategies that ask for evaluations and are told their results. A new one is named here, once."""

from rookery.evolution.es import ES, ESState

Algorithm = ES
State = ESState

__all__ = ["ES", "Algorithm", "ESState", "State"]
