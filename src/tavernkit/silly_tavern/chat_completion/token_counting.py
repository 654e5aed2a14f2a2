"""What a message costs, counted exactly as SillyTavern counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tavernkit.budget.families import family_of
from tavernkit.budget.tokenizers import BundledTokenizer, get_tokenizer
from tavernkit.silly_tavern.limits import LONG_TEXT_CHARACTERS, TOKEN_CACHE_SIZE
from tavernkit.values import LRUCache

PRIMING_TOKENS = 3
"""Kept free once a prompt, for the start of the reply."""

O200K_MARKS = ("o1-preview", "o1-mini", "o3-mini", "gpt-5", "gpt-6-astra", "o3", "o4-mini")
O200K_MARKS_GPT4 = ("gpt-4o", "chatgpt-4o-latest", "gpt-4.1", "gpt-4.5")
OTHER_FAMILIES = (
    "claude",
    "llama3",
    "llama-3",
    "llama",
    "mistral",
    "yi",
    "deepseek",
    "gemma",
    "gemini",
    "jamba",
    "qwen2",
    "command-r",
    "command-a",
    "nemo",
)
"""Parts of model names that SillyTavern counts with a tokenizer other than OpenAI's."""

MODEL_NAMED_SOURCES = ("openai", "custom", "azure_openai")
"""Sources whose tokenizer follows the model's name."""

SOURCE_TOKENIZERS = {"claude": "claude", "makersuite": "gemma", "vertexai": "gemma", "deepseek": "deepseek"}


@dataclass(frozen=True, slots=True)
class CountingRule:
    """A tokenizer and what each message costs besides its texts."""

    tokenizer: str
    per_message: int = 4
    per_name: int = 1


def counting_rule(source: str, model: str) -> CountingRule:
    """How SillyTavern counts for a model. Families without a vocabulary here use the nearest one that is bundled."""
    if source not in MODEL_NAMED_SOURCES:
        family = SOURCE_TOKENIZERS.get(source)
        return CountingRule(_nearest(family)) if family else CountingRule("cl100k_base")
    if model == "gpt-3.5-turbo-0301":
        return CountingRule("cl100k_base", per_message=14, per_name=-1)
    if model == "o1" or any(mark in model for mark in (*O200K_MARKS, *O200K_MARKS_GPT4)):
        return CountingRule("o200k_base")
    if "gpt-4" in model or "gpt-3.5-turbo" in model:
        return CountingRule("cl100k_base")
    named = next((family for family in OTHER_FAMILIES if family in model.lower()), None)
    return CountingRule(_nearest(named)) if named else CountingRule("cl100k_base")


def _nearest(family: str) -> str:
    found = family_of(family)
    return found.tokenizer if found is not None else "cl100k_base"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class MessageCounter:
    """Counts messages for one model; remembers the counts of texts, so a next turn counts only what is new."""

    def __init__(self, rule: CountingRule, *, count: Callable[[str], int] | None = None) -> None:
        """``count`` counts texts in the place of the rule's own tokenizer."""
        self.rule = rule
        self._count = count
        self._tokenizer: BundledTokenizer | None = None
        self._counts: LRUCache[str | bytes, int] = LRUCache(TOKEN_CACHE_SIZE)

    def text(self, text: str) -> int:
        """The tokens of a text; -1 if it spells out a special token, which SillyTavern's encoder refuses."""
        key = text if len(text) <= LONG_TEXT_CHARACTERS else _digest(text)
        count = self._counts.get(key)
        if count is None:
            count = self._count(text) if self._count is not None else self._encoded(text)
            self._counts.put(key, count)
        return count

    def _encoded(self, text: str) -> int:
        if self._tokenizer is None:
            self._tokenizer = get_tokenizer(self.rule.tokenizer)
        return -1 if self._tokenizer.has_special_token(text) else self._tokenizer.count(text)

    def message(self, role: str, content: str, name: str | None = None) -> int:
        """What a message costs. Counting stops at the first of role, content and name that cannot be encoded."""
        total = self.rule.per_message
        texts = (role, content) if name is None else (role, content, name)
        for position, text in enumerate(texts):
            count = self.text(text)
            if count < 0:
                return total
            total += count + (self.rule.per_name if position == 2 else 0)  # the name is the third
        return total

    def texts(self, texts: Sequence[str]) -> int:
        """What a message costs whose values are these texts (a tool call, say)."""
        total = self.rule.per_message
        for text in texts:
            count = self.text(text)
            if count < 0:
                return total
            total += count
        return total
