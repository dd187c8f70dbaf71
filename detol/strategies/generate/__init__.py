"""The generator: topologies decoded from a latent space, ranked by a predictor."""

from detol.strategies.generate.strategy import Generate

__all__ = ["Generate"]
