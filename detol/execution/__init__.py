"""Executors that need no cluster: inline and simulated."""
