"""Runs migrations on the connection that the service passes."""

from __future__ import annotations

from alembic import context

from tavernkit.server.storage.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
