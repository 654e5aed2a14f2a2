"""Cache marks for Anthropic's API."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.silly_tavern.converters.messages import MessageConversionError, Messages, copied
from tavernkit.values import Json, JsonObject, is_list, is_object


def cache_mark(ttl: str | None) -> JsonObject:
    """A ``cache_control`` value; without a time it lives as long as the provider likes."""
    return {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}


def cache_at_depth(messages: Sequence[JsonObject], depth: int, ttl: str) -> Messages:
    """Put cache marks at ``depth`` and two role changes deeper, counted from the end without the prefill."""
    turns = copied(messages)
    passed_prefill = False
    switches = 0
    previous: Json = ""
    for turn in reversed(turns):
        role = turn.get("role")
        if not passed_prefill and role == "assistant":
            continue
        passed_prefill = True
        if role != previous:
            if switches in (depth, depth + 2):
                _last_part(turn)["cache_control"] = cache_mark(ttl)
            if switches == depth + 2:
                break
            switches += 1
            previous = role
    return turns


def _last_part(turn: JsonObject) -> JsonObject:
    content = turn.get("content")
    if not is_list(content) or not content or not is_object(content[-1]):
        raise MessageConversionError("a message to be cached must have a list of parts that is not empty")
    return content[-1]
