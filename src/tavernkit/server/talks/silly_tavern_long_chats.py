"""Chats of which only the last messages are read: what counts messages counts from the first that is read."""

from __future__ import annotations

from tavernkit.values import Json, JsonObject, is_object

TIMED = "timedWorldInfo"
"""Where a chat keeps which lore is sticky or cooling down, and from which message to which."""


def without_unread(details: JsonObject, unread: int) -> JsonObject:
    """The details of a chat, for builds that do not see its first messages."""
    timed = details.get(TIMED)
    return {**details, TIMED: moved(timed, -unread)} if unread and is_object(timed) else details


def moved(timed: JsonObject, by: int) -> JsonObject:
    """Timed effects whose messages have other numbers."""
    if not by:
        return timed
    return {kind: _each(effects, by) if is_object(effects) else effects for kind, effects in timed.items()}


def _each(effects: JsonObject, by: int) -> JsonObject:
    return {key: _one(effect, by) if is_object(effect) else effect for key, effect in effects.items()}


def _one(effect: JsonObject, by: int) -> JsonObject:
    numbers: dict[str, Json] = {
        name: value + by for name in ("start", "end") if isinstance(value := effect.get(name), (int, float))
    }
    return {**effect, **numbers}
