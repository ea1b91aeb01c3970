"""Policies: networks described in an experiment, and what they do with observations."""

from rookery.policies.cnn import CNN
from rookery.policies.impala import Impala
from rookery.policies.mlp import MLP
from rookery.policies.network import Actions, Network, Normaliser
from rookery.policies.normaliser import Moments, Scaling
from rookery.policies.policy import Policy
from rookery.policies.recurrent import LSTM, Elman
from rookery.policies.stacked import DeepGA, Nature
from rookery.policies.vector import VectorPolicy

PolicySpec = MLP | Elman | LSTM | Nature | DeepGA | Impala | VectorPolicy

__all__ = [
    "CNN",
    "LSTM",
    "MLP",
    "Actions",
    "DeepGA",
    "Elman",
    "Impala",
    "Moments",
    "Nature",
    "Network",
    "Normaliser",
    "Policy",
    "PolicySpec",
    "Scaling",
    "VectorPolicy",
]
