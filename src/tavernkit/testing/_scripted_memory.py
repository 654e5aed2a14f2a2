"""Models for long-term memory that need no network and always give the same answers."""

from __future__ import annotations

import string
from collections.abc import Sequence

from tavernkit._values import JsonObject
from tavernkit.risu_ai._memory.contract import MemoryModels

SUMMARY_WORDS = 4


def first_words(messages: Sequence[JsonObject]) -> str:
    """Summarise a request by the first words of its first message."""
    text = str(messages[0].get("content", "")) if messages else ""
    return "Summary: " + " ".join(text.split()[:SUMMARY_WORDS])


def letter_counts(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by how often they have each letter."""
    return [[float(text.lower().count(letter)) for letter in string.ascii_lowercase] for text in texts]


def memory_models() -> MemoryModels:
    """A summariser and an embedder for tests."""
    return MemoryModels(summarize=first_words, embed=letter_counts)
