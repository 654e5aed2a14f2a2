"""Indexes for finding old turns and jobs."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the indexes."""
    op.create_index("ix_turns_created", "turns", ["created_at"])
    op.create_index("ix_jobs_created", "jobs", ["created_at"])
