"""Pruning of trained networks, step by step: edges and nodes, channels and filters, neurons."""
