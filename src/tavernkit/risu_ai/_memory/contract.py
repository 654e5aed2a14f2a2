"""What all variants of long-term memory share: inputs, results, requests for summaries, a search for similar texts."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Generic, TypeVar, cast

from tavernkit._arguments import require
from tavernkit._dataclass import dataclass
from tavernkit._text.js_values import trim
from tavernkit._values import FrozenObject, Json, JsonObject
from tavernkit.errors import Warn, log_warning
from tavernkit.risu_ai._budget import MessageCounter
from tavernkit.risu_ai._chat.prompt_message import PromptMessage, parse_chat_ml
from tavernkit.risu_ai._js import replace_delimited
from tavernkit.risu_ai._limits import MAX_FILLED_TEXT
from tavernkit.risu_ai.errors import MemoryFailedError

MEMORY_MEMO = "supaMemory"
MEMORY_MEMOS = (MEMORY_MEMO, "hypaMemory")
"""Memos of memory messages: the current one, and one of older chats."""

SUMMARY_FAILED = "summary_failed"
"""The error code if the summarising model does not answer."""

Summarize = Callable[[Sequence[JsonObject]], str]
"""Asks a model to summarise: gets messages with role and content, returns the answer."""

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Turns texts into vectors, one each."""

T = TypeVar("T")
V = TypeVar("V")
SLOT = "{{slot}}"
_THOUGHTS = re.compile(r"<Thoughts>.*?</Thoughts>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModels:
    """The models of memory. ``default_prompt`` is the instruction if the settings have none.

    Without ``summarize`` a ``Chat`` asks its own model. ``embed`` is needed by the kinds of
    memory that search; without it they fail.
    """

    summarize: Summarize | None = None
    embed: Embed | None = None
    default_prompt: str = (
        "Summarise the conversation above in one short paragraph. Keep names, places, promises and facts; "
        "write nothing else."
    )

    def remembering(self) -> MemoryModels:
        """Return the same models with cached answers, because a source map builds a prompt again."""
        summarize, embed = self.summarize, self.embed
        return dataclasses.replace(
            self,
            summarize=None if summarize is None else _Remembering(summarize),
            embed=None if embed is None else _Remembering(embed),
        )

    def repeating(self) -> MemoryModels:
        """Return models that only repeat the cached answers of ``remembering()``."""
        summarize, embed = self.summarize, self.embed
        return dataclasses.replace(
            self,
            summarize=None if summarize is None else _repeating(summarize),
            embed=None if embed is None else _repeating(embed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInput:
    """A chat list that may be too long.

    ``total`` counts the whole prompt with the reply; ``settings`` is RisuAI's database, ``chat`` the stored chat.
    """

    items: Sequence[PromptMessage]
    total: int
    max_context: int
    max_response: int
    counter: MessageCounter
    settings: FrozenObject
    chat: FrozenObject
    models: MemoryModels
    user_name: str = "User"
    character_name: str = ""
    random: Callable[[], float] = lambda: 0.5
    expand: Callable[[str], str] = str
    """Expands macros in prompts for the summariser that are written in ChatML."""
    warn: Warn = log_warning

    def cost(self, items: Sequence[PromptMessage]) -> int:
        """Tokens of chat items."""
        return self.counter.messages(items)

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Turn texts into vectors."""
        if self.models.embed is None:
            raise MemoryFailedError("no_embedding", "this kind of memory needs memory=MemoryModels(embed=...)")
        return self.models.embed(texts)

    def summary(self, request: Sequence[JsonObject]) -> str:
        """Ask for a summary; an empty answer is a failure."""
        if self.models.summarize is None:
            raise MemoryFailedError("no_summariser", "memory needs memory=MemoryModels(summarize=...)")
        answer = self.models.summarize(request)
        require("what summarize returns", answer, str)
        if not trim(answer):
            raise MemoryFailedError("empty_summary", "the summary is empty")
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOutcome:
    """The chat list with memory at its front, and what to store on the chat (RisuAI's own keys)."""

    items: list[PromptMessage]
    total: int
    stored: Mapping[str, Json] = field(default_factory=dict[str, Json])
    last_memory: str | None = None


def memory_message(text: str) -> PromptMessage:
    """Return a memory message."""
    return PromptMessage(role="system", content=text, memo=MEMORY_MEMO)


class _Remembering(Generic[T, V]):
    """Asks a model, and caches its answers."""

    def __init__(self, ask: Callable[[Sequence[T]], V]) -> None:
        self._ask = ask
        self._answers: dict[str, V] = {}

    def __call__(self, question: Sequence[T]) -> V:
        key = json.dumps(list(question))
        if key not in self._answers:
            self._answers[key] = self._ask(question)
        return self._answers[key]

    def repeat(self, question: Sequence[T]) -> V:
        """Return the cached answer to a question."""
        key = json.dumps(list(question))
        if key not in self._answers:
            raise MemoryFailedError("not_asked", "the models of memory are not asked again for a source map")
        return self._answers[key]


def _repeating(ask: Callable[[Sequence[T]], V]) -> Callable[[Sequence[T]], V]:
    return cast("_Remembering[T, V]", ask).repeat if isinstance(ask, _Remembering) else ask


def ask_for_summary(given: MemoryInput, text: str, prompt: str) -> str:
    """Summarise a text with the settings' prompt: ChatML with a slot, or an instruction after the text."""
    prompt = prompt or given.models.default_prompt
    if prompt.count(SLOT) * len(text) > MAX_FILLED_TEXT:
        given.warn(f"the prompt for summaries would have more than {MAX_FILLED_TEXT} characters: its slots stay empty")
        parsed = parse_chat_ml(prompt.replace(SLOT, ""), given.expand)
    else:
        parsed = parse_chat_ml(prompt.replace(SLOT, text), given.expand)
    if parsed is not None:
        request: list[JsonObject] = [{"role": each.role, "content": each.content} for each in parsed]
    else:
        request = [{"role": "user", "content": text}, {"role": "system", "content": prompt}]
    return given.summary(request)


def without_thoughts(text: str) -> str:
    """Return a model's answer without its thoughts."""
    return trim(replace_delimited(_THOUGHTS, "</Thoughts>", "", text))


def as_lines(items: Sequence[PromptMessage]) -> str:
    """Chat items as ``role: content`` lines."""
    return "\n".join(f"{item.role}: {item.content}" for item in items)


class Similarity:
    """Ranks texts by how much they resemble queries; each text counts once, ties keep their order."""

    def __init__(self, embed: Embed, texts: Sequence[str]) -> None:
        self.texts = list(dict.fromkeys(texts))
        self._embed = embed
        self._vectors = embed(self.texts) if self.texts else ()

    def scores(self, query: str) -> dict[str, float]:
        """How much each text resembles a query (dot product)."""
        if not self.texts:
            return {}
        (wanted,) = self._embed([query])
        return {
            text: sum(a * b for a, b in zip(vector, wanted, strict=True))
            for text, vector in zip(self.texts, self._vectors, strict=True)
        }

    def ranked(self, weighted: Sequence[tuple[str, float]]) -> list[str]:
        """Texts by the sum of their weighted scores, best first."""
        totals = dict.fromkeys(self.texts, 0.0)
        for query, weight in weighted:
            for text, score in self.scores(query).items():
                totals[text] += score * weight
        return self._best_first(totals)

    def ranked_by_newest(self, queries: Sequence[str]) -> list[str]:
        """Texts by how they resemble some queries, newest first: the second counts half, the third a third.

        Scores are divided, not weighted with fractions, because rounding decides the order of ties.
        """
        totals = dict.fromkeys(self.texts, 0.0)
        for place, query in enumerate(queries, start=1):
            for text, score in self.scores(query).items():
                totals[text] += score / place
        return self._best_first(totals)

    def _best_first(self, totals: Mapping[str, float]) -> list[str]:
        return sorted(self.texts, key=lambda text: -totals[text])


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text that are not blank."""
    return [part for part in map(trim, text.split("\n\n")) if part]
