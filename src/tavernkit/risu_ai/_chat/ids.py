"""Deterministic ids for objects without one, so that builds are repeatable."""

from __future__ import annotations

import uuid
from hashlib import sha1

_NAMESPACE = uuid.UUID("0d2d4f3c-0f4f-4d51-8a37-6a4d0f0f9b7e").bytes


def made_id(kind: str, *parts: object) -> str:
    """Make an id from a kind and distinguishing values: a UUID of version 5.

    A chat has thousands of messages, and ``uuid.uuid5()`` takes three times as long.
    """
    text = "\n".join([kind, *map(str, parts)])
    # A text may contain a lone surrogate, which cannot be hashed.
    found = sha1(_NAMESPACE + text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(found[16], 16) & 3]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"
