"""Early stopping of trials: one rule per file."""
