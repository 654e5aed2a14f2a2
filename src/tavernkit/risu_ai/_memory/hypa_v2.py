"""Kinds of memory that recall what resembles the newest messages: HypaV2, with summaries of chunks, and Hanurai."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress

from tavernkit._text.js_values import json_stringify, trim
from tavernkit._values import Json, JsonObject, is_mapping, is_sequence, thaw_object
from tavernkit.risu_ai._chat.prompt_message import PromptMessage
from tavernkit.risu_ai._memory.contract import (
    MemoryInput,
    MemoryOutcome,
    Similarity,
    as_lines,
    ask_for_summary,
    memory_message,
    paragraphs,
)
from tavernkit.risu_ai._objects import whole_number
from tavernkit.risu_ai.errors import MemoryFailedError

DEFAULT_ALLOCATION = 3000
DEFAULT_CHUNK = 3000
KEPT_ITEMS = 4
QUERY_ITEMS = 3
MAX_FAILURES = 3
DOCUMENT, QUERY = "search_document: ", "search_query: "


def hypa_v2(given: MemoryInput) -> MemoryOutcome:
    """Summarise what does not fit in chunks, and recall the relevant chunks."""
    return _HypaV2(given).run()


class _HypaV2:
    def __init__(self, given: MemoryInput) -> None:
        self.given = given
        self.allocation = whole_number(given.settings.get("hypaAllocatedTokens"), DEFAULT_ALLOCATION)
        self.chunk_size = whole_number(given.settings.get("hypaChunkSize"), DEFAULT_CHUNK)
        self.items = list(given.items)
        self.total = given.total - given.max_response
        self.main, self.chunks, self.last_id = _load(given)
        self.start = 0

    def run(self) -> MemoryOutcome:
        self.forget_vanished()
        self.total += self.allocation
        self.start = self.first_unsummarised()
        self.total -= self.given.cost(self.items[: self.start])
        while self.total > self.given.max_context:
            self.summarise_next()
        text = self.text()
        message = memory_message(text)
        self.total += self.given.counter.message(message) - self.allocation
        stored: JsonObject = {
            "lastMainChunkID": self.last_id,
            "mainChunks": [*self.main],
            "chunks": [*self.chunks],
        }
        return MemoryOutcome(
            items=[message, *self.items[self.start :]],
            total=self.total + self.given.max_response,
            stored={"hypaV2Data": stored},
        )

    def forget_vanished(self) -> None:
        memos = {item.memo for item in self.items}
        self.main = [chunk for chunk in self.main if all(_id(memo) in memos for memo in _memos(chunk))]
        kept = {_id(chunk.get("id")) for chunk in self.main}
        self.chunks = [chunk for chunk in self.chunks if _id(chunk.get("mainChunkID")) in kept]
        last = self.main[-1].get("id") if self.main else 0
        self.last_id = whole_number(last, 0)

    def first_unsummarised(self) -> int:
        if not self.main or "lastChatMemo" not in self.main[-1]:
            return 0
        last = self.main[-1]["lastChatMemo"]
        found = next((i for i, item in enumerate(self.items) if item.memo == last), None)
        return 0 if found is None else found + 1

    def summarise_next(self) -> None:
        taken: list[PromptMessage] = []
        used, position = 0, self.start
        while position < len(self.items) - KEPT_ITEMS:
            item = self.items[position]
            cost = self.given.counter.message(item)
            if position == 0 or item.blank:  # RisuAI never summarises the first item, and goes on counting blank ones
                position += 1
                continue
            if cost > self.chunk_size and not taken:
                raise MemoryFailedError(
                    "memory_chunk_too_small",
                    f"a message of {cost} tokens is larger than a chunk may be",
                    message_tokens=cost,
                    chunk_size=self.chunk_size,
                )
            if used + cost > self.chunk_size:
                break
            used += cost
            taken.append(item)
            position += 1
        if not taken:
            raise MemoryFailedError(
                "memory_cannot_summarize",
                "the prompt is too long and no more of the chat can be summarised",
                input_tokens=self.total,
                max_context=self.given.max_context,
            )
        summary = self.ask(as_lines(taken))
        self.total -= used
        self.start = position
        self.last_id += 1
        self.main.append(
            {
                "id": self.last_id,
                "text": summary,
                "chatMemos": [*dict.fromkeys(item.memo for item in taken)],
                "lastChatMemo": taken[-1].memo,
            }
        )
        for part in paragraphs(summary):
            self.chunks.append({"mainChunkID": self.last_id, "text": part})

    def ask(self, text: str) -> str:
        stated = self.given.settings.get("supaMemoryPrompt")
        prompt = stated if isinstance(stated, str) else ""
        for _ in range(MAX_FAILURES - 1):
            with suppress(MemoryFailedError):
                return ask_for_summary(self.given, text, prompt)
        return ask_for_summary(self.given, text, prompt)

    def text(self) -> str:
        main, used = "", 0
        for chunk in self.main:
            text = str(chunk.get("text"))
            cost = self.given.counter.message(memory_message(text))
            if used + cost > self.allocation / 2:
                break  # later ones that would fit are not tried, here and below
            used += cost
            main += f"\n\n{text}"
        details = ""
        for text in self.ranked():
            cost = self.given.counter.message(memory_message(text))
            if used + cost > self.allocation:
                break
            used += cost
            details += f"{text}\n\n"
        return (
            f"<Past Events Summary>{main}</Past Events Summary>\n<Past Events Details>{details}</Past Events Details>"
        )

    def ranked(self) -> Sequence[str]:
        documents = [DOCUMENT + str(chunk.get("text")) for chunk in self.chunks]
        newest = [QUERY + item.content for item in reversed(self.items[-QUERY_ITEMS:])]
        found = Similarity(self.given.embed, documents).ranked_by_newest(newest)
        return [text.removeprefix(DOCUMENT) for text in found]


def _load(given: MemoryInput) -> tuple[list[JsonObject], list[JsonObject], int]:
    data = given.chat.get("hypaV2Data")
    if not is_mapping(data):
        return [], [], 0

    def objects(name: str) -> list[JsonObject]:
        found = data.get(name)
        return [thaw_object(each) for each in found if is_mapping(each)] if is_sequence(found) else []

    last = data.get("lastMainChunkID")
    return objects("mainChunks"), objects("chunks"), whole_number(last, 0)


def _id(value: Json) -> Hashable:
    """An id as it can be looked up: of a list or an object its JSON text."""
    return ("json", json_stringify(value)) if isinstance(value, (list, dict)) else value


def _memos(chunk: JsonObject) -> Sequence[Json]:
    memos = chunk.get("chatMemos")
    return memos if isinstance(memos, list) else ()


HANURAI_TOKENS = 1000
HANURAI_KEPT_ITEMS = 3
CUT_CHARACTERS = 16
"""How much of the mark in front of a text is cut off again: one character less than it has, as RisuAI does."""


def hanurai(given: MemoryInput) -> MemoryOutcome:
    """Drop items from the front until there is room, then fill it with messages that resemble the newest ones."""
    items = list(given.items)
    reserve = given.settings.get("hanuraiTokens")
    room = whole_number(reserve, HANURAI_TOKENS)
    documents: list[str] = []
    for item in items[: max(len(items) - HANURAI_KEPT_ITEMS, 0)]:
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
