"""Data sets: reading, splitting, standardising."""
