"""What was left out of a prompt or moved in it, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that could have been in the prompt and is not.

    ``kind`` says what it is (``lore_entry``, ``history``, ``example``, ``prompt``, ``injection``), ``id`` and ``name``
    which one, ``reason`` why it is out, in words a person can read.
    """

    kind: str
    id: str
    reason: str
    name: str | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """Something that stands elsewhere than the platform would put it, because a cache strategy moved it."""

    kind: str
    id: str
    name: str
    """What people call it."""
    reference: str
    """Where the platform puts it."""
    place: str
    """Where it is."""
    reason: str
    """Why it was moved."""
    tokens: int | None = None
