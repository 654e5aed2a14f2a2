"""Deterministic ids for objects without one, so that builds are repeatable."""

from __future__ import annotations

import uuid

_NAMESPACE = uuid.UUID("0d2d4f3c-0f4f-4d51-8a37-6a4d0f0f9b7e")


def made_id(kind: str, *parts: object) -> str:
    """Make an id from a kind and distinguishing values."""
    text = "\n".join([kind, *map(str, parts)])
    # A text may contain a lone surrogate, which cannot be hashed.
    return str(uuid.uuid5(_NAMESPACE, text.encode("utf-8", "replace").decode()))
