"""Export of trained networks."""
