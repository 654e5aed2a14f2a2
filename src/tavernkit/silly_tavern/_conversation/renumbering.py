"""Chats of which only the last messages are read: what counts messages counts from the first that is read."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject, is_list, is_object

TIMED = "timedWorldInfo"
"""Where a chat keeps which lore is sticky or cooling down, and from which message to which."""
CACHED = "tavernkit_cache"
"""Where builds that keep a prompt cache keep what the next one has to know (``plan.metadata_changes``)."""


def moved(details: JsonObject, by: int) -> JsonObject:
    """The details of a chat whose messages have other numbers: those from ``-unread`` on for builds, and back."""
    timed, cached = details.get(TIMED), details.get(CACHED)
    if not by:
        return details
    found = dict(details)
    if is_object(timed):
        found[TIMED] = {kind: _each(effects, by) if is_object(effects) else effects for kind, effects in timed.items()}
    if is_object(cached):
        found[CACHED] = _moved_cache(cached, by)
    return found


def _each(effects: JsonObject, by: int) -> JsonObject:
    return {key: _one(effect, by, "start", "end") if is_object(effect) else effect for key, effect in effects.items()}


def _moved_cache(cached: JsonObject, by: int) -> JsonObject:
    """Where the history was cut, and behind which messages lore is; what is before the first one is gone."""
    lore, cut = cached.get("lore"), cached.get("cut")
    found = dict(cached)
    if isinstance(cut, int):
        found["cut"] = max(cut + by, 0)
    if is_list(lore):
        placed = [_one(line, by, "after") for line in lore if is_object(line)]
        found["lore"] = [line for line in placed if not isinstance(after := line.get("after"), int) or after >= 0]
    return found


def _one(effect: JsonObject, by: int, *names: str) -> JsonObject:
    numbers: dict[str, Json] = {
        name: value + by for name in names if isinstance(value := effect.get(name), (int, float))
    }
    return {**effect, **numbers}
