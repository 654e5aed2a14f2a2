"""Long chats of which only the last messages are read: message numbers count from the first one read."""

from __future__ import annotations

from tavernkit._values import Json, JsonObject, is_list, is_object

TIMED = "timedWorldInfo"
"""The key of a chat's timed effects: which lore is sticky or on cooldown, and for which messages."""
CACHED = "tavernkit_cache"
"""The key of the state of prompt-cache builds (``plan.metadata_changes``)."""


def moved(details: JsonObject, by: int) -> JsonObject:
    """Return the details of a chat with shifted message numbers, for builds and back."""
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
    """Shift the cut of the history and the positions of frozen lore; those before the first message are dropped."""
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
