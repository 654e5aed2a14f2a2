"""Alembic migrations of the service's database."""

HEAD = "0003"
"""The newest migration: a database that has it is not looked at further."""
