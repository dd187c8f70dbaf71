"""Export of trained networks: what is written was run again, and shown to match."""
