"""Migrations of the results database (Alembic)."""
