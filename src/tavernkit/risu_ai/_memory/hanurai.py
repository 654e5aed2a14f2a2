"""Hanurai: no summaries; old messages that resemble the newest ones are recalled."""

from __future__ import annotations

from tavernkit._text.js_values import trim
from tavernkit.risu_ai._memory.contract import MemoryInput, MemoryOutcome, memory_message, whole_number
from tavernkit.risu_ai._memory.similarity import Similarity

DEFAULT_TOKENS = 1000
QUERY_ITEMS = 3
KEPT_ITEMS = 3
DOCUMENT, QUERY = "search_document: ", "search_query: "
CUT_CHARACTERS = 16
"""How much of the mark in front of a text is cut off again: one character less than it has, as RisuAI does."""


def hanurai(given: MemoryInput) -> MemoryOutcome:
    """Drop items from the front until there is room, then fill it with messages that resemble the newest ones."""
    items = list(given.items)
    reserve = given.settings.get("hanuraiTokens")
    room = whole_number(reserve, DEFAULT_TOKENS)
    documents: list[str] = []
    for item in items[: max(len(items) - KEPT_ITEMS, 0)]:
        texts = item.content.split("\n\n") if given.settings.get("hanuraiSplit") else [item.content]
        documents += [DOCUMENT + text for text in map(trim, texts) if text]
    queries = [QUERY + item.content for item in reversed(items[-QUERY_ITEMS:])]
    ranked = Similarity(given.embed, documents).ranked_by_newest(queries)
    total = given.total
    gone = 0
    while gone < len(items) and total + room > given.max_context:
        total -= given.counter.message(items[gone])
        gone += 1
    chosen: list[str] = []
    for document in ranked:
        text = document[CUT_CHARACTERS:]
        cost = given.counter.message(memory_message(text)) + 2
        if total + cost >= given.max_context:
            break
        total += cost
        chosen.append(text)
    message = memory_message("\n\n".join(chosen))
    return MemoryOutcome(items=[message, *items[gone:]], total=total)
