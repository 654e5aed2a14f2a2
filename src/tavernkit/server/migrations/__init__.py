"""Alembic migrations of the service's database."""

HEAD = "0003"
"""The newest migration: a database with this version needs no further check."""
