"""One file per released schema."""
