"""Search spaces: decisions, the space class, the catalogue."""
