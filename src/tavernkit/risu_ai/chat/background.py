"""The paragraphs of a character's additional text that have to do with what was just said."""

from __future__ import annotations

from collections.abc import Sequence

from tavernkit.errors import Warn
from tavernkit.risu_ai.memory.contract import Embed
from tavernkit.risu_ai.memory.similarity import Similarity, paragraphs
from tavernkit.risu_ai.objects import RisuMessage

BEST_PARAGRAPHS = 3
QUERY_MESSAGES = 3
DOCUMENT, QUERY = "search_document: ", "search_query: "


def background(text: str, messages: Sequence[RisuMessage], embed: Embed | None, warn: Warn) -> str:
    """Pick the paragraphs that resemble the newest messages most."""
    if not text:
        return ""
    if embed is None:
        warn("the character has an additional text: pass memory=MemoryModels(...) to have it searched; it is left out")
        return ""
    similarity = Similarity(embed, [DOCUMENT + paragraph for paragraph in paragraphs(text)])
    newest = [message.data for message in reversed(messages[-QUERY_MESSAGES:])]
    ranked = similarity.ranked_by_newest([QUERY + said for said in newest])
    return "\n\n".join(found.removeprefix(DOCUMENT) for found in ranked[:BEST_PARAGRAPHS])
