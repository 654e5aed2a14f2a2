"""SupaMemory: one running summary; and HypaMemory, its variant that also keeps what was condensed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tavernkit._text.js_values import JSSyntaxError, json_parse, json_stringify, truthy
from tavernkit._values import Json, is_list, is_object
from tavernkit.risu_ai._chat.prompt_message import NEW_CHAT_MEMO, PromptMessage
from tavernkit.risu_ai._memory.contract import MemoryInput, MemoryOutcome, Similarity, ask_for_summary, memory_message
from tavernkit.risu_ai._requests.text_completion import chat_text
from tavernkit.risu_ai.errors import MemoryFailedError

HEADROOM = 10
"""Tokens that RisuAI adds before it looks whether the prompt fits; they stay in the total if it does not."""
DEFAULT_CHUNK = 1200
LEAST_CHUNK = 500
SHRINK = 0.7
SHORTEST_DATA = 5
MOST_PARAGRAPHS, MOST_PARAGRAPHS_HYPA = 4, 3
PAST_EVENTS = 3
QUERY_ITEMS = 4
HYPA_LINE = "hypa:"
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
        self.past_events = ""
        self.records: list[Json] = []
        size = given.settings.get("maxSupaChunkSize")
        most = size if isinstance(size, (int, float)) and not isinstance(size, bool) else DEFAULT_CHUNK
        self.chunk_limit: float = min(given.max_context // 3, most)
        self.condensed = False
        self.last_id: str | None = ""

    def run(self) -> MemoryOutcome:
        if self.total <= self.given.max_context:
            return MemoryOutcome(items=list(self.given.items), total=self.given.total)
        self.drop(next((i for i, item in enumerate(self.items) if item.memo == NEW_CHAT_MEMO), 0))
        self.load()
        if self.total < self.given.max_context:  # RisuAI stores memory again when it fits exactly
            message = memory_message(f"{self.summary}\n\n{self.past_events}")
            return MemoryOutcome(items=[message, *self.items], total=self.total)
        while self.total > self.given.max_context:
            self.summarise_next()
        return MemoryOutcome(
            items=[memory_message(self.summary), *self.items],
            total=self.total,
            stored={"supaMemoryData": self.stored(), "lastMemory": self.last_id},
            last_memory=self.last_id,
        )

    def drop(self, count: int) -> None:
        self.total -= self.given.cost(self.items[:count])
        del self.items[:count]

    def load(self) -> None:
        data = self.given.chat.get("supaMemoryData")
        if not isinstance(data, str) or len(data) < SHORTEST_DATA:
            return
        identifier, _, text = data.partition("\n")
        if identifier == HYPA_LINE:
            text = self.load_hypa(text)
        else:
            self.drop_to(identifier)
        removes = self.given.settings.get("removePunctuationHypa")
        if removes is None or truthy(removes):
            text = _PUNCTUATION.sub("", text)
        self.replace(text)

    def load_hypa(self, text: str) -> str:
        if not self.hypa:
            raise MemoryFailedError("memory_kind_mismatch", "the chat's memory was made by HypaMemory")
        memos = {item.memo for item in self.items}
        self.records = _read_records(text)
        for record in self.records:
            if is_object(record) and record.get("id") in memos:
                self.drop_to(str(record["id"]))
                paragraphs = record.get("hypa")
                self.recall([str(each) for each in paragraphs] if is_list(paragraphs) else [])
                return str(record.get("supa") or "")
        raise MemoryFailedError("memory_message_not_found", "no message of the stored memory is in the chat")

    def drop_to(self, identifier: str) -> None:
        position = next((i for i, item in enumerate(self.items) if item.memo == identifier), None)
        if position is None:
            raise MemoryFailedError("memory_message_not_found", "the message of the stored memory is not in the chat")
        self.drop(position)
        self.last_id = identifier

    def recall(self, past: list[str]) -> None:
        """Find the stored paragraphs that resemble the first items of the chat."""
        self.past = past
        spoken = [item for item in self.items if item.role != "system"]
        query = chat_text(spoken[:QUERY_ITEMS], self.given.character_name)
        found = Similarity(self.given.embed, past).ranked([(query, 1.0)])
        if found:
            self.past_events = "past events: " + ",".join(found[:PAST_EVENTS])

    def summarise_next(self) -> None:
        taken = self.take()
        if taken is None:
            self.make_room()
            return
        new = _BLANK_LINES.sub("\n", self.ask(self.script(taken)))
        self.drop(len(taken))
        self.past.append(new)
        paragraphs = self.summary.split("\n\n")  # condensed only now: the new part stays a paragraph of its own
        if len(paragraphs) >= (MOST_PARAGRAPHS_HYPA if self.hypa else MOST_PARAGRAPHS):
            self.replace(self.ask(self.summary))
        self.replace(f"{self.summary}\n\n{new}" if self.summary else new)

    def take(self) -> Sequence[PromptMessage] | None:
        """Take items from the front for one chunk; None if everything would go into it.

        The memory ends before the item that did not fit. That is so even for an item that is too large for any chunk
        and makes one alone.
        """
        used = 0
        for count, item in enumerate(self.items):
            used += self.given.counter.message(item)
            if used <= self.chunk_limit:
                continue
            self.last_id = item.memo
            if count:
                return self.items[:count]
            if item.role not in ("user", "assistant"):
                raise self.stuck()
            return [item]
        return None

    def script(self, items: Sequence[PromptMessage]) -> str:
        """Items as lines of a script, with names."""
        names = {"assistant": self.given.character_name}
        return "".join(f"{names.get(item.role or '', self.given.user_name)}: {item.content}\n\n" for item in items)

    def make_room(self) -> None:
        """Condense the summary once; after that, use smaller chunks to keep part of the chat."""
        if not self.condensed:
            self.condensed = True
            self.replace(self.ask(self.summary))
            return
        self.chunk_limit *= SHRINK
        if self.chunk_limit < LEAST_CHUNK:
            raise self.stuck()

    def stuck(self) -> MemoryFailedError:
        return MemoryFailedError(
            "memory_cannot_summarize",
            "the prompt is too long and no more of the chat can be summarised",
            input_tokens=self.total,
            max_context=self.given.max_context,
        )

    def ask(self, text: str) -> str:
        prompt = self.given.settings.get("supaMemoryPrompt")
        return ask_for_summary(self.given, text, prompt if isinstance(prompt, str) else "")

    def replace(self, summary: str) -> None:
        count = self.given.counter.text
        self.total += count(summary) - count(self.summary)
        self.summary = summary

    def stored(self) -> str:
        # A message without an id, such as the greeting, is written like JavaScript's undefined.
        last_id = "undefined" if self.last_id is None else self.last_id
        if not self.hypa:
            return f"{last_id}\n{self.summary}"
        record: Json = {"id": last_id, "supa": self.summary, "hypa": [*self.past]}
        return f"{HYPA_LINE}\n{json_stringify([record, *self.records], 2)}"


def _read_records(text: str) -> list[Json]:
    try:
        records = json_parse(text)
    except JSSyntaxError as error:
        raise MemoryFailedError("memory_unreadable", f"the stored HypaMemory is not JSON ({error})") from error
    return records if is_list(records) else []
