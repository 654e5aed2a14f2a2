"""SupaMemory: one running summary, and HypaMemory, its variant with remembered paragraphs."""

from __future__ import annotations

import json
import re

from tavernkit.risu_ai.errors import MemoryFailedError
from tavernkit.risu_ai.memory.contract import HYPA_MEMO, MEMORY_MEMO, MemoryInput, MemoryOutcome, memory_message
from tavernkit.risu_ai.memory.requests import ask_for_summary
from tavernkit.risu_ai.memory.similarity import Similarity
from tavernkit.risu_ai.prompt_message import NEW_CHAT_MEMO, PromptMessage
from tavernkit.values import Json, JsonObject, is_object

HEADROOM = 10
DEFAULT_CHUNK = 1200
LEAST_CHUNK = 500
SHRINK = 0.7
MOST_PARAGRAPHS, MOST_PARAGRAPHS_HYPA = 4, 3
PAST_EVENTS = 3
QUERY_ITEMS = 4
_PUNCTUATION = re.compile(r"[.,/#!$%^&*;:{}=\-_`~()]")
_BLANK_LINES = re.compile(r"\n{2,}")


def supa_memory(given: MemoryInput, *, hypa: bool) -> MemoryOutcome:
    """Keep a summary of what no longer fits."""
    return _Supa(given, hypa).run()


class _Supa:
    def __init__(self, given: MemoryInput, hypa: bool) -> None:
        self.given = given
        self.hypa = hypa
        self.items = list(given.items)
        self.total = given.total + HEADROOM
        self.summary = ""
        self.past: list[str] = []
        self.records: list[Json] = []
        size = given.settings.get("maxSupaChunkSize")
        most = size if isinstance(size, (int, float)) and not isinstance(size, bool) else DEFAULT_CHUNK
        self.chunk_limit: float = min(given.max_context // 3, most)
        self.last_id: str | None = None
        self.hypa_text = ""

    def run(self) -> MemoryOutcome:
        if self.total <= self.given.max_context:
            return MemoryOutcome(items=list(self.given.items), total=self.given.total)
        self.drop_before(next((i for i, item in enumerate(self.items) if item.memo == NEW_CHAT_MEMO), 0))
        self.load()
        if self.total < self.given.max_context and self.summary:
            return MemoryOutcome(items=[self.message(), *self.items], total=self.total)
        while self.total > self.given.max_context:
            self.summarise_chunk()
        return MemoryOutcome(
            items=[self.message(), *self.items],
            total=self.total,
            stored={"supaMemoryData": self.stored(), "lastMemory": self.last_id},
            last_memory=self.last_id,
        )

    def drop_before(self, position: int) -> None:
        self.total -= self.given.cost(self.items[:position])
        del self.items[:position]

    def load(self) -> None:
        data = self.given.chat.get("supaMemoryData")
        if not isinstance(data, str) or len(data) <= 4:
            return
        identifier, _, rest = data.partition("\n")
        if identifier == "hypa:":
            rest = self.load_hypa(rest)
        else:
            self.drop_to(identifier)
        if self.given.settings.get("removePunctuationHypa", True) is not False:
            rest = _PUNCTUATION.sub("", rest)
        self.summary = rest
        self.total += self.given.counter.text(rest)

    def load_hypa(self, text: str) -> str:
        if not self.hypa:
            raise MemoryFailedError("memory_kind_mismatch", "the chat's memory was made by HypaMemory")
        memos = {item.memo for item in self.items}
        self.records = json.loads(text)
        for record in self.records:
            if is_object(record) and record.get("id") in memos:
                self.drop_to(str(record["id"]))
                hypa = record.get("hypa")
                self.recall([str(each) for each in hypa] if isinstance(hypa, list) else [])
                return str(record.get("supa") or "")
        raise MemoryFailedError("memory_message_not_found", "no message of the stored memory is in the chat")

    def drop_to(self, identifier: str) -> None:
        position = next((i for i, item in enumerate(self.items) if item.memo == identifier), None)
        if position is None:
            raise MemoryFailedError("memory_message_not_found", "the message of the stored memory is not in the chat")
        self.drop_before(position)

    def recall(self, known: list[str]) -> None:
        spoken = [item for item in self.items if item.role != "system"][:QUERY_ITEMS]
        query = "\n\n".join(f"{item.role}: {item.content}" for item in spoken)
        self.past = known
        found = Similarity(self.given.models.embed, known).ranked([(query, 1.0)])[:PAST_EVENTS]
        self.hypa_text = "past events: " + ",".join(found) if found else ""

    def message(self) -> PromptMessage:
        text = f"{self.summary}\n\n{self.hypa_text}"
        return memory_message(text, HYPA_MEMO if self.hypa else MEMORY_MEMO)

    def summarise_chunk(self) -> None:
        taken, text = self.take()
        if not taken:
            self.shrink()
            return
        self.total -= self.given.cost(taken)
        summary = self.ask(text)
        most = MOST_PARAGRAPHS_HYPA if self.hypa else MOST_PARAGRAPHS
        if len(self.summary.split("\n\n")) >= most:
            self.replace(self.ask(self.summary))
        new = _BLANK_LINES.sub("\n", summary)
        self.replace(f"{self.summary}\n\n{new}" if self.summary else new)

    def take(self) -> tuple[list[PromptMessage], str]:
        """Items from the front that make one chunk."""
        text, taken, used = "", list[PromptMessage](), 0
        while self.items:
            item = self.items[0]
            cost = self.given.counter.message(item)
            if used + cost > self.chunk_limit and taken:
                self.last_id = item.memo
                break
            used += cost
            text += f"{self.name_of(item)}: {item.content}\n\n"
            taken.append(self.items.pop(0))
        return taken, text

    def name_of(self, item: PromptMessage) -> str:
        return self.given.character_name if item.role == "assistant" else self.given.user_name

    def shrink(self) -> None:
        if self.chunk_limit < LEAST_CHUNK:
            raise MemoryFailedError("memory_cannot_summarize", "the summary alone does not fit the context")
        self.replace(self.ask(self.summary))
        self.chunk_limit *= SHRINK

    def ask(self, text: str) -> str:
        prompt = self.given.settings.get("supaMemoryPrompt")
        return ask_for_summary(self.given, text, prompt if isinstance(prompt, str) else "")

    def replace(self, summary: str) -> None:
        count = self.given.counter.text
        self.total += count(summary) - count(self.summary)
        self.summary = summary

    def stored(self) -> str:
        if not self.hypa:
            return f"{self.last_id}\n{self.summary}"
        record: JsonObject = {"id": self.last_id, "supa": self.summary, "hypa": [*self.past]}
        return "hypa:\n" + json.dumps([record, *self.records], ensure_ascii=False)
