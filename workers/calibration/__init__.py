"""Measuring this machine once for the planner: products, what is not a product, starts, messages, reading."""
