"""What was left out of a prompt, and why."""

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
