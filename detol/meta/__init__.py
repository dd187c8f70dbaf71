"""Meta-learning over data sets: what they are like, how near they are, and what of one is worth for another."""
