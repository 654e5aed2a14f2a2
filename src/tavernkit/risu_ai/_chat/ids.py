"""Ids for what has none: always the same for the same texts, so that builds can be repeated."""

from __future__ import annotations

import uuid

_NAMESPACE = uuid.UUID("0d2d4f3c-0f4f-4d51-8a37-6a4d0f0f9b7e")


def made_id(kind: str, *parts: object) -> str:
    """Make an id of a kind of thing from what tells it from others of its kind."""
    text = "\n".join([kind, *map(str, parts)])
    # A text may hold half a surrogate pair, which no hash takes.
    return str(uuid.uuid5(_NAMESPACE, text.encode("utf-8", "replace").decode()))
