"""Runs the searches of Vector Storage with an index and an embedder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tavernkit.embeddings._embedder import Embedder
from tavernkit.embeddings._index import IndexItem, VectorIndex
from tavernkit.silly_tavern._chat.vector_storage import (
    CHAT_COLLECTION,
    Cutting,
    VectorCall,
    VectorHit,
    VectorResults,
)
from tavernkit.silly_tavern._macros.seeding import string_hash

MESSAGE_CHUNK_SIZE = 400
"""SillyTavern's chunk size for chat messages."""


def index_chat(
    texts: Iterable[str], index: VectorIndex, embedder: Embedder, *, chunk_size: int = MESSAGE_CHUNK_SIZE
) -> None:
    """Add the messages of a chat to an index; existing ones are skipped.

    Args:
        texts: The texts of messages in prompts.
        index: The index of this chat.
        embedder: Makes vectors.
        chunk_size: Longer messages are split.
    """
    cutting = Cutting(chunk_size)
    items = [
        IndexItem(chunk, str(string_hash(text)), place)
        for text in texts
        if text
        for place, chunk in enumerate(cutting.chunks(text))
    ]
    _index(CHAT_COLLECTION, items, index, embedder)


def search_vectors(calls: Sequence[VectorCall], index: VectorIndex, embedder: Embedder) -> VectorResults:
    """Run a plan's ``vector_calls`` and return the results, for ``vectors=`` of the next build.

    Args:
        calls: ``plan.vector_calls``.
        index: The index of this chat.
        embedder: Makes vectors.
    """
    hits: dict[str, list[VectorHit]] = {}
    indexed: set[str] = set()
    vectors: dict[str, Sequence[float]] = {}
    for call in calls:
        if call.call == "insert":
            items = [IndexItem(item.text, str(string_hash(item.text)), item.index) for item in call.items]
            _index(call.collections[0], items, index, embedder)
            indexed.update(call.collections)
            continue
        if call.search_text not in vectors:
            vectors[call.search_text] = embedder.embed([call.search_text])[0]
        found = index.search(
            call.collections, vectors[call.search_text], top_k=int(call.top_k), threshold=call.threshold
        )
        for match in found:
            hits.setdefault(match.collection, []).append(VectorHit(match.text, match.place, int(match.key)))
    return VectorResults(hits, frozenset(indexed))


def _index(collection: str, items: Sequence[IndexItem], index: VectorIndex, embedder: Embedder) -> None:
    known = index.keys(collection)
    new = [item for item in items if item.key not in known]
    if new:
        index.add(collection, new, embedder.embed([item.text for item in new]))
