"""Cache marks for Anthropic's API."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.silly_tavern.providers._converters.messages import MessageConversionError, Messages, copied


def cache_mark(ttl: str | None) -> JsonObject:
    """Return a ``cache_control`` value; without a time, the provider's default applies."""
    return {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}


def cache_at_depth(messages: Sequence[JsonObject], depth: int, ttl: str) -> Messages:
    """Put cache marks at ``depth`` and two role changes deeper, counted from the end without the prefill."""
    turns = copied(messages)
    for turn in turns_at_depth(turns, depth):
        _last_part(turn)["cache_control"] = cache_mark(ttl)
    return turns


def turns_at_depth(turns: Messages, depth: int, *, skip_system: bool = False) -> list[JsonObject]:
    """Return the messages at ``depth`` role changes from the end, and at two more, ignoring a prefill."""
    found: list[JsonObject] = []
    passed_prefill = False
    switches = 0
    previous: Json = ""
    for turn in reversed(turns):
        role = turn.get("role")
        if not passed_prefill and role == "assistant":
            continue
        passed_prefill = True
        if role == previous or (skip_system and role == "system"):
            continue
        if switches in (depth, depth + 2):
            found.append(turn)
        switches += 1
        previous = role
    return found


def _last_part(turn: JsonObject) -> JsonObject:
    content = turn.get("content")
    if not is_list(content) or not content or not is_object(content[-1]):
        raise MessageConversionError("a message to be cached must have a list of parts that is not empty")
    return content[-1]
