"""The guided strategy: features, kernels, surrogates, acquisition, and the strategy over them."""

from detol.strategies.guided.strategy import Guided

__all__ = ["Guided"]
