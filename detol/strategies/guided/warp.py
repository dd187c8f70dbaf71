"""The warp of the scores, which the predictor shares: :mod:`detol.embedding.warp`."""

from detol.embedding.warp import MARGIN, log_regret, standardised

__all__ = ["MARGIN", "log_regret", "standardised"]
