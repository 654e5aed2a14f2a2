"""Vector Storage for chats of imported folders: an upstream embeds texts, and they are searched here."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

from tavernkit import silly_tavern as st
from tavernkit._values import Json, is_list, is_object
from tavernkit.embeddings import VectorIndex
from tavernkit.errors import TavernKitError
from tavernkit.server.limits import EMBEDDED_AT_ONCE
from tavernkit.silly_tavern._chat.vector_storage import CHAT_COLLECTION, EXTENSION
from tavernkit.silly_tavern._macros.seeding import string_hash

logger = logging.getLogger("tavernkit.server")

Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Returns a vector for each text."""

SWITCHES = ("enabled_chats", "enabled_files", "enabled_world_info")
IN_MEMORY = ":memory:"


def is_on(settings: st.Settings) -> bool:
    """Return True if Vector Storage is on."""
    found = settings.of_extension(EXTENSION)
    return found is not None and any(found.get(name) is True for name in SWITCHES)


def vectors_of(answer: Json, count: int) -> list[list[float]]:
    """Return the vectors of a ``/v1/embeddings`` answer, in the order of the texts.

    Args:
        answer: The upstream's answer.
        count: The number of texts.

    Raises:
        ValueError: The answer does not match the texts.
    """
    rows = answer.get("data") if is_object(answer) else None
    found: dict[int, list[float]] = {}
    for place, row in enumerate(rows if is_list(rows) else ()):
        numbers = row.get("embedding") if is_object(row) else None
        index = row.get("index", place) if is_object(row) else None
        if isinstance(index, int) and is_list(numbers):
            found[index] = [float(each) for each in numbers if isinstance(each, (int, float))]
    if sorted(found) != list(range(count)):
        raise ValueError(f"the upstream gave {len(found)} vectors for {count} texts")
    return [found[place] for place in range(count)]


class Vectors:
    """The indexes of chats and folders, one file each; a chat's index is removed with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def forget(self, name: str) -> None:
        """Remove the index of a chat."""
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def search(
        self, plan: st.ChatPlan, embedder: BlockingEmbedder, *, chat: str | None, folder: str
    ) -> st.VectorResults:
        """Run the searches of a plan's ``vector_calls``.

        Args:
            plan: A plan without results.
            embedder: Makes vectors.
            chat: The chat; None if it is not stored.
            folder: The folder whose files and books are searched.
        """
        own = [call for call in plan.vector_calls if CHAT_COLLECTION in call.collections]
        shared = [call for call in plan.vector_calls if CHAT_COLLECTION not in call.collections]
        hits: dict[str, Sequence[st.VectorHit]] = {}
        indexed: set[str] = set()
        if own:
            with closing(VectorIndex(self._opened(chat))) as index:
                _keep(index, CHAT_COLLECTION, plan.vector_texts)
                st.index_chat(plan.vector_texts, index, embedder)
                hits |= st.search_vectors(own, index, embedder).hits
        if shared:
            with closing(VectorIndex(self._opened(folder))) as index:
                inserted: dict[str, list[str]] = {}
                for call in shared:
                    for name in call.collections if call.items else ():
                        inserted.setdefault(name, []).extend(item.text for item in call.items)
                new: list[str] = []
                for name, texts in inserted.items():
                    known = _keep(index, name, texts)
                    new += [text for text in texts if str(string_hash(text)) not in known]
                embedder.prepare([*new, *(call.search_text for call in shared if call.search_text)])
                found = st.search_vectors(shared, index, embedder)
            hits |= found.hits
            indexed |= found.indexed
        return st.VectorResults(hits, frozenset(indexed))

    def _opened(self, name: str | None) -> str | Path:
        if name is None:
            return IN_MEMORY
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._path(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.sqlite"


def _keep(index: VectorIndex, collection: str, texts: Iterable[str]) -> frozenset[str]:
    """Remove items that are no longer among the texts, and return the existing keys."""
    known = index.keys(collection)
    gone = known - {str(string_hash(text)) for text in texts}
    if gone:
        index.remove(collection, gone)
    return known


class BlockingEmbedder:
    """Asks an upstream from a thread, and waits. Vectors of texts are cached."""

    def __init__(self, embed: Embed, loop: asyncio.AbstractEventLoop) -> None:
        self._embed = embed
        self._loop = loop
        self._known: dict[str, Sequence[float]] = {}

    def prepare(self, texts: Iterable[str]) -> None:
        """Embed texts, many at a time."""
        wanted = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(wanted), EMBEDDED_AT_ONCE):
            part = wanted[start : start + EMBEDDED_AT_ONCE]
            found = asyncio.run_coroutine_threadsafe(_awaited(self._embed(part)), self._loop).result()
            self._known |= zip(part, found, strict=True)

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return a vector for each text, in order."""
        self.prepare(texts)
        return [self._known[text] for text in texts]


async def _awaited(work: Awaitable[Sequence[Sequence[float]]]) -> Sequence[Sequence[float]]:
    return await work


def searching(
    vectors: Vectors, embedder: BlockingEmbedder, notes: list[str], *, chat: str | None, folder: str
) -> Callable[[st.ChatPlan], st.VectorResults]:
    """Return the search of a turn. A failed search is reported, and the prompt is built without results.

    Args:
        vectors: The indexes.
        embedder: Makes vectors.
        notes: Collects warnings about failures.
        chat: The chat; None if it is not stored.
        folder: Its folder.
    """

    def search(plan: st.ChatPlan) -> st.VectorResults:
        try:
            return vectors.search(plan, embedder, chat=chat, folder=folder)
        except (TavernKitError, ValueError, OSError, sqlite3.Error) as error:
            logger.warning("Vector Storage found nothing: %s", error)
            notes.append(f"Vector Storage found nothing: {error}")
            return st.VectorResults()

    return search
