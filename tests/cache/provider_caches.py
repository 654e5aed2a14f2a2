"""Providers' caches, simulated on the bodies of requests: they know tokens and bytes, and nothing of plans."""

from __future__ import annotations

from dataclasses import dataclass, field

from tavernkit._values import Json, JsonObject, is_list, is_object
from tavernkit.budget import get_tokenizer

TOKENIZER = get_tokenizer("o200k_base")
START, END = -1, -2
"""ChatML's special tokens."""


def tokens_of(body: JsonObject) -> list[int]:
    """What a chat template makes of the messages of an OpenAI request."""
    ids: list[int] = []
    messages = body["messages"]
    for message in messages if is_list(messages) else []:
        if is_object(message):
            start, end = TOKENIZER.encode(f"{message['role']}\n"), TOKENIZER.encode("\n")
            ids += [START, *start, *TOKENIZER.encode(_text(message["content"])), END, *end]
    return ids


def _text(content: Json) -> str:
    if is_list(content):
        return "".join(str(part["text"]) for part in content if is_object(part))
    return str(content)


@dataclass
class SlotCache:
    """llama.cpp: a slot keeps the tokens of its last request, and skips those that are the same."""

    slot: list[int] = field(default_factory=list[int])

    def send(self, ids: list[int]) -> int:
        cached = 0
        while cached < min(len(ids), len(self.slot)) and ids[cached] == self.slot[cached]:
            cached += 1
        self.slot = ids
        return cached


@dataclass
class UnitCache:
    """OpenAI: hashes of prefixes, from 1,024 tokens on in steps of 128."""

    minimum: int = 1024
    unit: int = 128
    prefixes: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])

    def send(self, ids: list[int]) -> int:
        ends = range(self.minimum, len(ids) + 1, self.unit)
        cached = max((end for end in ends if tuple(ids[:end]) in self.prefixes), default=0)
        self.prefixes.update(tuple(ids[:end]) for end in ends)
        return cached


@dataclass
class MarkCache:
    """Anthropic: entries at marked blocks, found from a mark at most 20 blocks back."""

    minimum: int = 1024
    window: int = 20
    entries: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    total: int = 0

    def send(self, body: JsonObject) -> int:
        texts, counts, marks = self._blocks(body)
        self.total = sum(counts)
        assert len(marks) <= 4
        hit = 0
        for mark in marks:
            for end in range(mark + 1, max(mark + 1 - self.window, 0), -1):
                if tuple(texts[:end]) in self.entries:
                    hit = max(hit, end)
                    break
        self.entries.update(tuple(texts[: mark + 1]) for mark in marks if sum(counts[: mark + 1]) >= self.minimum)
        return sum(counts[:hit])

    @staticmethod
    def _blocks(body: JsonObject) -> tuple[list[str], list[int], list[int]]:
        system, messages = body["system"], body["messages"]
        blocks: list[tuple[str, JsonObject]] = []
        listed = system if is_list(system) else [{"type": "text", "text": system}]
        blocks += [("system", block) for block in listed if is_object(block)]
        for message in messages if is_list(messages) else []:
            if is_object(message) and is_list(content := message["content"]):
                blocks += [(str(message["role"]), block) for block in content if is_object(block)]
        texts = [f"{role}\n{block['text']}" for role, block in blocks]
        counts = [len(TOKENIZER.encode(text)) + 3 for text in texts]
        return texts, counts, [number for number, (_, block) in enumerate(blocks) if "cache_control" in block]
