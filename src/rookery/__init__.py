"""Rookery breeds reinforcement-learning agents, on one laptop or on a fleet."""

__version__ = "0.1.0"
