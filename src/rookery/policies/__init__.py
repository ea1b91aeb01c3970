"""Policies: networks described in an experiment, and what they do with observations."""

from rookery.policies.mlp import MLP
from rookery.policies.network import Actions, Network, Normaliser
from rookery.policies.normaliser import Moments, Scaling
from rookery.policies.policy import Policy
from rookery.policies.recurrent import LSTM, Elman

PolicySpec = MLP | Elman | LSTM

__all__ = [
    "LSTM",
    "MLP",
    "Actions",
    "Elman",
    "Moments",
    "Network",
    "Normaliser",
    "Policy",
    "PolicySpec",
    "Scaling",
]
