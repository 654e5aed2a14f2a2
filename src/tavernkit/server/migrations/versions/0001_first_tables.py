"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "items",
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("file", sa.LargeBinary(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        *_times(),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("character", sa.Text()),
        sa.Column("group_id", sa.Text()),
        sa.Column("persona", sa.Text()),
        sa.Column("preset", sa.Text()),
        sa.Column("books", sa.JSON(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("variables", sa.JSON(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("next_position", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Text()),
        sa.Column("lease_until", sa.Double[float](), nullable=False),
        *_times(),
        sa.UniqueConstraint("owner", "external_id"),
    )
    op.create_index("ix_sessions_owner_updated", "sessions", ["owner", "updated_at"])
    op.create_table(
        "messages",
        sa.Column("id", sa.Text(), primary_key=True),
        _session(nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Text()),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("native", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        *_times(),
        sa.UniqueConstraint("session_id", "position"),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        _session(nullable=True),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.Double[float](), nullable=False),
        sa.Column("message_id", sa.Text()),
        sa.Column("reply_id", sa.Text()),
        sa.Column("response", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text()),
        *_times(),
        sa.UniqueConstraint("owner", "idempotency_key"),
    )
    op.create_index("ix_turns_session", "turns", ["session_id"])
    op.create_table(
        "global_variables",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("platform", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("value", sa.JSON(), nullable=False),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, unique=True),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("rate_limit", sa.Integer()),
        sa.Column("created_at", sa.Double[float](), nullable=False),
        sa.Column("revoked_at", sa.Double[float]()),
    )
    op.create_table(
        "rate_windows",
        sa.Column("key_id", sa.Text(), primary_key=True),
        sa.Column("window_start", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("requests", sa.Integer(), nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), primary_key=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("lease_until", sa.Double[float](), nullable=False),
        *_times(),
    )
    op.create_table(
        "upstream_secrets",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Double[float](), nullable=False),
    )


def _times() -> tuple[sa.Column[float], sa.Column[float]]:
    return sa.Column("created_at", sa.Double[float](), nullable=False), sa.Column(
        "updated_at", sa.Double(), nullable=False
    )


def _session(*, nullable: bool) -> sa.Column[str]:
    return sa.Column("session_id", sa.Text(), sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=nullable)
