"""Budgets and usage of keys, and options of sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table and the columns."""
    op.create_table(
        "usage",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("day", sa.Text(), primary_key=True),
        sa.Column("character", sa.Text(), primary_key=True),
        sa.Column("upstream", sa.Text(), primary_key=True),
        sa.Column("model", sa.Text(), primary_key=True),
        sa.Column("part", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("predicted_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.Double[float](), nullable=False),
    )
    op.create_index("ix_usage_day", "usage", ["day"])
    op.add_column("api_keys", sa.Column("daily_tokens", sa.BigInteger()))
    op.add_column("api_keys", sa.Column("daily_cost", sa.Double[float]()))
    op.add_column("sessions", sa.Column("options", sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "summaries",
        sa.Column(
            "session_id", sa.Text(), sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True, nullable=False
        ),
        sa.Column("lease_until", sa.Double[float](), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
    )
