"""Errors of conversations."""

from __future__ import annotations

from tavernkit.errors import ConfigError, TavernKitError


class ConversationBusyError(ConfigError):
    """An operation was started inside another one of the same conversation, which would wait for itself."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="CONVERSATION_BUSY")


class StoreError(TavernKitError, OSError):
    """A conversation could not be saved or loaded; the previously saved data is unchanged."""


class StoreConflictError(StoreError):
    """Another program has changed the file since it was loaded or saved here; it was not overwritten."""
